import ast
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from embedrun.errors import RunFailed
from embedrun.training import checkpoint
from embedrun.training.checkpoint import load_weights, prune, published, save, verify

FILES = ["manifest.json", "model.safetensors", "optimizer.safetensors", "random.safetensors", "state.json"]


class Tied(nn.Module):
    """Two weights that share memory, and one whose memory is not in order."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 2, bias=False)
        self.second = nn.Linear(3, 2, bias=False)
        self.second.weight = self.first.weight
        self.turned = nn.Parameter(torch.arange(6.0).reshape(2, 3).t())


@pytest.fixture
def model() -> Tied:
    return Tied()


@pytest.fixture
def write(tmp_path: Path, model: Tied) -> Callable[[int], Path]:
    """Train one step, then save it under a number."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)

    def one(step: int) -> Path:
        optimizer.zero_grad()
        (model.second(torch.ones(1, 3)).sum() + model.turned.square().sum()).backward()
        optimizer.step()
        state = {"best": {"value": 1.5}}
        return save(tmp_path / "checkpoints", step=step, model=model, optimizer=optimizer, state=state)

    return one


def test_a_checkpoint_is_whole_once_it_is_there(write):
    path = write(7)
    assert path.name == "step-00000007"
    assert sorted(file.name for file in path.iterdir()) == FILES
    assert verify(path) == []
    assert [folder.name for folder in path.parent.iterdir()] == ["step-00000007"]


def test_weights_come_back_bit_for_bit(write, model):
    path = write(1)
    wanted = {name: weight.detach().clone() for name, weight in model.state_dict().items()}
    for weight in model.parameters():
        nn.init.zeros_(weight)
    load_weights(path, model)
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, wanted[name])
    assert model.first.weight is model.second.weight


def test_frozen_weights_are_neither_written_nor_touched_and_buffers_are(write, model):
    model.turned.requires_grad_(False)
    model.register_buffer("seen", torch.tensor([3.0]))
    path = write(1)
    assert set(load_file(path / "model.safetensors")) == {"first.weight", "second.weight", "seen"}
    nn.init.zeros_(model.turned)
    model.seen.zero_()
    load_weights(path, model)
    assert model.seen.item() == 3
    assert not model.turned.any()


def test_a_checkpoint_of_another_model_is_refused(write, model):
    path = write(1)
    model.extra = nn.Parameter(torch.zeros(2))
    with pytest.raises(RunFailed, match=r"of another model: 1 weights differ \(extra, ...\)") as caught:
        load_weights(path, model)
    assert caught.value.exit_code == 7
    del model.extra
    model.turned = nn.Parameter(torch.zeros(5))
    with pytest.raises(RunFailed, match=r"1 weights differ \(turned, ...\)"):
        load_weights(path, model)


def test_the_moments_of_adam_are_saved_by_the_name_of_their_weight(write, model):
    moments = load_file(write(1) / "optimizer.safetensors")
    kinds = ("step", "exp_avg", "exp_avg_sq")
    assert set(moments) == {f"{kind}/{name}" for kind in kinds for name in ("first.weight", "turned")}
    assert moments["step/turned"].item() == 1
    assert moments["exp_avg/turned"].shape == (3, 2)
    torch.testing.assert_close(moments["exp_avg/first.weight"], torch.full((2, 3), 0.1))  # (1 - beta1) * 1


def test_state_is_plain_data_with_the_step(write):
    state = json.loads((write(3) / "state.json").read_text())
    assert (state["step"], state["best"]) == (3, {"value": 1.5})
    assert state["versions"]["torch"] == torch.__version__


def test_every_random_state_can_be_restored_and_saving_draws_no_number(write):
    torch.manual_seed(5)
    np.random.seed(5)
    random.seed(5)
    random.gauss(0, 1)  # leaves the second half of its pair behind
    path = write(1)
    wanted = (torch.rand(3).tolist(), np.random.rand(3).tolist(), random.gauss(0, 1))
    saved = load_file(path / "random.safetensors")
    torch.set_rng_state(saved["torch"])
    position, has_gauss, cached = saved["numpy_rest"].tolist()
    keys = saved["numpy_keys"].numpy().astype(np.uint32)
    np.random.set_state(("MT19937", keys, int(position), int(has_gauss), cached))
    state = json.loads((path / "state.json").read_text())["python_random"]
    random.setstate((state["version"], tuple(state["internal"]), state["gauss"]))
    assert (torch.rand(3).tolist(), np.random.rand(3).tolist(), random.gauss(0, 1)) == wanted


def flip(content: bytes, place: int, bit: int) -> bytes:
    return content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :]


