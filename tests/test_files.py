"""Files and folders that appear whole or not at all, locks, and YAML read as plain data."""

import errno
import fcntl
import gzip
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NoReturn

import operations
import pytest
import yaml

from embedrun import files
from embedrun.config import presets
from embedrun.errors import ConfigError, EmbedrunError
from embedrun.files import (
    Lock,
    copy_mode,
    expanded,
    is_alive,
    no_link,
    only_writer,
    open_lock,
    packed,
    publish,
    refuse_links,
    renewed_file,
    sha256,
    to_json_line,
    to_json_lines,
    to_printed_json,
    unwritable,
    whole_file,
    whole_folder,
    write_atomically,
)
from embedrun.runs.directory import Run
from embedrun.store import Store, cache
from embedrun.store.fill import filling


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


@pytest.fixture
def read(monkeypatch) -> list[str]:
    """The files whose bytes are read for their sums."""
    found, compute = [], hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda *of: found.append(of[0].name) or compute(*of))
    return found


@pytest.mark.parametrize(("settled", "times"), [(-(10**12), 1), (10**12, 2)], ids=["settled", "just written"])
def test_a_file_is_read_once_unless_it_was_just_written(tmp_path, monkeypatch, read, settled, times):
    monkeypatch.setattr(files, "_SETTLED", settled)  # ns; the inode's own time cannot be set back
    (tmp_path / "a").write_text("a")
    os.link(tmp_path / "a", tmp_path / "same")
    for name in ("a", "same"):
        assert sha256(tmp_path / name) == hashlib.sha256(b"a").hexdigest()
    assert len(read) == times


