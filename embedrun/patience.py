"""Waiting for other machines no longer than was said."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

_T = TypeVar("_T")


def within(seconds: float, work: Callable[[], _T]) -> _T:
    """The result of work that waits for another machine, or whatever it raises.

    The limits of most libraries are of each read: an endpoint that sends a byte now and then is waited for
    without end. The work is done in a thread; where it takes too long, it is left alone there, and ends with
    this process at the latest.

    Raises:
        TimeoutError: if it is not done in so many seconds.
    """
    future: Future[_T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as fault:
            future.set_exception(fault)

    threading.Thread(target=run, daemon=True).start()  # a pool's thread would be waited for at the end
    try:
        return future.result(timeout=seconds)
    except TimeoutError:
        if future.done():  # the work's own
            raise
        raise TimeoutError(f"no answer in {seconds:g} s") from None
