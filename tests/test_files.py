"""Files and folders that appear whole or not at all, locks, and data read as plain."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import operations
import pytest
import yaml

from embedrun import files
from embedrun.config import presets
from embedrun.errors import ConfigError, DataError, EmbedrunError
from embedrun.files import (
    Lock,
    is_alive,
    only_writer,
    open_lock,
    publish,
    take,
    unwritable,
    whole_file,
    whole_folder,
    write_atomically,
)

NO_SPACE = OSError(errno.ENOSPC, "no space")


def as_bytes(path: Path, text: str) -> None:
    publish(path, text.encode(), replace=True)


@pytest.fixture(params=[write_atomically, as_bytes])
def write(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    return request.param


def content(folder: Path) -> dict[str, str]:
    """The text of every file below a folder, by its name."""
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_a_whole_file_is_on_the_disk_before_it_has_its_name_and_its_name_is_when_it_is_done(tmp_path, write):
    (tmp_path / "x").write_text("old and longer")
    with operations.strike(0, operations.raise_killed, tmp_path) as done:
        write(tmp_path / "x", "né")
    kinds = [change.split()[0] for change in done if change.split()[0] in ("fsync", "replace")]
    assert (kinds, done[-1]) == (["fsync", "replace", "fsync"], "fsync .")
    assert content(tmp_path) == {"x": "né"}


@pytest.mark.parametrize("fault", [operations.Killed(), NO_SPACE], ids=["kill", "full"])
def test_a_failed_write_leaves_the_old_file_or_the_new_and_nothing_else(tmp_path, write, fault):
    def fail() -> NoReturn:
        raise fault

    (tmp_path / "x").write_text("old")
    for left, text in ((3, "old"), (2, "old"), (1, "new")):  # before fsync, rename, fsync of the folder
        with operations.strike(0, fail, tmp_path) as done:
            write(tmp_path / "x", "old")
        with operations.strike(len(done) - left + 1, fail, tmp_path), pytest.raises(type(fault)) as caught:
            write(tmp_path / "x", "new")
        assert caught.value is fault
        assert content(tmp_path) == {"x": text}


def test_two_writers_of_one_file_never_mix_and_the_last_wins(tmp_path):
    with whole_file(tmp_path / "x") as first, whole_file(tmp_path / "x") as second:
        first.write_text("1")
        second.write_text("2")
    assert content(tmp_path) == {"x": "1"}


def make(path: Path, text: str = "new") -> None:
    with whole_folder(path) as aside:
        (aside / "deep").mkdir(parents=True)
        (aside / "a").write_text(text)
        (aside / "deep/b").write_text(text)


def test_all_of_a_whole_folder_is_on_the_disk_before_it_has_its_name(tmp_path):
    with operations.strike(0, operations.raise_killed, tmp_path) as done:
        make(tmp_path / "x")
    *parts, aside, name, parent = done[-6:]
    assert set(parts) == {f"fsync .tmp-x/{part}" for part in ("a", "deep", "deep/b")}
    assert (aside, name, parent) == ("fsync .tmp-x", "rename .tmp-x", "fsync .")
    assert content(tmp_path) == {"x/a": "new", "x/deep/b": "new"}


@pytest.mark.parametrize("fault", [operations.Killed(), NO_SPACE], ids=["kill", "full"])
def test_a_fault_at_any_change_of_a_folder_leaves_all_of_it_or_nothing(tmp_path, fault):
    def fail() -> NoReturn:
        raise fault

    (tmp_path / "dry").mkdir()
    with operations.strike(0, fail, tmp_path / "dry") as done:
        make(tmp_path / "dry/x")
    for number in range(1, len(done) + 1):
        folder = tmp_path / str(number)
        folder.mkdir()
        with operations.strike(number, fail, folder), pytest.raises(type(fault)):
            make(folder / "x")
        has_its_name = number == len(done)
        assert sorted(content(folder)) == (["x/a", "x/deep/b"] if has_its_name else [])


def test_a_folder_that_exists_stays(tmp_path):
    make(tmp_path / "x", "theirs")
    with pytest.raises(OSError, match="not empty"):
        make(tmp_path / "x")
    assert content(tmp_path) == {"x/a": "theirs", "x/deep/b": "theirs"}


def test_published_bytes_stay_unless_they_may_be_replaced(tmp_path):
    path = tmp_path / "new" / "a"
    for text, replace, left in ((b"1", False, b"1"), (b"2", False, b"1"), (b"3", True, b"3")):
        publish(path, text, replace=replace)
        assert path.read_bytes() == left


def test_a_lock_has_one_holder_and_leaves_what_is_in_its_file(tmp_path):
    (tmp_path / "lock").write_text("mine")
    first, second = Lock(tmp_path / "lock"), Lock(tmp_path / "lock")
    with first:
        assert not second.acquire(wait=False)
        child = os.dup(first.fileno())
    assert not second.acquire(wait=False)  # a child that was handed the file holds it
    os.close(child)
    assert second.acquire(wait=False)
    second.release()
    assert content(tmp_path) == {"lock": "mine"}


def test_a_run_is_alive_while_its_lock_is_held(tmp_path):
    assert is_alive(tmp_path) is None
    with open_lock(tmp_path / ".lock") as lock:
        assert is_alive(tmp_path) is False
        assert take(lock)
        assert is_alive(tmp_path) is True
    assert is_alive(tmp_path) is False


def test_what_one_process_makes_another_does_not(tmp_path):
    with only_writer(tmp_path / "x"):
        with pytest.raises(EmbedrunError, match="x: in use by another process; wait") as caught:
            only_writer(tmp_path / "x").__enter__()
        assert caught.value.exit_code == 8
        with only_writer(tmp_path / "y"):
            pass
    assert os.listdir(tmp_path) == []


def test_a_lock_file_that_its_last_holder_has_removed_meanwhile_makes_no_second_writer(tmp_path, monkeypatch):
    def late(file, **options) -> bool:
        (tmp_path / ".lock-x").unlink()  # between opening and locking
        return take(file, **options)

    monkeypatch.setattr(files, "take", late)
    with pytest.raises(EmbedrunError, match="x: in use by another process"):
        only_writer(tmp_path / "x").__enter__()


def test_a_folder_takes_what_is_made_in_it_if_the_nearest_one_that_exists_does(tmp_path, monkeypatch):
    assert unwritable(tmp_path / "new") == unwritable(tmp_path / "new/deep") == ""
    monkeypatch.chdir(tmp_path)
    assert unwritable(Path("new")) == ""
    (tmp_path / "file").touch()
    assert unwritable(Path("file/new")) == f"{str(tmp_path / 'file')!r} is not a folder"
    monkeypatch.setattr(os, "access", lambda path, how: how != os.W_OK | os.X_OK)
    assert unwritable(tmp_path / "new") == f"nothing can be written into {str(tmp_path)!r}"
    with pytest.raises(ConfigError, match=r"output: nothing can be written into .* with output=DIR"):
        files.refuse_unwritable("output", tmp_path / "new")


def test_a_quick_reader_finds_in_every_preset_what_pyyaml_finds():
    paths = sorted(presets.folder().rglob("*.yaml"))
    assert len(paths) > 100
    for path in paths:
        assert files.read_yaml(path) == yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (b"a: [1\n", "not valid YAML"),
        (b"a: !!bool maybe\n", "not valid YAML"),  # PyYAML: a KeyError
        (b"\xff\xfe\xff", "not valid YAML"),
        (b"a: !!python/object/apply:os.system ['touch canary']\n", "python/object"),
    ],
)
def test_what_is_no_plain_yaml_is_refused_and_runs_nothing(tmp_path, monkeypatch, written, words):
    monkeypatch.chdir(tmp_path)
    Path("x.yaml").write_bytes(written)
    with pytest.raises(ValueError, match=words):
        files.read_yaml(Path("x.yaml"))
    assert not Path("canary").exists()


def test_a_damaged_file_of_ours_is_named_with_the_reason_and_the_next_step():
    says = r"x.json: not a list \(KeyError: 'rows'\); name another"
    with pytest.raises(DataError, match=says), files.as_written(Path("x.json"), "a list", "name another"):
        raise KeyError("rows")
