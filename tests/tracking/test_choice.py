import json
import sys

import pytest

from embedrun import tracking
from embedrun.config import TrackingConfig
from embedrun.config.options import WandbConfig


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple]:
    """What would be started: option, command, opening, patience, environment."""
    calls: list[tuple] = []

    def start(option, command, opening, *, patience, environment):
        calls.append((option, command, json.loads(json.dumps(opening)), patience, environment))

    monkeypatch.setattr(tracking, "Mirror", start)
    return calls


def start(folder, **options) -> None:
    tracking.mirrors(TrackingConfig(**options), folder, name="quickstart", options={"seed": 42}, step=7)


def test_local_files_alone_start_nothing(tmp_path, started):
    start(tmp_path)
    assert started == []


def test_wandb_is_told_the_run_the_experiment_and_the_configuration(tmp_path, started):
    start(tmp_path / "run-1", wandb=WandbConfig(tags=["a"]), patience=5.0)
    ((option, command, opening, patience, _),) = started
    assert option == "tracking.wandb"
    assert command == [sys.executable, "-P", "-m", "embedrun.tracking.mirror", "wandb", "5"]
    assert patience == 5.0
    assert opening == {
        "folder": str(tmp_path / "run-1"),
        "step": 7,
        "mode": "offline",
        "project": "embedrun",
        "entity": None,
        "group": "quickstart",
        "tags": ["a"],
        "name": "run-1",
        "options": {"seed": 42},
    }


def test_a_group_of_the_user_stays(tmp_path, started):
    start(tmp_path, wandb=WandbConfig(group="mine"))
    assert started[0][2]["group"] == "mine"


def test_tensorboard_is_told_the_run_alone(tmp_path, started):
    start(tmp_path, tensorboard=True)
    ((option, command, opening, _, _),) = started
    assert (option, command[-2:]) == ("tracking.tensorboard", ["tensorboard", "30"])
    assert opening == {"folder": str(tmp_path), "step": 7}


@pytest.mark.parametrize(("mode", "given"), [("offline", False), ("online", True)])
def test_the_key_goes_only_where_it_is_needed(tmp_path, started, monkeypatch, mode, given):
    monkeypatch.setenv("WANDB_API_KEY", "canary")
    start(tmp_path, wandb=WandbConfig(mode=mode), tensorboard=True)
    (_, _, to_wandb, _, wandb), (_, _, to_tensorboard, _, tensorboard) = started
    assert (wandb.get("WANDB_API_KEY") == "canary") is given
    assert "WANDB_API_KEY" not in tensorboard
    assert "canary" not in str((to_wandb, to_tensorboard))


def test_tensorboard_that_is_not_installed_is_a_problem(monkeypatch):
    assert tracking.problems(TrackingConfig(tensorboard=True, wandb=WandbConfig())) == []
    monkeypatch.setattr(tracking, "find_spec", lambda name: None)
    assert tracking.problems(TrackingConfig(wandb=WandbConfig())) == []
    assert tracking.problems(TrackingConfig(tensorboard=True)) == [
        "tracking.tensorboard: needs the tensorboard package; pip install '.[tensorboard]' in the folder of "
        "embedrun's sources, or choose tracking=local"
    ]
