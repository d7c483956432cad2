"""Killed at every change of a folder: there is a whole checkpoint, and the next save works."""

import multiprocessing
import signal
from collections.abc import Callable
from pathlib import Path

import operations
import pytest

from embedrun.training.checkpoint import newest, path_of, prune, published, verify

Work = Callable[[], object]


def raised(number: int, folder: Path, work: Work) -> bool:
    """Whether the work was ended at this change, by an exception that nothing catches."""
    with operations.strike(number, operations.raise_killed, folder):
        try:
            work()
        except operations.Killed:
            return True
    return False


def killed(number: int, folder: Path, work: Work) -> bool:
    """The same by a real `kill -9`, of a process of its own."""

    def end() -> None:
        with operations.strike(number, operations.kill, folder):
            work()

    process = multiprocessing.get_context("fork").Process(target=end)
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


HOW = [raised, pytest.param(killed, marks=pytest.mark.slow)]


@pytest.fixture
def every_kill(write: Callable[[int], Path], folder: Path) -> Callable[..., int]:
    """Kill some work at each of its changes in turn, and look at what it leaves; how many there are."""

    def kills(how: Callable, work: Work, before: Work, *, least: int) -> int:
        """`least`: number of whole checkpoints that must be there after each kill."""
        number = 0
        while True:
            clear(folder)
            before()
            number += 1
            was_killed = how(number, folder, work)
            assert newest(folder, expected=None)[1] == [], number
            steps = published(folder)
            assert len(steps) >= least, number
            assert [step for step in steps if verify(path_of(folder, step))] == [], number
            assert sorted(folder.glob(".*")) == [], number
            assert verify(write(9)) == [], number
            assert published(folder) == [*steps, 9], number
            if not was_killed:
                return number - 1

    return kills


def clear(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True) if folder.exists() else ():
        path.rmdir() if path.is_dir() else path.unlink()


@pytest.mark.parametrize("how", HOW)
def test_a_killed_save_leaves_the_older_ones_whole(write, every_kill, how):
    def two() -> None:
        write(1)
        write(2)

    assert every_kill(how, lambda: write(3), two, least=2) == 19


@pytest.mark.parametrize("how", HOW)
def test_a_killed_replacement_of_the_only_checkpoint_leaves_one(write, every_kill, how):
    # two renames, an fsync, five files and their folder more than a plain save
    assert every_kill(how, lambda: write(1), lambda: write(1), least=1) == 19 + 9


@pytest.mark.parametrize("how", HOW)
def test_a_killed_removal_leaves_those_that_stay(write, every_kill, folder, how):
    def four() -> None:
        for step in (1, 2, 3, 4):
            write(step)

    assert every_kill(how, lambda: prune(folder, keep=2, best=1), four, least=3) == 8


@pytest.mark.parametrize("how", HOW)
def test_a_killed_clearing_of_debris_is_taken_up_again(write, every_kill, folder, how):
    def debris() -> None:
        write(1)
        write(2).rename(folder / ".old-step-00000002")
        for name in (".tmp-step-00000003", ".trash-step-00000001"):
            (folder / name).mkdir()
            (folder / name / "model.safetensors").write_bytes(b"half")

    assert every_kill(how, lambda: newest(folder, expected=None), debris, least=2) == 5
