import ctypes
import os
import signal
import sys
from pathlib import Path

import pytest

import embedrun
from embedrun import child

ROOT = Path(embedrun.__file__).parent


@pytest.fixture(autouse=True)
def _own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """This package is found by the first place of the path, as from `python -m`, and by no other."""
    others = [place for place in sys.path[1:] if place != str(ROOT.parent)]
    monkeypatch.setattr(sys, "path", [str(ROOT.parent), *others])
    for name in ("PYTHONPATH", "PYTHONSAFEPATH"):
        monkeypatch.setenv(name, "")  # so that it comes back in the end
        monkeypatch.delenv(name)


def test_a_child_does_not_look_for_modules_in_the_current_folder():
    assert child.command("a.b", "c") == [sys.executable, "-P", "-m", "a.b", "c"]


@pytest.mark.parametrize(("before", "after"), [(None, "ROOT"), ("/a:/b", "/a:/b:ROOT"), (":/a", "/a:ROOT")])
def test_a_child_finds_the_package_that_only_the_current_folder_led_to(monkeypatch, before, after):
    if before is not None:
        monkeypatch.setenv("PYTHONPATH", before)
    assert child.environment()["PYTHONPATH"] == after.replace("ROOT", str(ROOT.parent))


def test_a_child_whose_parent_is_gone_does_not_begin(monkeypatch: pytest.MonkeyPatch):
    asked: list[tuple[int, int]] = []

    class Library:
        def __init__(self, _: None) -> None:
            pass

        def prctl(self, option: int, number: int) -> None:
            asked.append((option, number))

    monkeypatch.setattr(ctypes, "CDLL", Library)
    child.end_with(os.getppid(), signal.SIGKILL)
    assert asked == [(1, signal.SIGKILL)]
    with pytest.raises(SystemExit):
        child.end_with(os.getpid(), signal.SIGTERM)
    assert len(asked) == 1
