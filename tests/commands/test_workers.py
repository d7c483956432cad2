import json
import signal
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from embedrun.cli import main
from embedrun.config import GpuConfig, TrainingConfig
from embedrun.errors import ConfigError
from embedrun.training import processes
from embedrun.training.workers import end, start


def test_one_process_needs_nothing():
    assert processes.options_problems(GpuConfig(), TrainingConfig(batch_size=1)) == []
    assert processes.options_problems(GpuConfig(processes=4), TrainingConfig(batch_size=4)) == []
    several = GpuConfig(processes=2, nodes=2, rendezvous="[::1]:29500")
    assert processes.options_problems(several, TrainingConfig()) == []


def test_what_several_processes_cannot_train_is_refused_together():
    training = TrainingConfig(batch_size=5, seeded_dropout=False)
    assert processes.options_problems(GpuConfig(processes=3, nodes=2), training) == [
        "gpu.rendezvous: no value for gpu.nodes=2; name host:port of one of the machines, as all of them "
        "reach it",
        "training.batch_size: 5 rows for 6 processes leave one without any; raise it, or lower gpu.processes",
        "training.seeded_dropout: several processes need it; leave it null",
    ]


@pytest.mark.parametrize(
    "where", ["node1", "node1:", "node1:70000", "http://node1:1", "::1:29500", "a b:1", ""]
)
def test_a_rendezvous_is_a_host_and_a_port(where: str):
    (problem,) = processes.options_problems(GpuConfig(nodes=2, rendezvous=where), TrainingConfig())
    assert problem == f"gpu.rendezvous: expected host:port, such as node1:29500, got {where!r}"


def test_one_machine_meets_no_other():
    assert processes.options_problems(GpuConfig(processes=2, rendezvous="node1:29500"), TrainingConfig()) == [
        "gpu.rendezvous: is where several machines meet, and gpu.nodes is 1; leave it null, or raise "
        "gpu.nodes"
    ]


@pytest.mark.parametrize(
    ("device", "devices", "have"),
    [("auto", 1, "1 CUDA device"), ("cuda", 3, "3 CUDA devices"), ("cpu", 1, ""), ("cuda", 4, "")],
)
def test_fewer_devices_than_processes_are_refused(
    device: str, devices: int, have: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: devices)
    gpu = GpuConfig(device=device, processes=4)  # type: ignore[arg-type]
    found = start.lacking(gpu)
    assert [problem.split("machine has ")[1].split(";")[0] for problem in found] == ([have] if have else [])
    if have:
        with pytest.raises(ConfigError, match=r"gpu\.processes: 4 asked for, one a device"):
            start.launch(gpu, {}, [], None, None, run="a:b")


def test_processors_are_shared_without_a_limit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert start.lacking(GpuConfig(processes=64)) == []


def test_a_worker_starts_no_workers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv(end.PLACE, raising=False)
    assert [start.wanted(GpuConfig(processes=size)) for size in (1, 2)] == [False, True]
    assert start.wanted(GpuConfig(nodes=2))
    start.made(Path("run"))  # no parent is to be told
    assert list(tmp_path.rglob("run")) == []
    monkeypatch.setenv(end.PLACE, str(tmp_path))
    assert not start.wanted(GpuConfig(processes=2))
    start.made(Path("outputs/run"))
    assert (tmp_path / "run").read_text() == "outputs/run"


@pytest.mark.slow
@pytest.mark.usefixtures("counted")
def test_two_processes_train_what_one_does(options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    both = [*options, "training.seeded_dropout=true", "training.batch_size=15"]
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    assert main(["train", *both, "hydra.run.dir=alone"]) == 0
    alone = capfd.readouterr()
    assert main(["train", *both, "gpu.processes=2", "hydra.run.dir=two"]) == 0
    together = capfd.readouterr()
    # Shares of 8 and 7 rows.
    assert "15 rows over 2 processes, each anchor is compared with 14 others\n" in together.err
    assert together.err.count("run directory: two\n") == 1  # the other process is silent
    assert_equal_weights(Path("two"), Path("alone"), bar=1e-5)
    results = [json.loads(Path(run, "results.json").read_text()) for run in ("two", "alone")]
    assert results[0]["scores"] == pytest.approx(results[1]["scores"], abs=1e-6)
    assert results[0]["counts"] == results[1]["counts"]
    files = [sorted(path.name for path in Path(run).iterdir()) for run in ("two", "alone")]
    assert files[0] == files[1]
    assert alone.out.count("\n") <= together.out.count("\n")
    assert list((tmp_path / "temporary").glob("embedrun*")) == []
    after = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    assert after == handlers


def assert_equal_weights(run: Path, other: Path, *, bar: float) -> None:
    """The weights of two models, as one vector each, differ by less than `bar` of their length."""
    found, wanted = (load_file(path / "model" / "model.safetensors") for path in (run, other))
    assert found.keys() == wanted.keys()
    one, two = (
        np.concatenate([weights[name].numpy().ravel() for name in wanted]) for weights in (found, wanted)
    )
    assert np.linalg.norm(one - two) <= bar * np.linalg.norm(two)
