import logging
import os
import shutil

import pytest

from embedrun.training.checkpoint import newest, prune, published


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


def test_damaged_ones_that_were_set_aside_stay_and_are_not_counted(write, folder):
    for step in (1, 2, 3, 4):
        write(step)
    for step in (3, 4):
        (folder / f"step-0000000{step}" / "state.json").unlink()
    newest(folder, expected=4)
    prune(folder, keep=2, best=None)
    write(5)
    prune(folder, keep=2, best=None)
    assert sorted(os.listdir(folder)) == [
        "corrupt-step-00000003", "corrupt-step-00000004", "step-00000002", "step-00000005",
    ]  # fmt: skip


def test_a_folder_of_the_user_is_none_of_ours(write, folder):
    others = {"step-old", "step-00000001 (copy)", "step-1", "step-7", "step-000000001", "step-٠٠٠٠٠٠٠١"}
    for name in others:
        (folder / name).mkdir(parents=True)
    for step in (1, 2, 100_000_000):
        write(step)
    assert published(folder) == [1, 2, 100_000_000]
    prune(folder, keep=2, best=None)
    assert set(os.listdir(folder)) == others | {"step-00000002", "step-100000000"}


def test_what_a_killed_save_or_removal_left_is_gone_after_the_next_save(write, folder):
    for name in (".tmp-step-00000003", ".tmp-step-00000004", ".trash-step-00000001"):
        (folder / name).mkdir(parents=True)
        (folder / name / "model.safetensors").write_bytes(b"half")
    write(3)
    assert os.listdir(folder) == ["step-00000003"]


def test_a_checkpoint_whose_replacement_did_not_come_gets_its_name_back(write, folder):
    path = write(1)
    path.rename(folder / ".old-step-00000001")
    assert newest(folder, expected=1).path == path


def test_a_checkpoint_whose_replacement_came_goes(write, folder):
    shutil.copytree(write(1), folder / ".old-step-00000001")
    newest(folder, expected=1)
    assert os.listdir(folder) == ["step-00000001"]


def fail(*_: object, **__: object) -> None:
    raise OSError(16, "Device or resource busy")


@pytest.mark.parametrize("broken", ["rename", "rmdir"])
def test_a_removal_that_fails_fails_no_run_and_is_tried_again(write, folder, monkeypatch, caplog, broken):
    logging.getLogger("embedrun").propagate = True
    for step in (1, 2, 3):
        write(step)
    with monkeypatch.context() as patched:
        patched.setattr(os, broken, fail)
        prune(folder, keep=2, best=None)
    assert "could not be removed: [Errno 16] Device or resource busy" in caplog.text
    assert 3 in published(folder)
    write(4)
    prune(folder, keep=2, best=None)
    assert sorted(os.listdir(folder)) == ["step-00000003", "step-00000004"]


def test_debris_that_cannot_be_removed_hinders_no_save(write, folder, model, monkeypatch):
    write(1)
    for name in (".tmp-step-00000002", ".trash-step-00000001"):
        (folder / name / "held").mkdir(parents=True)
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", fail)
        write(2)
        write(3)
        prune(folder, keep=2, best=None)
    assert published(folder) == [2, 3]
    assert (folder / ".trash-step-00000001.2").is_dir()
    write(4)
    assert sorted(os.listdir(folder)) == ["step-00000002", "step-00000003", "step-00000004"]
