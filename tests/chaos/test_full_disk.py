"""A run whose disk is full ends with exit 5 and loses nothing; with space freed it goes on."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import accidents
import forked
import operations
import pytest
import same_run
import small_disk
from small_mixes import EVERY, STEPS

from embedrun.training import checkpoint

pytestmark = pytest.mark.chaos
SIZE = 4_000_000  # bytes; a finished run has a million
LAST = STEPS // 2  # step of the last checkpoint before the disk is full
NEXT = LAST + EVERY
BALLAST = Path("ballast")


def fill(left: float) -> None:
    """Leave about as many bytes free as so many checkpoints have."""
    last = Path(f"run/checkpoints/step-{LAST:08d}")
    size = sum(path.stat().st_size for path in last.iterdir())
    BALLAST.write_bytes(bytes(max(0, shutil.disk_usage(".").free - int(left * size))))
    with BALLAST.open("ab") as file:
        while not left:
            try:
                os.write(file.fileno(), bytes(512))
            except OSError:
                return


@contextmanager
def while_saving() -> Iterator[None]:
    """Others fill the disk once the save has found room enough."""
    require = checkpoint.require

    def pass_and_fill(path: Path, needed: int) -> None:
        require(path, needed)
        if path.name.endswith(str(NEXT)):
            fill(0.4)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "require", pass_and_fill)
        yield


@contextmanager
def between_saves() -> Iterator[None]:
    """Not even a line of metrics has room."""
    with accidents.at_step(LAST + 3, partial(fill, 0)):
        yield


@pytest.mark.parametrize("when", [while_saving, between_saves])
def test_a_full_disk_ends_the_run_and_with_space_freed_no_byte_differs(
    undisturbed, when: forked.Around, tmp_path: Path, report: Callable
):
    folder, seen = tmp_path / "small", tmp_path / "seen.json"
    folder.mkdir()

    def work() -> None:
        ended = forked.run(folder, *undisturbed.arguments, around=when)
        assert ended.code == 5, ended.said
        assert "Traceback" not in ended.said
        assert "no space left on the disk" in ended.said
        if when is not between_saves:
            assert f"run/checkpoints/step-{NEXT:08d}: no space left" in ended.said
            assert "a checkpoint needs " in ended.said
            assert "resume with 'embedrun resume run'" in ended.said
        checkpoints = folder / "run" / "checkpoints"
        steps = checkpoint.published(checkpoints)
        assert steps[-2:] == [LAST - EVERY, LAST]
        assert not any(checkpoint.verify(checkpoint.path_of(checkpoints, step)) for step in steps)
        (folder / BALLAST).unlink()
        again = forked.run(folder, "resume", "run")
        assert again.code == 0, again.said
        resumed = same_run.resumed(folder / "run")
        seen.write_text(json.dumps([resumed, same_run.differences(folder / "run", undisturbed.content)]))

    if not small_disk.run(folder, SIZE, work):
        pytest.skip("this machine allows no file system of one's own; the injected error stands for it")
    resumed, differences = same_run.read(seen)
    report(f"disk full {when.__name__.replace('_', ' ')}", undisturbed.mix.name, 1, resumed, not differences)
    assert (resumed, differences) == ([LAST], [])


@pytest.mark.parametrize("undisturbed", ["AnglE"], indirect=True)
def test_a_write_that_finds_no_space_ends_the_run_and_no_byte_differs(undisturbed, tmp_path: Path):
    change = "tear .tmp-step-N/optimizer.safetensors"
    around = partial(operations.strike, change, operations.disk_full, Path("run/checkpoints"))
    ended = forked.run(tmp_path, *undisturbed.arguments, around=around)
    assert ended.code == 5, ended.said
    assert f"run/checkpoints/step-{EVERY:08d}: no space left" in ended.said
    assert sorted((tmp_path / "run" / "checkpoints").iterdir()) == []
    assert forked.run(tmp_path, "resume", "run").code == 0
    assert same_run.differences(tmp_path / "run", undisturbed.content) == []
