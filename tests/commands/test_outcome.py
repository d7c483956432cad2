import json
import logging

import pytest

from embedrun.commands.outcome import recorded
from embedrun.errors import RunFailed
from embedrun.run import Run


def make() -> Run:
    return Run.create("toy", {"seed": 1}, directory="run")


def status() -> dict:
    with open("run/status.json", encoding="utf-8") as file:
        return json.load(file)


def log() -> str:
    with open("run/run.log", encoding="utf-8") as file:
        return file.read()


def test_a_block_that_ends_is_a_finished_run():
    with recorded(make) as run:
        assert run.path.is_dir()
    assert (status()["state"], status()["error"]) == ("finished", None)


def test_ctrl_c_is_an_interrupted_run_and_still_ctrl_c():
    with pytest.raises(KeyboardInterrupt), recorded(make):
        raise KeyboardInterrupt
    assert (status()["state"], status()["error"]) == ("interrupted", "interrupted")


def test_a_fault_is_a_failed_run_with_its_message_and_the_traceback_in_the_log():
    with pytest.raises(RunFailed), recorded(make):
        raise RunFailed("loss is nan at step 3", exit_code=4)
    assert (status()["state"], status()["error"]) == ("failed", "loss is nan at step 3")
    assert "Traceback" in log()
    assert "loss is nan at step 3" in log()


def test_no_control_character_of_a_fault_reaches_the_log():
    with pytest.raises(RunFailed), recorded(make):
        raise RuntimeError("text \x1b]52;c;x\x07 \x9b \u202e")
    assert not set("\x1b\x07\x9b\u202e") & set(log())


def test_an_unexpected_failure_says_where_its_traceback_is():
    said = r"unexpected failure: KeyError: 'x'; the traceback is in .*run\.log"
    with pytest.raises(RunFailed, match=said), recorded(make):
        raise KeyError("x")
    assert "Traceback (most recent call last)" in log()


def test_the_log_is_closed_however_the_block_ends():
    before = list(logging.getLogger("embedrun").handlers)
    with pytest.raises(KeyboardInterrupt), recorded(make):
        raise KeyboardInterrupt
    assert logging.getLogger("embedrun").handlers == before
