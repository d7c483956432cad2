import threading
import time

import pytest

from embedrun.patience import while_growing, within


def test_work_that_is_done_in_time_gives_its_result():
    assert within(5.0, lambda: 42) == 42


def test_what_the_work_raises_is_raised():
    def work() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError, match="x"):
        within(5.0, work)


def test_work_that_takes_longer_is_left_alone():
    go = threading.Event()
    started = time.monotonic()
    with pytest.raises(TimeoutError, match=r"no answer in 0\.05 s"):
        within(0.05, go.wait)
    assert time.monotonic() - started < 1.0
    go.set()


def test_a_download_may_take_any_time_as_long_as_it_moves():
    go, held = threading.Event(), iter(range(0, 100, 10))
    seen = []

    def held_now() -> int:
        seen.append(next(held))
        if len(seen) == 4:
            go.set()
        return seen[-1]

    assert while_growing(0.02, 10, held_now, lambda: go.wait(5)) is True
    assert len(seen) >= 4


def test_a_download_that_hardly_moves_is_given_up():
    go, held = threading.Event(), iter([0, 9])
    with pytest.raises(TimeoutError, match=r"under 10 B in 0\.02 s"):
        while_growing(0.02, 10, lambda: next(held), go.wait)
    go.set()
