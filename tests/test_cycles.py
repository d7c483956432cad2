"""When Python looks for cycles."""

import gc

import pytest

from embedrun import cycles


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    monkeypatch.setattr(cycles.atexit, "register", lambda work: None)
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def test_a_command_that_has_started_looks_as_often_as_ever_but_not_among_what_is_there():
    usual = gc.get_threshold()
    cycles.starting()
    assert gc.get_threshold()[0] == 200_000
    cycles.started()
    assert gc.get_threshold() == usual
    assert gc.get_freeze_count() > 1_000
