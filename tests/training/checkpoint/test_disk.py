import errno
import os
import shutil
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import operations
import pytest
import small_disk
import torch

from embedrun.errors import RunFailed
from embedrun.training.checkpoint import folder as disk
from embedrun.training.checkpoint import newest, published, save, verify

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
        f"bytes, {enough - 1:,} are free. Older checkpoints are whole; free some space, then go on with "
        f"'embedrun resume {folder.parent}'"
    )
    assert os.listdir(folder) == ["step-00000001"]
    leave_free(monkeypatch, enough)
    write(2)


def test_the_first_save_needs_a_fifth_more_than_its_tensors(tmp_path):
    # 1,000 bytes of tensors, and no checkpoint yet
    assert disk.needed(tmp_path, 1000) == 1200


def test_a_disk_that_gives_no_figures_is_written_to(write, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, 0))
    assert verify(write(1)) == []


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
        assert newest(folder, expected=1).warnings == []
        write(2)
        shutil.rmtree(folder / "step-00000002")
    # The folder, five files before and halfway, an fsync of each and of the folder, the name, its fsync.
    assert struck == ["mkdir", *["write", "tear"] * 5, *["fsync"] * 6, "rename", "fsync"]


def test_another_failure_of_a_write_is_not_called_a_full_disk(write, folder):
    def denied() -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with operations.strike(3, denied, folder), pytest.raises(PermissionError):
        write(1)


def test_on_a_disk_that_is_full_indeed_older_checkpoints_stay_and_space_freed_serves(
    folder, model, monkeypatch, tmp_path
):
    big = torch.nn.Linear(100, 100)  # 40,400 bytes, and no moments
    optimizer = torch.optim.AdamW(big.parameters())
    folder.mkdir()

    def put(step: int) -> Path:
        return save(folder, step=step, model=big, optimizer=optimizer, state={})

    def work() -> None:
        ballast = folder / "ballast"
        ballast.write_bytes(bytes(100_000))
        put(1)
        with pytest.raises(RunFailed, match=r"needs [\d,]+ bytes, [\d,]+ are free") as failure:
            put(2)
        assert failure.value.exit_code == 5
        assert verify(folder / "step-00000001") == []
        # Without the look beforehand, the write itself meets the end of the disk.
        monkeypatch.setattr(disk, "require", lambda *_: None)
        with pytest.raises(RunFailed, match="no space left") as failure:
            put(2)
        assert failure.value.exit_code == 5
        assert "os error 28" in str(failure.value.__cause__)
        assert published(folder) == [1]
        assert sorted(os.listdir(folder)) == ["ballast", "step-00000001"]
        monkeypatch.undo()
        ballast.unlink()
        assert verify(put(2)) == []
        assert newest(folder, expected=2).path == folder / "step-00000002"

    if not small_disk.run(folder, 220_000, work):
        pytest.skip("this machine allows no file system of one's own; the injected errors stand for it")
