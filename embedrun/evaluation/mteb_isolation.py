"""The mteb package, kept from changing anything of the process that it runs in."""

import contextlib
import logging
import random
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

_LOGGERS = ("mteb", "datasets")


@contextlib.contextmanager
def isolated() -> Iterator[None]:
    """Leave random states, torch's thread count, warnings, log levels and progress bars as they were.

    mteb seeds the generators of Python, NumPy and torch when it is imported, when a task is made and when one
    is scored. It warns of every task that has a newer version, which a benchmark of a fixed version is bound
    to have, and scikit-learn of every classifier that its fixed number of iterations does not fit fully.
    Standard output holds results alone, so what is printed there meanwhile goes to standard error.
    """
    python, numpy, threads = random.getstate(), np.random.get_state(), torch.get_num_threads()
    levels = {name: logging.getLogger(name).level for name in _LOGGERS}
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with (
        torch.random.fork_rng(devices=devices),
        warnings.catch_warnings(),
        contextlib.redirect_stdout(sys.stderr),
        _without_bars(),
    ):
        warnings.simplefilter("ignore")
        for name in levels:
            logging.getLogger(name).setLevel(logging.ERROR)
        try:
            yield
        finally:
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)
            random.setstate(python)
            np.random.set_state(numpy)
            if torch.get_num_threads() != threads:
                torch.set_num_threads(threads)


@contextlib.contextmanager
def _without_bars() -> Iterator[None]:
    """No bar for every small step over a data set; those of a download stay."""
    import datasets

    hidden = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if not hidden:
            datasets.enable_progress_bars()


def package() -> Any:
    """The mteb package; importing it takes seconds.

    Raises:
        ValueError: if it is not installed, or its version is not one that this module knows.
    """
    from importlib.metadata import version

    try:
        with isolated():
            import mteb
    except ImportError as fault:
        raise ValueError(
            f"Mteb: the package mteb cannot be imported ({fault}); "
            "it needs the extra: pip install 'embedrun[mteb]'"
        ) from fault
    if int(version("mteb").partition(".")[0]) < 2:
        raise ValueError(
            f"Mteb: mteb {version('mteb')} is installed, 2 or newer is needed: pip install 'embedrun[mteb]'"
        )
    return mteb
