import errno
import os

import pytest
import small_disk

from embedrun.tracking.mirror import check_room


def test_a_disk_with_room_is_left_as_it_was(tmp_path):
    check_room(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told_with_its_folder(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()

    def fill() -> None:
        (folder / "big").write_bytes(bytes(90_000))
        with pytest.raises(OSError, match="No space left") as fault:
            check_room(folder)
        assert (fault.value.errno, fault.value.filename) == (errno.ENOSPC, str(folder))
        assert os.listdir(folder) == ["big"]
        (folder / "big").unlink()
        check_room(folder)

    if not small_disk.run(folder, 100_000, fill):
        pytest.skip("this machine allows no file system of one's own; the injected error stands for it")


def test_an_error_that_the_disk_tells_late_is_told_too(tmp_path, monkeypatch):
    def full(_: int) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")  # as a network file system does

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="Disk quota exceeded") as fault:
        check_room(tmp_path)
    assert fault.value.filename == str(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    with pytest.raises(FileNotFoundError) as fault:
        check_room(tmp_path / "none")
    assert fault.value.filename == str(tmp_path / "none")
