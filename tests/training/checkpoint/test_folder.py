"""Checkpoints of a run: their manifest, which is whole, which stay, disks that fill."""

import json
import os
import shutil
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import operations
import pytest

from embedrun.errors import RunFailed
from embedrun.training.checkpoint import best_of, newest, prune, published, verify

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
    assert newest(folder, expected=2) == (path, [])


def test_a_run_that_never_had_one_begins(folder):
    assert newest(folder, expected=None) == (None, [])
    (folder / ".tmp-step-00000001").mkdir(parents=True)
    assert newest(folder, expected=None) == (None, [])
    assert os.listdir(folder) == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_newest_is_set_aside_and_the_one_before_serves(write, folder, name: str, fault):
    before, damaged = write(1), write(2)
    fault(damaged / name)
    found, warnings = newest(folder, expected=2)
    assert found == before
    (warning,) = warnings
    assert warning.startswith(f"{damaged} is damaged ({name}: ")
    assert warning.endswith("), set aside as corrupt-step-00000002; resuming from step-00000001")
    assert sorted(os.listdir(folder)) == ["corrupt-step-00000002", "step-00000001"]
    assert verify(write(2)) == []  # its name is free again


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


def test_checkpoints_that_are_gone_altogether_are_missed(folder):
    assert f"{folder / 'step-00000030'} is gone" in refused(folder, 30)
    folder.mkdir()
    assert f"{folder / 'step-00000030'} is gone" in refused(folder, 30)


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


def test_the_newest_and_the_best_stay(write, folder):
    for step in (1, 2, 3, 4, 5):
        write(step)
    prune(folder, keep=2, best=2)
    assert sorted(os.listdir(folder)) == ["step-00000002", "step-00000004", "step-00000005"]
    prune(folder, keep=2, best=5)
    assert published(folder) == [4, 5]
    prune(folder, keep=3, best=None)
    assert published(folder) == [4, 5]


def test_the_best_of_an_older_one_that_stays_stays_with_it(write, folder):
    write(1)
    write(2, best=1)
    write(3, best=1)
    write(4)
    prune(folder, keep=2, best=4)
    assert published(folder) == [1, 3, 4]  # if 4 is damaged, 3 needs 1
    write(5)
    prune(folder, keep=2, best=5)
    assert published(folder) == [4, 5]


def test_what_a_killed_save_or_removal_left_is_gone_after_the_next_save(write, folder):
    for name in (".tmp-step-00000003", ".tmp-step-00000004", ".trash-step-00000001"):
        (folder / name).mkdir(parents=True)
        (folder / name / "model.safetensors").write_bytes(b"half")
    write(3)
    assert os.listdir(folder) == ["step-00000003"]


def test_a_checkpoint_of_another_schema_says_so(write):
    path = write(1) / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema": 3}))
    assert verify(path.parent) == [f"{path}: schema 3, this version reads 2"]


Usage = namedtuple("Usage", "total used free")


def size(checkpoint: Path) -> int:
    return sum(path.stat().st_size for path in checkpoint.iterdir())


def leave_free(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**9, 10**9 - free, free))


def test_a_save_needs_a_fifth_more_than_the_last_checkpoint(write, folder, monkeypatch):
    last = size(write(1))
    enough = -(-12 * last // 10)  # 1.2 x, rounded up
    leave_free(monkeypatch, enough - 1)
    with pytest.raises(RunFailed) as failure:
        write(2)
    assert failure.value.exit_code == 5
    assert str(failure.value) == (
        f"{folder}/step-00000002: no space left on the disk, or no quota: a checkpoint needs {enough:,} "
        f"bytes, {enough - 1:,} are free. Older checkpoints are intact; free some space, then resume with "
        f"'embedrun resume {folder.parent}'"
    )
    assert os.listdir(folder) == ["step-00000001"]
    leave_free(monkeypatch, enough)
    write(2)


def outcome(write: Callable[[int], Path]) -> str:
    """Of a save under number 2."""
    try:
        write(2)
    except RunFailed as failure:
        return f"{failure.exit_code} {failure}"
    return "saved"


def test_a_full_disk_at_any_moment_of_a_save_leaves_the_older_whole(write, folder):
    write(1)
    struck = []
    while True:
        number = len(struck) + 1
        with operations.strike(number, operations.disk_full, folder) as done:
            said = outcome(write)
        if said == "saved":
            break
        struck.append(done[number - 1].split()[0])
        assert said.startswith(f"5 {folder}/step-00000002: no space left on the disk"), struck
        assert sorted(os.listdir(folder)) == (
            ["step-00000001"] if number < 19 else ["step-00000001", "step-00000002"]
        )
        assert newest(folder, expected=1)[1] == []
        write(2)
        shutil.rmtree(folder / "step-00000002")
    # The folder, five files before and halfway, an fsync of each and of the folder, the name, its fsync.
    assert struck == ["mkdir", *["write", "tear"] * 5, *["fsync"] * 6, "rename", "fsync"]
