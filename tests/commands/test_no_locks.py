"""File systems of a network or of FUSE: without locks, and with folders that cannot be synced.

What `fcntl.flock` and `os.fsync` raise there is made here; who needs locks says so, and the others go on.
"""

import errno
import fcntl
import mmap
import os
import shutil
import stat
from pathlib import Path

import pytest

from embedrun import files
from embedrun.store import Store, cache
from embedrun.store.fill import filling

WARNING = "this file system has no locks, so that a second command that writes there is not noticed"


@pytest.fixture(params=[errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def _no_locks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: object) -> None:
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(fcntl, "flock", flock)
    _forget()


def _forget() -> None:
    files._say_once.cache_clear()
    cache._usable.cache_clear()
    cache._temporary.cache_clear()


@pytest.fixture(autouse=True)
def _as_before():
    yield
    _forget()


@pytest.mark.usefixtures("_no_locks")
def test_a_run_is_resumed_with_one_warning_that_names_it(embedrun, tiny):
    shutil.copytree(tiny.path, "run")
    Path("run/results.json").unlink()
    text = Path("run/status.json").read_text()
    Path("run/status.json").write_text(text.replace('"finished"', '"interrupted"'))
    ended = embedrun("resume", "run")
    assert ended.code == 0, ended.err
    assert ended.err.count(f"warning: run: {WARNING}; start one at a time") == 1
    assert (Path("run/model/model.safetensors").read_bytes()) == (
        tiny.path / "model/model.safetensors"
    ).read_bytes()


@pytest.mark.usefixtures("_no_locks")
def test_a_store_is_filled_with_a_warning_and_a_search_is_refused(embedrun, options, capsys):
    with filling(Store(Path("new"))):
        assert f"warning: new: {WARNING}" in capsys.readouterr().err
    ended = embedrun("tune", *options, "training.lr=uniform(1e-4,1e-3)", "--trials", "1")
    assert ended.code == 1
    assert "/study: this file system has no locks, which processes on one study need; start the" in ended.err


@pytest.mark.usefixtures("_no_locks")
def test_who_only_looks_says_nothing(embedrun, tiny):
    assert embedrun("runs", tiny.folder).err == ""
    assert embedrun("report", tiny.path, "-o", "page.html").err == ""
    assert embedrun("data", "clean").code == 0


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP, errno.ENOSYS])
def test_a_folder_that_cannot_be_synced_fails_nothing(tmp_path, monkeypatch, code):
    sync, synced = os.fsync, []

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(code, os.strerror(code))
        synced.append(sync(descriptor))

    monkeypatch.setattr(os, "fsync", fsync)
    files.write_atomically(tmp_path / "x", "new")
    with files.whole_folder(tmp_path / "y") as aside:
        aside.mkdir()
        (aside / "z").write_text("new")
    assert (tmp_path / "x").read_text() == (tmp_path / "y/z").read_text() == "new"
    assert len(synced) == 2


def test_a_file_that_cannot_be_synced_is_a_fault(tmp_path, monkeypatch):
    def fsync(_: int) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="Invalid argument"):
        files.write_atomically(tmp_path / "x", "new")


def test_where_nothing_can_be_mapped_what_is_prepared_is_kept_elsewhere(monkeypatch, capsys):
    class Refused:
        def __init__(self, *_: object) -> None:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))

    monkeypatch.setattr(mmap, "mmap", Refused)
    _forget()
    assert cache._usable(cache.folder()) != cache.folder()
    assert "cannot be written (No such device); what is prepared is kept in" in capsys.readouterr().err
