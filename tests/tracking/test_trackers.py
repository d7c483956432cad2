"""TensorBoard's files as its own reader sees them, and what wandb is called with."""

import math
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from embedrun.config.options import WandbConfig
from embedrun.errors import EmbedrunError
from embedrun.tracking import trackers
from embedrun.tracking.trackers import TensorboardFiles, WandbRun


class Fake(ModuleType):
    """The parts of wandb that a run touches, and what they were called with."""

    def __init__(self) -> None:
        super().__init__("wandb")
        self.calls: list = []
        self.Settings = self.setup = dict

    def login(self, *, prompt: bool) -> bool:
        assert not prompt
        return False

    def init(self, **options: Any) -> SimpleNamespace:
        self.options = options
        return SimpleNamespace(
            log=lambda values, step: self.calls.append((values, step)),
            finish=lambda exit_code: self.calls.append(exit_code),
        )


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> Fake:
    fake = Fake()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "true")  # put back afterwards
    return fake


def opened(folder: Path, **options: Any) -> WandbRun:
    folder.mkdir(exist_ok=True)
    return WandbRun(folder, WandbConfig(**options), group="quickstart", options={"seed": 42}, patience=5.0)


def test_wandb_gets_the_directory_the_configuration_and_one_id_for_each_run(tmp_path, wandb):
    ids = []
    for name in ("a", "a", "b"):
        opened(tmp_path / name, tags=["x"])
        ids.append(wandb.options.pop("id"))
        settings = wandb.options.pop("settings")
    assert ids[0] == ids[1] != ids[2]
    assert (tmp_path / "a" / "wandb" / "id").read_text() == ids[0] + "\n"
    assert wandb.options == {
        "dir": str(tmp_path / "b"),
        "resume": "allow",
        "config": {"seed": 42},
        "mode": "offline",
        "project": "embedrun",
        "entity": None,
        "group": "quickstart",
        "tags": ["x"],
        "name": "b",
    }
    assert settings.items() >= {"console": "off", "save_code": False, "finish_timeout": 5.0}.items()
    opened(tmp_path / "b", group="mine")
    assert wandb.options["group"] == "mine"


@pytest.mark.parametrize(("finished", "code"), [(True, 0), (False, 1)])
def test_no_step_goes_back_because_wandb_would_drop_it(tmp_path, wandb, finished, code):
    run = opened(tmp_path)
    run.add(4, "train/loss", 0.25)
    run.add(2, "test/sts/avg/spearman", 70.0)  # of the best weights, those of step 2
    run.close(finished=finished)
    assert wandb.calls == [({"train/loss": 0.25}, 4), ({"test/sts/avg/spearman": 70.0}, 4), code]


def test_missing_key_is_named_and_not_asked_for(tmp_path, wandb):
    with pytest.raises(EmbedrunError, match=r"^no API key; set WANDB_API_KEY, or run `wandb login`, or"):
        opened(tmp_path, mode="online")


def write(folder: Path, steps: range, *, step: int = 0) -> None:
    files = TensorboardFiles(folder, step=step)
    for one in steps:
        files.add(one, "train/loss", 1 / one if one else math.nan)
    files.close(finished=True)


@pytest.fixture(scope="module")
def reader() -> Any:
    """TensorBoard's own reader; to import it and its writer takes seconds."""
    import torch.utils.tensorboard  # noqa: F401
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator


def scalars(reader: Any, folder: Path) -> list[tuple[int, float]]:
    read = reader(str(folder / "tensorboard"), size_guidance={"scalars": 0})
    read.Reload()
    return [(event.step, event.value) for event in read.Scalars("train/loss")]


def test_a_resumed_run_doubles_and_loses_nothing_in_tensorboard(reader, tmp_path, monkeypatch):
    # Files have their second in their name, and are read in that order; in a test all have the same one.
    from tensorboard.summary.writer import event_file_writer

    second = iter(range(1_000_000_000, 1_000_001_000))
    monkeypatch.setattr(event_file_writer.time, "time", lambda: next(second))
    write(tmp_path / "a", range(8))  # killed at step 7, the checkpoint is of step 4
    write(tmp_path / "a", range(5, 10), step=4)
    (_, undefined), *values = scalars(reader, tmp_path / "a")
    assert math.isnan(undefined)
    assert values == [(step, pytest.approx(1 / step)) for step in range(1, 10)]
    write(tmp_path / "b", range(8))
    write(tmp_path / "b", range(3))  # resumed before its first checkpoint
    assert [step for step, _ in scalars(reader, tmp_path / "b")] == [0, 1, 2]


def test_importing_the_module_imports_no_tensorboard():
    assert "SummaryWriter" not in vars(trackers)
