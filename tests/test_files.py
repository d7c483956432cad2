import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from embedrun.backbone import tokens
from embedrun.errors import ConfigError
from embedrun.files import Lock, copy_mode, is_alive, open_lock, refuse_links
from embedrun.launch.launcher import JOBS, scratch
from embedrun.runs.directory import Run
from embedrun.store import Store
from embedrun.store.fill import filling


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


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
        f"{tmp_path / '.lock'} is a link to {target}; embedrun writes through no link: "
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


def test_a_launch_removes_nothing_behind_a_link_in_the_place_of_its_own_folder(tmp_path: Path):
    (tmp_path / "sweep").mkdir()
    (tmp_path / "else").mkdir()
    (tmp_path / "else/canary").write_text("precious")
    (tmp_path / "sweep" / JOBS).symlink_to("../else")
    with pytest.raises(ConfigError, match=r"\.jobs is a link to \.\./else"), scratch(tmp_path / "sweep"):
        pass
    assert (tmp_path / "else/canary").read_text() == "precious"


def test_files_get_the_mode_of_another_and_folders_keep_theirs(tmp_path: Path):
    for name, given in (("like", 0o640), ("private", 0o600), ("wide", 0o666)):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(given)
    (tmp_path / "folder").mkdir(mode=0o700)
    copy_mode(tmp_path / "like", tmp_path.iterdir())
    assert [mode(tmp_path / name) for name in ("like", "private", "wide")] == [0o640] * 3
    assert mode(tmp_path / "folder") == 0o700


@pytest.mark.parametrize(("mask", "given"), [(0o022, 0o644), (0o077, 0o600)])
def test_the_umask_decides_who_may_read_kept_token_ids(tmp_path, monkeypatch, umask, mask: int, given: int):
    np = pytest.importorskip("numpy")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    umask(mask)
    table = tokens.TokenTable(np.zeros(3, np.int32), np.array([0, 3]))
    tokens._write(tokens.folder() / "one.safetensors", table)
    assert [(path.name, mode(path)) for path in tokens.folder().iterdir()] == [("one.safetensors", given)]
