import json
import os
import time
from pathlib import Path

import pytest

from embedrun.files import Lock
from embedrun.study.tune.study import JournalLock


def test_one_holds_a_lock_at_a_time(tmp_path: Path):
    first, second = Lock(tmp_path / "lock"), Lock(tmp_path / "lock")
    assert first.acquire()
    assert not second.acquire(wait=False)
    first.release()
    assert second.acquire(wait=False)


def test_a_child_that_was_handed_the_file_goes_on_holding_it(tmp_path: Path):
    first, second = Lock(tmp_path / "lock"), Lock(tmp_path / "lock")
    first.acquire()
    handed = os.dup(first.fileno())  # what a child inherits
    first.release()
    assert not second.acquire(wait=False)
    os.close(handed)
    assert second.acquire(wait=False)


@pytest.mark.parametrize("torn", ["", '{"op_code":5', "x"])
def test_the_part_of_a_line_that_a_kill_left_in_the_journal_goes(tmp_path: Path, torn: str):
    journal = tmp_path / "journal.log"
    whole = json.dumps({"op_code": 4}) + "\n"
    journal.write_text(whole + torn)
    with JournalLock(journal):
        assert journal.read_text() == whole


@pytest.mark.parametrize("text", ["", "torn"])
def test_a_journal_without_a_whole_line_is_empty(tmp_path: Path, text: str):
    journal = tmp_path / "journal.log"
    journal.write_text(text)
    with JournalLock(journal):
        assert journal.read_text() == ""


def test_a_lock_file_that_a_kill_left_behind_holds_up_nobody(tmp_path: Path):
    (tmp_path / ".journal.log.lock").touch()
    (tmp_path / "journal.log.lock").touch()  # optuna's own
    began = time.monotonic()
    with JournalLock(tmp_path / "journal.log"):
        assert time.monotonic() - began < 1
