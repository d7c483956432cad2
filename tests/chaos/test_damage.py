"""Damage to the newest checkpoint of a run that was killed: seen, set aside, and made up for."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import accidents
import forked
import operations
import pytest
import same_run
from small_mixes import EVERY, STEPS

from embedrun.training import checkpoint

pytestmark = pytest.mark.chaos
# The step of the newest checkpoint when the run is killed, half way to the next. That of AnglE is a new best,
# and the best before it was so long ago that only the one before still asks for it.
NEWEST = {"AnglE": 160, "ArcCSE": STEPS - EVERY, "RAOE": STEPS - EVERY}


def flip(path: Path) -> None:
    """One bit, in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.fixture(scope="module")
def killed_once(undisturbed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was killed between two checkpoints, near its end; holds its directory `run`."""
    folder = tmp_path_factory.mktemp("killed")
    die = partial(accidents.at_step, NEWEST[undisturbed.mix.name] + EVERY // 2, operations.kill)
    ended = forked.run(folder, *undisturbed.arguments, around=die)
    assert ended.code == -9, ended
    return folder


@pytest.fixture
def killed(killed_once: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(killed_once, tmp_path / "killed"))


@pytest.mark.parametrize("damage", [flip, truncate, Path.unlink], ids=lambda damage: damage.__name__)
def test_damage_to_any_file_is_seen_set_aside_and_made_up_for(
    undisturbed, killed_once: Path, damage: Callable[[Path], None], tmp_path: Path, report: Callable
):
    newest = NEWEST[undisturbed.mix.name]
    damaged = checkpoint.path_of(killed_once / "run/checkpoints", newest)
    files = sorted(path.name for path in damaged.iterdir())
    assert len(files) == 5
    steps, wrong = [], {}
    for file in files:
        folder = Path(shutil.copytree(killed_once, tmp_path / file))
        run = folder / "run"
        path = checkpoint.path_of(run / "checkpoints", newest) / file
        damage(path)
        ended = forked.run(folder, "resume", "run")
        assert ended.code == 0, (file, ended.said)
        aside = run / "checkpoints" / f"corrupt-{path.parent.name}"
        assert f"warning: run/checkpoints/{path.parent.name} is damaged ({file}" in ended.said
        assert f"set aside as {aside.name}; resuming from step-{newest - EVERY:08d}" in ended.said
        assert aside.is_dir()
        shutil.rmtree(aside)
        steps += same_run.resumed(run)
        if differences := same_run.differences(run, undisturbed.content):
            wrong[file] = differences
    report(f"{damage.__name__} of {len(files)} files", undisturbed.mix.name, len(files), steps, not wrong)
    assert wrong == {}


def test_without_a_whole_checkpoint_nothing_is_started_afresh(undisturbed, killed: Path):
    run = killed / "run"
    for number, path in enumerate(sorted((run / "checkpoints").glob("step-*"))):
        (flip, truncate, Path.unlink)[number % 3](path / "model.safetensors")
    before = (run / "metrics.jsonl").read_bytes()
    for _ in range(2):
        ended = forked.run(killed, "resume", "run")
        assert ended.code == 7, ended.said
        assert "no checkpoint to resume from" in ended.said
        assert "Traceback" not in ended.said
        again = forked.run(killed, *undisturbed.arguments)  # training.resume=auto finds it, too
        assert again.code == 7, again.said
    assert (run / "metrics.jsonl").read_bytes() == before
    assert checkpoint.published(run / "checkpoints") == []
    assert not (run / "results.json").exists()
