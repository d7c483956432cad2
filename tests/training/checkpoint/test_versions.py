import json

import torch

from embedrun.training.checkpoint import differences


def test_nothing_differs_on_the_machine_that_made_it(write):
    assert differences(json.loads((write(1) / "state.json").read_text())) == []


def test_what_differs_is_said_as_then_and_now(write, monkeypatch):
    state = json.loads((write(1) / "state.json").read_text())
    state["versions"] |= {"torch": "2.0.0", "devices": "NVIDIA A100", "gone": "1"}
    del state["versions"]["numpy"]
    monkeypatch.setattr(torch, "get_num_threads", lambda: 64)
    threads = state["versions"]["threads"]
    found = differences(state)
    assert f"torch 2.0.0 then, {torch.__version__} now" in found
    assert "devices NVIDIA A100 then, none now" in found
    assert f"threads {threads} then, 64 now" in found
    assert "gone 1 then, unknown now" in found
    assert any(line.startswith("numpy unknown then, ") for line in found)
    assert len(found) == 5


def test_all_that_decides_rounding_is_recorded(write):
    versions = json.loads((write(1) / "state.json").read_text())["versions"]
    assert set(versions) == {
        "embedrun", "python", "torch", "transformers", "numpy", "cuda", "devices", "cpu", "threads",
    }  # fmt: skip
    assert versions["threads"] == str(torch.get_num_threads())
