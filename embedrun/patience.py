"""Waiting for other machines no longer than was said."""

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import NoReturn, TypeVar

_T = TypeVar("_T")


def within(seconds: float, work: Callable[[], _T]) -> _T:
    """The result of work that waits for another machine, or whatever it raises.

    The limits of most libraries are of each read: an endpoint that sends a byte now and then is waited for
    without end. The work is done in a thread; where it takes too long, it is left alone there, and ends with
    this process at the latest.

    Raises:
        TimeoutError: if it is not done in so many seconds.
    """
    try:
        return _begun(work).get(timeout=seconds)()
    except Empty:
        raise TimeoutError(f"no answer in {seconds:g} s") from None


def _begun(work: Callable[[], _T]) -> "SimpleQueue[Callable[[], _T]]":
    """Begin work in a thread; what comes gives its result, or raises what it has raised."""
    done: SimpleQueue[Callable[[], _T]] = SimpleQueue()

    def run() -> None:
        try:
            result = work()
        except BaseException as fault:
            done.put(_raising(fault))
        else:
            done.put(lambda: result)

    threading.Thread(target=run, daemon=True).start()
    return done


def _raising(fault: BaseException) -> Callable[[], NoReturn]:
    def again() -> NoReturn:
        raise fault

    return again