def test_a_file_of_the_same_size_and_time_with_other_bytes_has_another_sum(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_SETTLED", -(10**12))
    path = tmp_path / "a"
    for content in (b"one", b"two"):
        path.write_bytes(content)
        os.utime(path, ns=(0, 0))
        time.sleep(0.02)  # a tick of the clock behind the inode's own time is 10 ms at most
        assert sha256(path) == hashlib.sha256(content).hexdigest()


def with_random_name(path: Path, text: str) -> None:
    with whole_file(path) as aside, aside.open("w", encoding="utf-8") as file:
        file.write(text)


def with_own_name(path: Path, text: str) -> None:
    with whole_file(path, aside=f".{path.name}") as aside, aside.open("w", encoding="utf-8") as file:
        file.write(text)


def as_bytes(path: Path, text: str) -> None:
    publish(path, text.encode(), replace=True)


WRITERS = [with_random_name, with_own_name, write_atomically, as_bytes]


@pytest.fixture(params=WRITERS)
def write(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    return request.param


def content(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


def test_a_whole_file_is_on_the_disk_before_it_has_its_name_and_its_name_is_when_it_is_done(tmp_path, write):
    (tmp_path / "x").write_text("old and longer")
    with operations.strike(0, operations.raise_killed, tmp_path) as done:
        write(tmp_path / "x", "né")
    kinds = [change.split()[0] for change in done if change.split()[0] in ("fsync", "replace")]
    assert (kinds, done[-1]) == (["fsync", "replace", "fsync"], "fsync .")
    assert content(tmp_path) == {"x": "né"}


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(operations.Killed(), id="kill"),
        pytest.param(OSError(errno.ENOSPC, "no space"), id="full"),
        pytest.param(OSError(errno.EROFS, "read-only"), id="read-only"),
        pytest.param(OSError(errno.EACCES, "not allowed"), id="not allowed"),
    ],
)
@pytest.mark.parametrize("left", [3, 2, 1], ids=["fsync of the file", "rename", "fsync of the folder"])
@pytest.mark.parametrize("before", [{}, {"x": "old"}], ids=["new", "old"])
def test_a_fault_at_any_change_is_handed_on_and_leaves_the_old_file_or_the_new_and_nothing_else(
    tmp_path, write, fault: BaseException, left: int, before: dict
):
    def fail() -> NoReturn:
        raise fault

    with operations.strike(0, fail, tmp_path) as done:
        write(tmp_path / "x", "first")
    (tmp_path / "x").unlink()
    for name, text in before.items():
        (tmp_path / name).write_text(text)
    with operations.strike(len(done) - left + 1, fail, tmp_path), pytest.raises(type(fault)) as caught:
        write(tmp_path / "x", "new")
    assert caught.value is fault
    assert content(tmp_path) == ({"x": "new"} if left == 1 else before)


@pytest.mark.parametrize("fault", [KeyboardInterrupt, OSError, FileNotFoundError])
@pytest.mark.parametrize("aside", [None, ".x"])
def test_a_fault_of_who_writes_is_handed_on_and_leaves_the_old_file(tmp_path, aside, fault):
    def half() -> None:
        with whole_file(tmp_path / "x", aside=aside) as place:
            place.write_text("half")
            raise fault

    (tmp_path / "x").write_text("old")
    with pytest.raises(fault):
        half()
    assert content(tmp_path) == {"x": "old"}


def test_what_can_be_made_again_is_whole_and_waits_for_no_disk(tmp_path):
    (tmp_path / "x").write_text("old")
    with operations.strike(0, operations.raise_killed, tmp_path) as done:
        with whole_file(tmp_path / "x", aside=".x", sync=False) as aside, aside.open("w") as file:
            file.write("new")
        assert done == ["replace .x"]
    assert content(tmp_path) == {"x": "new"}


def test_a_text_that_is_none_leaves_the_old_file(tmp_path, write):
    (tmp_path / "x").write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write(tmp_path / "x", "whole, but for half a pair: \ud800")
    assert content(tmp_path) == {"x": "old"}


def test_no_file_takes_the_place_of_a_folder(tmp_path, write):
    (tmp_path / "x").mkdir()
    with pytest.raises(IsADirectoryError):
        write(tmp_path / "x", "new")
    assert [(path.name, path.is_dir()) for path in tmp_path.iterdir()] == [("x", True)]


@pytest.mark.parametrize("write", WRITERS[:3])
def test_a_folder_that_is_gone_is_not_made_again(tmp_path, write):
    with pytest.raises(FileNotFoundError):
        write(tmp_path / "gone/x", "new")
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_place_of_the_folder_stays_and_is_named(tmp_path, write):
    (tmp_path / "file").write_text("mine")
    with pytest.raises((NotADirectoryError, FileExistsError), match="file"):
        write(tmp_path / "file/x", "new")
    assert content(tmp_path) == {"file": "mine"}


@pytest.mark.parametrize("there", [True, False])
def test_a_link_gives_way_and_what_it_leads_to_stays(tmp_path, write, there: bool):
    (tmp_path / "else").mkdir()
    if there:
        (tmp_path / "else/canary").write_text("precious")
    (tmp_path / "x").symlink_to("else/canary")
    write(tmp_path / "x", "new")
    assert (tmp_path / "x").is_symlink() is False
    assert (tmp_path / "x").read_text() == "new"
    assert content(tmp_path / "else") == ({"canary": "precious"} if there else {})


@pytest.mark.parametrize(("mask", "given"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_the_umask_decides_who_may_read_a_whole_file(tmp_path, umask, write, mask: int, given: int):
    (tmp_path / "x").write_text("old")
    (tmp_path / "x").chmod(0o666)
    umask(mask)
    write(tmp_path / "x", "new")
    assert mode(tmp_path / "x") == given


def test_what_a_kill_left_under_a_name_of_its_own_is_overwritten(tmp_path):
    for name in (".x", f".x.{os.getpid()}"):
        (tmp_path / name).write_text("half a file, and longer than the whole one")
    with_own_name(tmp_path / "x", "new")
    write_atomically(tmp_path / "x", "newer")
    assert content(tmp_path) == {"x": "newer"}


def test_a_link_under_such_a_name_is_not_written_through(tmp_path):
    (tmp_path / "canary").write_text("precious")
    for name in (".x", f".x.{os.getpid()}"):
        (tmp_path / name).symlink_to("canary")
    with_own_name(tmp_path / "x", "new")
    write_atomically(tmp_path / "x", "newer")
    assert content(tmp_path) == {"x": "newer", "canary": "precious"}


@pytest.mark.parametrize("how", ["a", "w", "r+b"])
def test_what_is_written_in_place_is_opened_as_itself_or_not_at_all(tmp_path, how):
    path = tmp_path / "log"
    path.write_text("1")
    with open(path, how, opener=no_link) as file:
        assert Path(file.name) == path
    path.unlink()
    (tmp_path / "canary").write_text("precious")
    path.symlink_to("canary")
    with pytest.raises(ConfigError, match=r"log is a link to canary; .* put the file or folder itself there"):
        os.close(no_link(path, os.O_RDWR | os.O_TRUNC))
    assert (tmp_path / "canary").read_text() == "precious"


def test_what_is_written_in_place_has_the_mode_of_the_umask(tmp_path, umask):
    umask(0o027)
    with open(tmp_path / "log", "a", opener=no_link):
        pass
    assert mode(tmp_path / "log") == 0o640


def test_what_is_being_written_has_the_names_that_are_looked_for_after_kills(tmp_path):
    with whole_file(tmp_path / "x") as first, whole_file(tmp_path / "x") as second:
        assert first.name.startswith(".tmp-")
        assert first != second
        first.write_text("1")
        second.write_text("2")
    assert content(tmp_path) == {"x": "1"}  # the first to begin is the last to end
    with operations.strike(0, operations.raise_killed, tmp_path) as done:
        write_atomically(tmp_path / "x", "3")
    assert done[0] == f"fsync .x.{os.getpid()}"


def test_a_file_that_another_process_has_put_there_meanwhile_stands(tmp_path):
    with whole_file(tmp_path / "x") as aside:
        aside.write_text("same")
        (tmp_path / "x").write_text("same")
        aside.unlink()  # taken for what a kill left
    assert content(tmp_path) == {"x": "same"}


def test_what_killed_writers_left_of_a_file_goes_when_it_is_renewed_and_what_is_written_stays(tmp_path):
    *_, other = left = [tmp_path / f".tmp-{digit * 32}-{name}" for digit, name in ("0x", "fx", "0y")]
    for one in left:
        one.touch()
    with renewed_file(tmp_path / "x") as first:
        publish(tmp_path / "x", b"2", replace=True)
        assert sorted(tmp_path.glob(".*")) == sorted([first, other])
        first.write_text("1")
    assert content(tmp_path) == {"x": "1", other.name: ""}


@pytest.mark.parametrize(("aside", "before"), [(None, {}), (".x", {}), (".x", {"x": "old"})])
def test_a_file_that_nobody_has_written_is_missed(tmp_path, aside, before: dict):
    for name, text in before.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(FileNotFoundError), whole_file(tmp_path / "x", aside=aside):
        pass
    assert content(tmp_path) == before


def make(path: Path, text: str = "new") -> None:
    with whole_folder(path) as aside:
        (aside / "deep").mkdir(parents=True)
        (aside / "a").write_text(text)
        (aside / "deep/b").write_text(text)


def tree(folder: Path) -> dict[str, str]:
    return {str(one.relative_to(folder)): one.read_text() for one in folder.rglob("*") if one.is_file()}


def test_all_of_a_whole_folder_is_on_the_disk_before_it_has_its_name(tmp_path):
    with operations.strike(0, operations.raise_killed, tmp_path) as done:
        make(tmp_path / "x")
    *every, aside, name, parent = done[-6:]
    assert set(every) == {f"fsync .tmp-x/{one}" for one in ("a", "deep", "deep/b")}
    assert (aside, name, parent) == ("fsync .tmp-x", "rename .tmp-x", "fsync .")
    assert tree(tmp_path) == {"x/a": "new", "x/deep/b": "new"}


@pytest.mark.parametrize("fault", [operations.Killed(), OSError(errno.ENOSPC, "no space")], ids=repr)
def test_a_fault_at_any_change_of_a_folder_leaves_all_of_it_or_nothing(tmp_path, fault: BaseException):
    def fail() -> NoReturn:
        raise fault

    (tmp_path / "dry").mkdir()
    with operations.strike(0, fail, tmp_path / "dry") as done:
        make(tmp_path / "dry/x")
    for number in range(1, len(done) + 1):
        folder = tmp_path / str(number)
        folder.mkdir()
        with operations.strike(number, fail, folder), pytest.raises(type(fault)) as caught:
            make(folder / "x")
        assert caught.value is fault
        last = number == len(done)  # it has its name
        assert sorted(tree(folder)) == (["x/a", "x/deep/b"] if last else [])
        assert [one.name for one in folder.iterdir()] == (["x"] if last else [])


def test_what_a_killed_maker_of_a_folder_left_is_no_part_of_the_next(tmp_path):
    (tmp_path / ".tmp-x").mkdir()
    (tmp_path / ".tmp-x/half").write_text("left")
    make(tmp_path / "x")
    assert tree(tmp_path) == {"x/a": "new", "x/deep/b": "new"}


def test_a_folder_that_has_come_meanwhile_stays(tmp_path):
    make(tmp_path / "x", "theirs")
    with pytest.raises(OSError, match="not empty"):
        make(tmp_path / "x")
    assert tree(tmp_path) == {"x/a": "theirs", "x/deep/b": "theirs"}


@pytest.mark.parametrize("name", ["x", ".tmp-x"])
def test_no_folder_is_made_behind_a_link(tmp_path, name: str):
    (tmp_path / "else").mkdir()
    (tmp_path / "else/canary").write_text("precious")
    (tmp_path / name).symlink_to("else")
    with pytest.raises(NotADirectoryError, match=f"(Not a directory|symbolic link.*): .*{name}"):
        make(tmp_path / "x")
    assert tree(tmp_path / "else") == {"canary": "precious"}
    assert (tmp_path / name).is_symlink()


def test_a_folder_that_nobody_has_made_is_missed(tmp_path):
    with pytest.raises(FileNotFoundError), whole_folder(tmp_path / "x"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_published_bytes_stay_unless_they_may_be_replaced(tmp_path):
    path = tmp_path / "new" / "a"
    publish(path, b"1")
    publish(path, b"2")
    assert path.read_bytes() == b"1"
    publish(path, b"3", replace=True)
    assert path.read_bytes() == b"3"


def test_packed_bytes_know_neither_time_nor_name():
    once = packed(b"content" * 100)
    assert gzip.decompress(once) == b"content" * 100
    assert once[4:8] == bytes(4)  # the time
    assert once[3] == 0  # flags: no name
    assert packed(b"content" * 100) == once


def test_json_is_utf8_and_half_a_surrogate_pair_is_a_question_mark():
    assert to_json_line({"b": "é", "a": "\ud800"}) == '{"b": "é", "a": "?"}'.encode()
    assert to_json_lines([1, "x"]) == b'1\n"x"\n'


def test_a_lock_leaves_what_is_in_its_file(tmp_path: Path):
    (tmp_path / ".lock").write_text("mine")
    with open_lock(tmp_path / ".lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert (tmp_path / ".lock").read_text() == "mine"


@pytest.mark.parametrize(("mask", "given"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_the_umask_decides_who_may_open_a_lock(tmp_path: Path, umask, mask: int, given: int):
    umask(mask)
    open_lock(tmp_path / ".lock").close()
    assert mode(tmp_path / ".lock") == given


def test_a_lock_that_is_only_looked_at_is_not_made(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        open_lock(tmp_path / ".lock", make=False)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("make", [True, False])
@pytest.mark.parametrize("there", [True, False])
def test_a_lock_that_is_a_link_is_refused_by_name_and_its_target_stays(tmp_path: Path, there, make):
    target = tmp_path / "canary"
    if there:
        target.write_text("precious")
    (tmp_path / ".lock").symlink_to(target)
    with pytest.raises(ConfigError) as refused:
        open_lock(tmp_path / ".lock", make=make)
    assert refused.value.problems == [
        f"{tmp_path / '.lock'} is a link to {target}; embedrun does not write through links: "
        "put the file or folder itself there, or remove the link"
    ]
    assert target.exists() is there
    assert not there or target.read_text() == "precious"


def fill(folder: Path) -> None:
    with filling(Store(folder)):
        pass


@pytest.mark.parametrize(
    "take",
    [
        pytest.param(fill, id="store"),
        pytest.param(Run, id="run"),
        pytest.param(lambda folder: Lock(folder / ".lock").acquire(wait=False), id="study"),
    ],
)
def test_whoever_takes_a_lock_refuses_a_link_and_changes_nothing_behind_it(tmp_path: Path, take):
    (tmp_path / "data").mkdir()
    (tmp_path / "canary").write_text("precious")
    (tmp_path / "data/.lock").symlink_to("../canary")
    with pytest.raises(ConfigError, match=r"data/\.lock is a link to \.\./canary"):
        take(tmp_path / "data")
    assert (tmp_path / "canary").read_text() == "precious"


def test_of_a_run_whose_lock_is_a_link_nobody_says_whether_it_is_alive(tmp_path: Path):
    held = open_lock(tmp_path / "other")
    fcntl.flock(held, fcntl.LOCK_EX)
    (tmp_path / ".lock").symlink_to("other")
    assert is_alive(tmp_path) is None
    assert Run.is_free(tmp_path)


def test_all_links_are_named_together_and_what_is_none_is_not(tmp_path: Path):
    (tmp_path / "file").touch()
    (tmp_path / "a").symlink_to("file")
    (tmp_path / "b").symlink_to("nothing")
    with pytest.raises(ConfigError) as refused:
        refuse_links(tmp_path / name for name in ("a", "b", "file", "missing"))
    assert [problem.partition(";")[0] for problem in refused.value.problems] == [
        f"{tmp_path / 'a'} is a link to file",
        f"{tmp_path / 'b'} is a link to nothing",
    ]


def test_files_get_the_mode_of_another_and_folders_keep_theirs(tmp_path: Path):
    for name, given in (("like", 0o640), ("private", 0o600), ("wide", 0o666)):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(given)
    (tmp_path / "folder").mkdir(mode=0o700)
    copy_mode(tmp_path / "like", tmp_path.iterdir())
    assert [mode(tmp_path / name) for name in ("like", "private", "wide")] == [0o640] * 3
    assert mode(tmp_path / "folder") == 0o700


@pytest.mark.parametrize(("mask", "given"), [(0o022, 0o644), (0o077, 0o600)])
def test_the_umask_decides_who_may_read_what_is_kept(tmp_path, monkeypatch, umask, mask: int, given: int):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    umask(mask)
    path = cache.kept("thing", {}, lambda folder: (folder / "ids").touch(), what="a thing")
    assert {one.name: mode(one) for one in path.iterdir()} == {"ids": given, "entry.json": given}


@pytest.mark.parametrize(
    ("text", "data"),
    [("", None), ("a: [1, x]\n", {"a": [1, "x"]}), ("a: &a [1]\nb: *a\n", {"a": [1], "b": [1]}), ("é", "é")],
)
def test_a_small_file_is_plain_data(tmp_path: Path, text, data):
    (tmp_path / "x.yaml").write_text(text, encoding="utf-8")
    assert files.read_yaml(tmp_path / "x.yaml") == data


def test_a_quick_reader_finds_in_every_preset_what_pyyaml_finds():
    paths = sorted(presets.folder().rglob("*.yaml"))
    assert len(paths) > 100
    for path in paths:
        assert files.read_yaml(path) == yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [1\n", "not valid YAML"),
        ("\x00", "not valid YAML"),
        ("a: !!bool maybe\n", "not valid YAML"),
        ("a: !!timestamp soon\n", "not valid YAML"),
        ("a: !!int ''\n", "not valid YAML"),
        ("2026-99-99\n", "not valid YAML"),
        ("a: !!python/object/apply:os.system ['touch canary']\n", "python/object"),
    ],
)
def test_what_is_no_plain_yaml_is_refused(tmp_path: Path, text, words):
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(ValueError, match=words):
        files.read_yaml(tmp_path / "x.yaml")
    assert not Path("canary").exists()


def test_what_is_no_text_is_refused(tmp_path: Path):
    (tmp_path / "x.yaml").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ValueError, match="not valid YAML"):
        files.read_yaml(tmp_path / "x.yaml")


def test_a_folder_takes_what_is_made_in_it_if_the_nearest_one_that_exists_does(tmp_path, monkeypatch):
    assert unwritable(tmp_path / "new") == unwritable(tmp_path / "new/deep") == ""
    monkeypatch.chdir(tmp_path)
    assert unwritable(Path("new")) == ""
    assert content(tmp_path) == {}
    (tmp_path / "file").touch()
    assert unwritable(Path("file/new")) == f"{str(tmp_path / 'file')!r} is not a folder"
    assert unwritable(Path("x" * 230)) == "File name too long"
    assert "embedded null" in unwritable(Path("a\0b"))  # Pythons call it byte and character


@pytest.mark.parametrize(
    ("flag", "why"),
    [(os.ST_RDONLY, "it is on a read-only file system"), (0, "its permissions do not allow it")],
)
def test_a_folder_that_takes_nothing_is_named_with_the_reason(tmp_path, monkeypatch, flag, why):
    monkeypatch.setattr(os, "access", lambda path, how: how != os.W_OK | os.X_OK)
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result((0,) * 8 + (flag, 0)))
    assert unwritable(tmp_path / "new") == f"nothing can be written into {str(tmp_path)!r}: {why}"


@pytest.mark.parametrize("text", ["{", "[" * 100_000])
def test_what_is_no_json_is_refused(tmp_path: Path, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ValueError, match=r"Expecting|nests too deeply"):
        files.read_json(tmp_path / "x.json")


def test_what_cannot_be_made_is_a_fault_of_its_option_and_a_full_disk_is_none():
    said = "-o: 'a/b' cannot be made: Permission denied; name another"
    with pytest.raises(ConfigError, match=said), files.making("-o", Path("a/b")):
        raise PermissionError(errno.EACCES, "Permission denied")
    with pytest.raises(OSError, match="full"), files.making("-o", Path("a/b")):
        raise OSError(errno.ENOSPC, "full")


def test_a_tilde_is_the_home_of_a_user_who_is_there_and_a_letter_else(monkeypatch):
    monkeypatch.setenv("HOME", "/of/alice")
    assert expanded("~/a.csv") == Path("/of/alice/a.csv")
    assert expanded("~nobody-of-this-name.csv") == Path("~nobody-of-this-name.csv")


def test_printed_json_is_utf8_whatever_a_name_is():
    assert to_printed_json({"é": "b\udcff"}) == '{\n  "\\u00e9": "b?"\n}'


def test_what_one_process_makes_another_does_not(tmp_path):
    with only_writer(tmp_path / "x"):
        with (
            pytest.raises(EmbedrunError, match="x: in use by another process; wait") as caught,
            only_writer(tmp_path / "x"),
        ):
            pass
        assert caught.value.exit_code == 8
        with only_writer(tmp_path / "y"):
            pass
    assert os.listdir(tmp_path) == []
    with only_writer(tmp_path / "x"):
        pass


def test_a_lock_that_its_last_holder_has_removed_holds_nobody(tmp_path, monkeypatch):
    """Opened before the other has ended, and taken after it: a third has made another file by then."""

    def late(path: Path) -> IO[bytes]:
        file = open_lock(path)
        path.unlink()
        return file

    monkeypatch.setattr(files, "open_lock", late)
    with pytest.raises(EmbedrunError, match="in use by another process"), only_writer(tmp_path / "x"):
        pass
