import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from embedrun.errors import RunFailed
from embedrun.training.checkpoint import Found, best_of, newest, path_of, published, verify

FILES = ["manifest.json", "model.safetensors", "optimizer.safetensors", "random.safetensors", "state.json"]


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


FAULTS: list[Callable[[Path], None]] = [flipped, truncated, emptied, Path.unlink]


def refused(folder: Path, expected: int | None) -> str:
    with pytest.raises(RunFailed) as failure:
        newest(folder, expected=expected)
    assert failure.value.exit_code == 7
    return str(failure.value)


def test_the_newest_whole_checkpoint_is_found(write, folder):
    write(1)
    path = write(2)
    assert newest(folder, expected=2) == Found(path, [])


def test_one_newer_than_the_record_is_taken(write, folder):
    """Killed after the checkpoint was published and before the record was written."""
    path = write(2)
    assert newest(folder, expected=1) == Found(path, [])
    assert newest(folder, expected=None) == Found(path, [])


def test_a_run_that_never_had_one_begins(folder):
    assert newest(folder, expected=None) == Found(None, [])
    (folder / ".tmp-step-00000001").mkdir(parents=True)
    assert newest(folder, expected=None) == Found(None, [])
    assert os.listdir(folder) == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_newest_is_set_aside_and_the_one_before_serves(write, folder, name: str, fault):
    before, damaged = write(1), write(2)
    fault(damaged / name)
    found = newest(folder, expected=2)
    assert found.path == before
    (warning,) = found.warnings
    assert warning.startswith(f"{damaged} is damaged ({name}: ")
    assert warning.endswith("), set aside as corrupt-step-00000002; going on from step-00000001")
    assert sorted(os.listdir(folder)) == ["corrupt-step-00000002", "step-00000001"]
    assert verify(write(2)) == []  # its name is free again


def test_several_damaged_ones_are_each_told_of(write, folder):
    paths = [write(step) for step in (1, 2, 3)]
    for path in paths[1:]:
        emptied(path / "state.json")
    found = newest(folder, expected=3)
    assert found.path == paths[0]
    assert [warning.split()[0] for warning in found.warnings] == [str(paths[2]), str(paths[1])]


def test_an_older_damaged_one_is_no_concern(write, folder):
    emptied(write(1) / "state.json")
    path = write(2)
    assert newest(folder, expected=2) == Found(path, [])
    assert published(folder) == [1, 2]


def test_where_all_are_damaged_nothing_starts_afresh_then_or_later(write, folder):
    for step in (1, 2):
        emptied(write(step) / "state.json")
    said = refused(folder, 2)
    assert "step-00000001 is damaged (state.json: differs from its manifest)" in said
    assert "step-00000002 is damaged" in said
    assert "Nothing was started" in said
    for expected in (2, None):
        assert "corrupt-step-00000001 is damaged; " in refused(folder, expected)
    assert sorted(os.listdir(folder)) == ["corrupt-step-00000001", "corrupt-step-00000002"]


def test_a_copy_put_back_under_its_name_serves(write, folder):
    path = write(1)
    content = (path / "state.json").read_bytes()
    emptied(path / "state.json")
    refused(folder, 1)
    (folder / "corrupt-step-00000001").rename(path)
    (path / "state.json").write_bytes(content)
    assert newest(folder, expected=1).path == path


def test_checkpoints_that_are_gone_altogether_are_missed(folder):
    assert f"{folder / 'step-00000030'} is gone" in refused(folder, 30)
    folder.mkdir()
    assert f"{folder / 'step-00000030'} is gone" in refused(folder, 30)


def test_a_newest_that_is_gone_is_missed_and_the_one_before_serves(write, folder):
    path = write(20)
    warning = f"{folder / 'step-00000030'} is gone; going on from step-00000020"
    assert newest(folder, expected=30) == Found(path, [warning])


def test_the_same_step_damaged_twice_keeps_both(write, folder):
    write(1)
    for _ in range(3):
        emptied(write(2) / "state.json")
        newest(folder, expected=2)
    assert sorted(os.listdir(folder)) == [
        "corrupt-step-00000002", "corrupt-step-00000002.2", "corrupt-step-00000002.3", "step-00000001",
    ]  # fmt: skip


def test_a_file_in_the_place_of_a_checkpoint_is_a_damaged_one(write, folder):
    path = write(1)
    path_of(folder, 2).write_text("x")
    assert newest(folder, expected=1).path == path


def test_a_checkpoint_that_may_not_be_read_is_left_where_it_is(write, folder, monkeypatch):
    write(1)
    write(2)

    def denied(self: Path, *_: object, **__: object) -> str:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_text", denied)
        assert "cannot be read (Permission denied)" in refused(folder, 2)
    assert published(folder) == [1, 2]


def test_the_best_serves_where_it_is_whole(write, folder):
    write(1)
    assert best_of(folder, 1) == []


def test_a_best_that_is_damaged_or_gone_is_told_of_and_set_aside(write, folder):
    emptied(write(1) / "model.safetensors")
    write(2)
    (line,) = best_of(folder, 1)
    assert line.startswith(f"{folder / 'step-00000001'} is damaged (model.safetensors: differs")
    assert "set aside as corrupt-step-00000001; it was the best so far" in line
    assert line.endswith("and without another one the last weights are kept")
    assert published(folder) == [2]
    (line,) = best_of(folder, 1)
    assert line.startswith(f"{folder / 'step-00000001'}, the best so far, is gone")
    assert line.endswith("and without another one the last weights are kept")
