import threading
import time

import pytest

from embedrun.patience import within


def test_work_that_is_done_in_time_gives_its_result():
    assert within(5.0, lambda: 42) == 42


def test_work_that_takes_longer_is_left_alone():
    go = threading.Event()
    started = time.monotonic()
    with pytest.raises(TimeoutError, match=r"no answer in 0\.05 s"):
        within(0.05, go.wait)
    assert time.monotonic() - started < 1.0
    go.set()
