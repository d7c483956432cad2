import errno
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path, PosixPath
from types import SimpleNamespace
from typing import ClassVar

import pytest

from embedrun.errors import DISK, DataError, EmbedrunError
from embedrun.store import cache

KEY = {"text": "a", "length": (8, 9)}  # a tuple, which JSON gives back as a list


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
    """What there is, beside the locks."""
    return sorted(path.name for path in cache.folder().iterdir() if not path.name.startswith(".lock"))


def forget() -> None:
    """As another process, which has looked at nothing yet."""
    cache._found_whole.clear()


def test_what_is_made_once_is_found_by_its_key(make, made, monkeypatch):
    first = cache.kept("thing", KEY, make, what="a thing")
    forget()
    assert cache.kept("thing", dict(reversed(KEY.items())), make, what="a thing") == first
    assert len(made) == 1
    assert (first / "a").read_bytes() == b"content of a"
    assert first.parent == cache.folder()
    assert cache.kept("thing", {**KEY, "length": 9}, make, what="a thing") != first
    assert cache.kept("other", KEY, make, what="a thing") != first
    assert len(made) == len(names()) == 3
    monkeypatch.setattr(cache, "_checksum", lambda path: pytest.fail("read twice"))
    assert cache.kept("thing", KEY, make, what="a thing") == first


OTHER_NOTES = ["{", "[]", "{}", json.dumps({"key": KEY, "files": ["a", "b"]})]


@pytest.mark.parametrize(
    "damage",
    ["cut", "flip", "longer", "gone", "more", "foreign", "a file", "a link", "a loose link", *OTHER_NOTES],
)
def test_what_is_damaged_cut_or_foreign_is_made_anew(make, made, damage: str, capsys):
    path = cache.kept("thing", KEY, make, what="a thing")
    if damage == "gone":
        (path / "a").unlink()
    elif damage == "more":
        (path / "c").touch()
    elif damage in OTHER_NOTES:
        (path / "entry.json").write_text(damage)
    elif damage == "foreign":
        other = cache.kept("thing", {"text": "b"}, make, what="a thing")
        (path / "entry.json").write_bytes((other / "entry.json").read_bytes())
    elif damage == "a file":
        path.rename(path.with_name("moved"))
        path.write_text("not a folder")
    elif damage.endswith("link"):
        path.rename(path.with_name("moved"))
        path.symlink_to(".." if damage == "a link" else "nowhere")
    else:
        content = {"cut": b"content of", "flip": b"content of b", "longer": b"content of a."}[damage]
        (path / "a").write_bytes(content)
    forget()
    before = len(made)
    assert cache.kept("thing", KEY, make, what="a thing") == path
    assert len(made) == before + 1
    assert (path / "a").read_bytes() == b"content of a"
    assert "a thing: what was prepared before is damaged and is made anew" in capsys.readouterr().err


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), ValueError("faulty"), DataError("faulty")])
def test_nothing_is_left_of_what_fails(fault: BaseException):
    def fail(folder: Path) -> None:
        (folder / "a").write_bytes(b"half")
        raise fault

    with pytest.raises(type(fault)):
        cache.kept("thing", KEY, fail, what="a thing")
    assert names() == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("what", ["a thing", "anything"])
def test_a_full_disk_names_the_folder_and_the_way_on(monkeypatch, number: int, what: str):
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, "No space left on device")

    if what == "anything":  # it is full before the thing is begun
        monkeypatch.setattr(cache.tempfile, "TemporaryFile", fail)
    with pytest.raises(
        EmbedrunError, match=rf"cache/embedrun/prepared: no room left .* for {what};.*clean"
    ) as caught:
        cache.kept("thing", KEY, fail, what="a thing")
    assert caught.value.exit_code == DISK
    assert names() == []


def test_the_folder_may_be_deleted_at_any_time(make, made):
    path = cache.kept("thing", KEY, make, what="a thing")
    shutil.rmtree(cache.folder())
    assert cache.kept("thing", KEY, make, what="a thing") == path
    assert len(made) == 2
    assert cache.kept("thing", KEY, make, what="a thing") == path  # now it has been looked at
    path.rename(path.with_name("moved"))
    path.mkdir()
    assert cache.kept("thing", KEY, make, what="a thing") == path
    assert len(made) == 3


def test_the_remains_of_a_killed_process_go_when_the_next_thing_is_made(make):
    cache.kept("thing", KEY, make, what="a thing")
    remains = cache.folder() / f".tmp-thing-{'ab' * 20}"
    remains.mkdir()
    (remains / "half").touch()
    cache.kept("thing", {"text": "b"}, make, what="a thing")
    assert not remains.exists()


