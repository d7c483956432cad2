import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from embedrun.store import cache

KEY = {"text": "a", "length": (8, 9)}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def made() -> list[Path]:
    return []


@pytest.fixture
def make(made: list[Path]) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        made.append(folder)
        (folder / "a").write_bytes(b"content of a")
        (folder / "b").write_bytes(b"")

    return write


def names() -> list[str]:
    return sorted(path.name for path in cache.folder().iterdir() if path.is_dir())


def test_what_is_made_once_is_found_by_its_key(make, made):
    first = cache.kept("thing", KEY, make, what="a thing")
    assert cache.kept("thing", dict(reversed(KEY.items())), make, what="a thing") == first
    assert len(made) == 1
    assert (first / "a").read_bytes() == b"content of a"
    assert cache.kept("thing", {**KEY, "length": 9}, make, what="a thing") != first
    assert cache.kept("other", KEY, make, what="a thing") != first
    assert len(made) == len(names()) == 3


@pytest.mark.parametrize("damage", ["cut", "flipped", "gone", "no notes"])
def test_what_is_damaged_is_made_anew(make, made, damage: str, capsys, tmp_path):
    path = cache.kept("thing", KEY, make, what="a thing")
    if damage == "gone":
        (path / "a").unlink()
    elif damage == "no notes":
        (path / "entry.json").write_text("{")
    else:
        (path / "a").write_bytes({"cut": b"content of", "flipped": b"content of b"}[damage])
    path.rename(tmp_path / "aside")  # another folder: this process has not looked at it yet
    (tmp_path / "aside2").mkdir()
    for file in (tmp_path / "aside").iterdir():
        file.rename(tmp_path / "aside2" / file.name)
    (tmp_path / "aside2").rename(path)
    assert cache.kept("thing", KEY, make, what="a thing") == path
    assert (len(made), (path / "a").read_bytes()) == (2, b"content of a")
    assert "a thing: what was prepared before is damaged and is made anew" in capsys.readouterr().err


def test_a_full_disk_leaves_nothing_behind():
    def fail(folder: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        cache.kept("thing", KEY, fail, what="a thing")
    assert names() == []


def test_entries_have_size_and_last_use_and_are_removed_by_age(make):
    old = cache.kept("thing", KEY, make, what="an old thing")
    os.utime(old / "entry.json", (1000.0, 1000.0))
    new = cache.kept("thing", {"text": "b"}, make, what="a new thing")
    entries = cache.entries()
    assert [(entry.path, entry.what) for entry in entries] == [(new, "a new thing"), (old, "an old thing")]
    assert (entries[1].size, entries[1].used) == (12 + (old / "entry.json").stat().st_size, 1000.0)
    assert cache.clean(before=1000.0) == []
    assert [entry.path for entry in cache.clean(before=1001.0)] == [old]
    os.utime(new / "entry.json", (1000.0, 1000.0))
    cache.kept("thing", {"text": "b"}, make, what="a new thing")
    assert cache.entries()[0].used > 1000.0  # using it makes it young
    assert [entry.path for entry in cache.clean()] == [new]
    assert names() == []
