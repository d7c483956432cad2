"""When Python looks for cycles among its objects: hardly while a command starts, and then as ever."""

import atexit
import gc

_USUAL = gc.get_threshold()
_OBJECTS = 200_000  # that are made, beyond those that go, before it looks


def starting() -> None:
    """Look seldom from here on, and not at all at the end of the process.

    Imports make few cycles, and half a million objects that stay: to look through them is a third of what
    `import torch` takes. Called first, this runs after all that others have registered for the end.
    """
    gc.set_threshold(_OBJECTS)
    atexit.register(gc.freeze)


def started() -> None:
    """Look as often as ever again, for cycles that hold a tensor, but not among what is there by now."""
    if gc.get_threshold()[0] == _OBJECTS:
        gc.freeze()
        gc.set_threshold(*_USUAL)
