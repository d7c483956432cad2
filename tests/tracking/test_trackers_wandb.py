import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from embedrun.errors import EmbedrunError
from embedrun.tracking.trackers import WandbRun


class UsageError(Exception):
    """As wandb has it."""


class Fake(ModuleType):
    """The parts of wandb that a run touches, and what they were told."""

    def __init__(self) -> None:
        super().__init__("wandb")
        self.told: list = []
        self.Settings = dict
        self.refusal: Exception | None = None
        self.elsewhere: str | None = None

    def init(self, **options: Any) -> SimpleNamespace:
        if self.refusal:
            raise self.refusal
        self.options = options
        return SimpleNamespace(
            dir=self.elsewhere or f"{options['dir']}/wandb/offline-run-1/files",
            log=lambda values, step: self.told.append((values, step)),
            finish=lambda exit_code: self.told.append(exit_code),
        )


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> Fake:
    fake, errors = Fake(), ModuleType("wandb.errors")
    errors.UsageError = UsageError  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.setitem(sys.modules, "wandb.errors", errors)
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "true")  # put back afterwards
    return fake


def opened(folder: Path) -> WandbRun:
    rest = {"mode": "offline", "project": "embedrun", "entity": None, "group": "quickstart", "tags": None}
    return WandbRun({"folder": str(folder), "step": 0, "name": "run-1", "options": {"seed": 42}, **rest})


def test_a_run_has_the_name_of_its_directory_and_the_whole_configuration(tmp_path, wandb):
    run = opened(tmp_path)
    assert run.folder == tmp_path / "wandb"
    settings = wandb.options.pop("settings")
    assert wandb.options.pop("id")
    assert wandb.options == {
        "dir": str(tmp_path),
        "resume": "allow",
        "config": {"seed": 42},
        "mode": "offline",
        "project": "embedrun",
        "entity": None,
        "group": "quickstart",
        "tags": None,
        "name": "run-1",
    }
    assert settings.items() >= {"console": "off", "save_code": False, "disable_git": True}.items()
    assert settings["x_disable_stats"] is settings["x_disable_meta"] is True


def test_a_resumed_run_goes_on_under_its_id_and_another_run_has_another(tmp_path, wandb):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    ids = []
    for name in ("a", "a", "b"):
        opened(tmp_path / name)
        ids.append(wandb.options["id"])
    assert ids[0] == ids[1] != ids[2]
    assert (tmp_path / "a" / "wandb" / "id").read_text() == ids[0] + "\n"


def test_no_step_goes_back_because_wandb_would_drop_it(tmp_path, wandb):
    run = opened(tmp_path)
    run.add(1, "train/loss", 0.5)
    run.add(4, "train/loss", 0.25)
    run.add(2, "test/sts/avg/spearman", 70.0)  # of the best weights, those of step 2
    assert wandb.told == [
        ({"train/loss": 0.5}, 1),
        ({"train/loss": 0.25}, 4),
        ({"test/sts/avg/spearman": 70.0}, 4),
    ]


@pytest.mark.parametrize(("finished", "code"), [(True, 0), (False, 1)])
def test_the_end_says_whether_the_run_finished(tmp_path, wandb, finished, code):
    opened(tmp_path).close(finished=finished)
    assert wandb.told == [code]


def test_a_missing_key_is_told_with_what_to_do(tmp_path, wandb):
    wandb.refusal = UsageError("No API key configured. Use `wandb login` to log in.")
    with pytest.raises(
        EmbedrunError, match=r"^no API key; set WANDB_API_KEY, or run `wandb login`, or choose"
    ):
        opened(tmp_path)


def test_another_refusal_stays_as_it_is(tmp_path, wandb):
    wandb.refusal = UsageError("Invalid project name")
    with pytest.raises(UsageError, match="Invalid project name"):
        opened(tmp_path)


def test_files_that_wandb_puts_elsewhere_without_a_word_are_told(tmp_path, wandb):
    wandb.elsewhere = "/tmp/wandb/offline-run-1/files"
    with pytest.raises(PermissionError, match="wandb went to /tmp/wandb"):
        opened(tmp_path)
