"""Garbage collection: relaxed while a command starts, then as usual."""

import atexit
import gc

_USUAL = gc.get_threshold()
_OBJECTS = 200_000  # made and not freed, before it collects


def starting() -> None:
    """Relax garbage collection, and skip it at the end of the process.

    Imports make few cycles, and half a million objects that stay: collecting them takes a third of the time
    of `import torch`. Called first, its exit handler runs after those of all others.
    """
    gc.set_threshold(_OBJECTS)
    atexit.register(gc.freeze)


def started() -> None:
    """Collect as usual again, since cycles may hold tensors, but leave out what has been made so far."""
    if gc.get_threshold()[0] == _OBJECTS:
        gc.freeze()
        gc.set_threshold(*_USUAL)