def test_what_another_process_is_making_stays(make):
    remains = cache.folder() / f".tmp-thing-{'ab' * 20}"
    remains.mkdir(parents=True)
    with cache._lock(remains) as lock:
        assert cache.take(lock)
        cache.kept("thing", KEY, make, what="a thing")
        assert cache.clean() != []
    assert remains.exists()


SLOW = """
import sys, time
from pathlib import Path
from embedrun.store import cache

def make(folder):
    print("made", flush=True)
    time.sleep(1)
    (folder / "a").write_text("whole")

print(cache.kept("thing", {"text": "a"}, make, what="a thing") / "a", flush=True)
"""


def test_who_waits_for_another_process_says_for_what(make, monkeypatch, capsys):
    cache.kept("thing", KEY, make, what="a thing")
    taken: list[bool] = []

    def busy(_: object, *, wait: bool = False) -> bool:
        taken.append(wait)
        return wait

    monkeypatch.setattr(cache, "take", busy)
    cache.kept("thing", {"text": "b"}, make, what="another thing")
    assert taken == [False, True]
    assert "waiting for another process, which prepares another thing" in capsys.readouterr().err


def test_one_of_four_processes_makes_it():
    every = [
        subprocess.Popen(
            [sys.executable, "-c", SLOW], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    said = [one.communicate(timeout=60) for one in every]
    assert [one.returncode for one in every] == [0] * 4
    assert sum("made" in out for out, _ in said) == 1
    assert {Path(out.split()[-1]).read_text() for out, _ in said} == {"whole"}
    assert len(names()) == 1


def test_a_process_that_is_killed_leaves_the_work_to_the_next():
    killed = subprocess.Popen([sys.executable, "-c", SLOW], stdout=subprocess.PIPE, text=True)
    assert killed.stdout is not None
    assert killed.stdout.readline() == "made\n"
    killed.kill()
    killed.communicate()
    assert names()[0].startswith(".tmp-thing-")
    found = subprocess.run([sys.executable, "-c", SLOW], capture_output=True, text=True, check=True).stdout
    assert Path(found.split()[-1]).read_text() == "whole"
    assert len(names()) == 1


def test_a_home_that_cannot_be_written_is_said_once_and_done_without(make, monkeypatch, tmp_path, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    at_end: list[Callable[[], None]] = []
    monkeypatch.setattr(cache.atexit, "register", lambda *call, **how: at_end.append(partial(*call, **how)))
    path = cache.kept("thing", KEY, make, what="a thing")
    cache.kept("thing", {"text": "b"}, make, what="a thing")
    assert (path / "a").read_bytes() == b"content of a"
    said = capsys.readouterr().err
    assert said.count("cannot be written") == 1
    assert f"kept in {path.parent} until this command ends" in said
    for call in at_end:
        call()
    assert not path.parent.exists()


def test_a_home_that_can_be_read_alone_serves_what_is_kept_there(make, made, monkeypatch):
    path = cache.kept("thing", KEY, make, what="a thing")
    forget()

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    # Not by the mode of the folder: root may write anywhere.
    monkeypatch.setattr(cache, "open_lock", refuse)
    monkeypatch.setattr(cache.os, "utime", refuse)
    assert cache.kept("thing", KEY, make, what="a thing") == path
    assert len(made) == 1


def test_a_digest_is_remembered_only_of_a_file_that_had_settled_when_it_was_opened(tmp_path, monkeypatch):
    path = tmp_path / "a.tsv"
    path.write_text("one")
    now = [path.stat().st_mtime_ns + 10**9]
    read: list[Path] = []

    def slow(file: Path) -> str:
        read.append(file)
        now[0] += 2 * 10**9
        return str(len(read))

    monkeypatch.setattr(cache, "sha256", slow)
    monkeypatch.setattr(cache.time, "time_ns", lambda: now[0])
    assert [cache.digest(path) for _ in range(3)] == ["1", "2", "2"]  # 1 s old, then 3 s


class Known(PosixPath):
    """A file of which the system says what the test says."""

    state: ClassVar = {"st_size": 1, "st_mtime_ns": 2, "st_ctime_ns": 3, "st_ino": 4, "st_dev": 5}

    def stat(self, **_: object) -> SimpleNamespace:  # type: ignore[override]
        return SimpleNamespace(**self.state)


def test_a_file_is_the_same_while_nothing_that_the_system_says_of_it_has_changed(monkeypatch):
    facts, changed = cache._facts(Known("a.tsv"))
    assert changed == 3  # the later time: who copies a file may set back the other
    for name in Known.state:
        with monkeypatch.context() as patch:
            patch.setitem(Known.state, name, 1000)
            assert cache._facts(Known("a.tsv"))[0] != facts


def test_other_bytes_under_the_same_name_size_and_time_have_another_digest(tmp_path, monkeypatch):
    path = tmp_path / "a.tsv"
    path.write_text("one")
    os.utime(path, ns=(10**18, 10**18))
    now = time.time_ns()
    monkeypatch.setattr(cache.time, "time_ns", lambda: now + 3 * 10**9)
    first = cache.digest(path)
    with path.open("r+") as file:
        file.write("two")
    os.utime(path, ns=(10**18, 10**18))
    assert cache.digest(path) != first


def test_a_file_that_cannot_be_read_is_one_message(tmp_path):
    with pytest.raises(DataError, match=r"a\.tsv: cannot be read: No such file"):
        cache.digest(tmp_path / "a.tsv")


def test_entries_have_size_and_last_use_and_are_removed_by_age(make, tmp_path):
    old = cache.kept("thing", KEY, make, what="an old thing")
    os.utime(old / "entry.json", (1000.0, 1000.0))
    new = cache.kept("thing", {"text": "b"}, make, what="a new thing")
    (cache.folder() / "sources").mkdir()  # of digests, and no entry
    (cache.folder() / "link").symlink_to(tmp_path)
    found = cache.entries()
    assert [(entry.path, entry.what) for entry in found] == [(new, "a new thing"), (old, "an old thing")]
    assert found[1].size == 12 + (old / "entry.json").stat().st_size
    assert found[1].used == 1000.0
    assert cache.clean(before=1000.0) == []
    assert [entry.path for entry in cache.clean(before=1001.0)] == [old]
    assert names() == ["link", "sources", new.name]
    assert [entry.path for entry in cache.clean()] == [new]
    assert names() == ["link"]
    assert cache.clean() == []


@pytest.mark.parametrize("note", OTHER_NOTES[:3])
def test_an_entry_whose_note_is_damaged_is_listed_and_removed(make, note: str):
    path = cache.kept("thing", KEY, make, what="a thing")
    (path / "entry.json").write_text(note)
    assert [(entry.path, entry.what) for entry in cache.entries()] == [(path, "")]
    assert [entry.path for entry in cache.clean()] == [path]


def test_using_an_entry_makes_it_young(make):
    path = cache.kept("thing", KEY, make, what="a thing")
    os.utime(path / "entry.json", (1000.0, 1000.0))
    cache.kept("thing", KEY, make, what="a thing")
    assert cache.entries()[0].used > 1000.0


def test_a_file_system_without_locks_is_done_without(make, monkeypatch, capsys):
    monkeypatch.setattr(cache, "take", lambda *_, **__: None)
    path = cache.kept("thing", KEY, make, what="a thing")
    assert path.parent != cache.folder()
    assert "its file system has no locks" in capsys.readouterr().err


def test_a_lock_of_somebody_else_is_done_without(make, monkeypatch, capsys):
    opened = cache.open_lock

    def refuse(path: Path, **options: bool):
        if path.parent == cache.folder():
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(path, **options)

    monkeypatch.setattr(cache, "open_lock", refuse)
    path = cache.kept("thing", KEY, make, what="a thing")
    assert path.parent != cache.folder()
    assert cache.kept("thing", {"text": "b"}, make, what="a thing").parent == path.parent
    assert capsys.readouterr().err.count("cannot be written (Permission denied)") == 1


def test_a_user_without_a_home_has_a_temporary_folder(make, monkeypatch, capsys):
    def none() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", none)
    assert (cache.kept("thing", KEY, make, what="a thing") / "a").exists()
    assert "cannot be written" in capsys.readouterr().err
    assert cache.entries() == []


def test_a_name_that_is_no_utf_8_is_kept_all_the_same(make):
    path = cache.kept("thing", KEY, make, what="a\udcff.tsv")
    assert [(entry.path, entry.what) for entry in cache.entries()] == [(path, "a?.tsv")]


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", '{"key": 5}', '{"what": [1]}'])
def test_a_hostile_entry_is_made_again(make, made, text):
    path = cache.kept("thing", KEY, make, what="a thing")
    forget()
    (path / cache._ENTRY).write_text(text)
    assert isinstance(cache.entries()[0].what, str)
    cache.kept("thing", KEY, make, what="a thing")
    assert len(made) == 2