@pytest.mark.parametrize("name", FILES)
def test_a_missing_or_shortened_file_is_detected(write, name: str):
    path = write(1) / name
    content = path.read_bytes()
    for size in (0, 1, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        assert name in verify(path.parent)[0], size
    path.write_bytes(content + b"\0")
    assert verify(path.parent)
    path.unlink()
    assert name in verify(path.parent)[0]
    path.write_bytes(content)
    assert verify(path.parent) == []


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_is_detected_wherever_it_is(write, name: str):
    path = write(1) / name
    content = path.read_bytes()
    stride = 1 if name == "manifest.json" else max(1, len(content) // 50)
    for place in range(0, len(content), stride):
        path.write_bytes(flip(content, place, 1 << place % 8))
        assert verify(path.parent), place
    path.write_bytes(content)
    assert verify(path.parent) == []


@pytest.mark.parametrize(
    "content", [b"[]", b"null", b"{}", b'{"schema": 1, "step": 1, "files": []}', b'"x"', b"\xff"]
)
def test_a_manifest_that_is_none_is_a_fault_and_no_crash(write, content: bytes):
    path = write(1)
    (path / "manifest.json").write_bytes(content)
    (fault,) = verify(path)
    assert "not a manifest" in fault


def test_a_checkpoint_of_another_schema_says_so(write):
    path = write(1) / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema": 2}))
    assert verify(path.parent) == [f"{path}: schema 2, this version reads 1"]


def test_a_folder_of_another_step_is_a_fault(write):
    path = write(1)
    moved = path.rename(path.with_name("step-00000002"))
    assert verify(moved) == [f"{moved}/manifest.json: belongs to step-00000001"]


def test_a_damaged_checkpoint_is_not_loaded(write, model):
    path = write(1)
    (path / "state.json").write_text("{}")
    before = model.turned.detach().clone()
    with pytest.raises(RunFailed, match=r"checkpoint is damaged: .*state\.json: differs") as failure:
        load_weights(path, model)
    assert failure.value.exit_code == 7
    assert torch.equal(model.turned, before)


def test_what_a_killed_save_or_removal_left_is_gone_after_the_next_save(write, tmp_path):
    for name in (".tmp-step-00000003", ".tmp-step-00000004", ".trash-step-00000001"):
        leftover = tmp_path / "checkpoints" / name
        leftover.mkdir(parents=True)
        (leftover / "model.safetensors").write_bytes(b"half")
    write(3)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-00000003"]


def test_a_save_that_fails_publishes_nothing_and_the_next_one_works(write, tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "_fsync", full)
        with pytest.raises(OSError, match="No space left"):
            write(1)
    assert published(tmp_path / "checkpoints") == []
    assert verify(write(1)) == []


def test_prune_keeps_the_newest_and_the_best(write, tmp_path):
    for step in (1, 2, 3, 4, 5):
        write(step)
    prune(tmp_path / "checkpoints", keep=2, best=2)
    assert published(tmp_path / "checkpoints") == [2, 4, 5]
    assert len(list((tmp_path / "checkpoints").iterdir())) == 3
    prune(tmp_path / "checkpoints", keep=2, best=None)
    assert published(tmp_path / "checkpoints") == [4, 5]


def test_a_folder_of_the_user_is_none_of_ours(write, tmp_path):
    for name in ("step-old", "step-00000001 (copy)", "step-1"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    for step in (1, 2, 100_000_000):
        write(step)
    assert published(tmp_path / "checkpoints") == [1, 2, 100_000_000]
    prune(tmp_path / "checkpoints", keep=2, best=None)
    assert {path.name for path in (tmp_path / "checkpoints").iterdir()} == {
        "step-old", "step-00000001 (copy)", "step-1", "step-00000002", "step-100000000",
    }  # fmt: skip


def calls_and_imports(source: Path) -> Iterator[str]:
    """Every import, and every call with its keywords, as `module.name(keyword=value)` pieces."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call):
            yield f"{ast.unparse(node.func)}("
            yield from (f"{keyword.arg}={ast.unparse(keyword.value)}" for keyword in node.keywords)


@pytest.mark.parametrize(
    "example", ["import pickle", "torch.load(x)", "import joblib", "np.load(x, allow_pickle=True)",
                "AutoModel.from_pretrained(x, trust_remote_code=True)", "from torch import load"],
)  # fmt: skip
def test_the_search_for_pickle_finds_it(tmp_path: Path, example: str):
    (tmp_path / "x.py").write_text(example)
    assert any(unsafe(piece) for piece in calls_and_imports(tmp_path / "x.py"))


def unsafe(piece: str) -> bool:
    modules = ("pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal")
    keywords = ("allow_pickle=True", "weights_only=False", "trust_remote_code=True")
    head = piece.rstrip("(").split(".")[0]
    return head in modules or piece in ("torch.load(", "torch.load", *keywords)


def test_nothing_in_the_package_reads_pickle_or_runs_remote_code():
    root = Path(checkpoint.__file__).parents[1]
    found: dict[str, list[Any]] = {}
    for source in root.rglob("*.py"):
        if pieces := [piece for piece in calls_and_imports(source) if unsafe(piece)]:
            found[str(source.relative_to(root))] = pieces
    assert found == {}
