"""Local copies of MTEB's data, and mteb kept from changing the random states."""

import contextlib
import hashlib
import logging
import random
import sys
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from embedrun.errors import DISK, OUT_OF_MEMORY, DataError, exit_code, install_extra
from embedrun.files import Plain, expanded
from embedrun.patience import within

PATIENCE = 6.0  # seconds until the hub counts as unreachable
_WAY_ON = "set folder to one with a copy of each data set"


def load(task: Any, folder: Path | None) -> Plain:
    """Read the data of one mteb task that is no aggregate; must be called within `isolated`.

    `folder` has one folder for each task in the layout of the hub; None: the cache or the hub is read.
    Returns what was read: `dataset` and `revision` as mteb pins them, and for a copy, whose revision cannot
    be known, the `sha256` of its files instead of the revision.

    Raises:
        DataError: if it is not there or cannot be read.
    """
    if problems := unavailable([task], folder):
        raise DataError(problems)
    path, revision = _pinned(task)
    said: dict[str, object] = {"dataset": path, "revision": revision}
    if folder is not None:
        copy = expanded(folder).resolve() / task.metadata.name
        said = {"dataset": path, "revision": None, "sha256": _fingerprint(copy)}
        # mteb forgets this again when it unloads the data.
        task.metadata = task.metadata.model_copy(
            update={"dataset": {**task.metadata.dataset, "path": str(copy)}}
        )
    try:
        with contextlib.nullcontext() if folder is not None or _online() else _offline():
            task.load_data()
    except Exception as fault:  # of many libraries, with no common class
        if exit_code(fault) in (DISK, OUT_OF_MEMORY):
            raise
        first = (str(fault).strip() or "no reason given").splitlines()[0]
        where = path if folder is None else f"{path} in {folder / task.metadata.name}"
        raise DataError(
            f"mteb task {task.metadata.name}: data set {where} cannot be read "
            f"({type(fault).__name__}: {first})"
        ) from fault
    _check_candidates(task, path)
    return said


def unavailable(tasks: Sequence[Any], folder: Path | None) -> list[str]:
    """Why the data of mteb tasks is not there, as far as can be known without reading it.

    None of the tasks is an aggregate; `folder` as in `load`.
    """
    if folder is None and _online():
        return []
    problems = []
    for task in tasks:
        path, revision = _pinned(task)
        what = f"mteb task {task.metadata.name}: data set {path} (revision {revision})"
        if folder is None:
            if not _cached(path, revision):
                problems.append(
                    f"{what} is not in the cache of datasets here, and the hub cannot be reached; {_WAY_ON}"
                )
        elif not (copy := expanded(folder) / task.metadata.name).is_dir():
            problems.append(f"{what} has no copy {copy}; put one there, in the layout of the hub")
    return problems


def _pinned(task: Any) -> tuple[str, str]:
    return task.metadata.dataset["path"], task.metadata.dataset["revision"]


def _check_candidates(task: Any, path: str) -> None:
    """Refuse to rank a whole corpus where a task ranks chosen documents.

    The cache of datasets does not say which parts a data set has, and mteb then skips the missing ones.
    """
    if task.metadata.type != "Reranking":
        return
    for subset, splits in task.dataset.items():
        if any(one["top_ranked"] is None for one in splits.values()):
            raise DataError(
                f"mteb task {task.metadata.name}: data set {path} ({subset}) came without top_ranked, the "
                "documents to rank; set folder to one with a whole copy"
            )


def _cached(path: str, revision: str) -> bool:
    """Whether the cache of datasets has that revision and no other, as it always gives the newest."""
    from datasets import config
    from datasets.naming import camelcase_to_snakecase

    *owner, name = path.split("/")
    root = Path(config.HF_DATASETS_CACHE) / "___".join([*owner, camelcase_to_snakecase(name)])
    return {found.name for found in root.glob("*/*/*") if found.is_dir()} == {revision}


def _fingerprint(copy: Path) -> str:
    """SHA-256, in hex, of the names and bytes of all files but hidden ones, which a hub client adds."""
    digest = hashlib.sha256()
    for file in sorted(copy.rglob("*")):
        name = file.relative_to(copy)
        if file.is_file() and not any(part.startswith(".") for part in name.parts):
            with file.open("rb") as stream:
                digest.update(
                    f"{name.as_posix()}\0{hashlib.file_digest(stream, 'sha256').hexdigest()}\n".encode()
                )
    return digest.hexdigest()


def _online() -> bool:
    from huggingface_hub import constants

    return not constants.HF_HUB_OFFLINE and _hub_answers()


@cache
def _hub_answers() -> bool:
    """Whether the hub answers in `PATIENCE` seconds, whatever it says; asked once.

    A timeout of the request itself does not limit the name lookup.
    """

    def ask() -> None:
        import huggingface_hub
        from huggingface_hub import errors

        with contextlib.suppress(errors.HfHubHTTPError):
            huggingface_hub.HfApi().dataset_info("mteb/stsbenchmark-sts", timeout=PATIENCE)

    try:
        within(PATIENCE, ask)
    except Exception:  # what a broken network raises has no common class
        return False
    return True


@contextlib.contextmanager
def _offline() -> Iterator[None]:
    """Inside, datasets reads its cache and does not wait for the hub."""
    from datasets import config

    before = config.HF_HUB_OFFLINE
    config.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        config.HF_HUB_OFFLINE = before


_LOGGERS = ("mteb", "datasets")


@contextlib.contextmanager
def isolated() -> Iterator[None]:
    """Leave random states, torch's thread count, warnings, log levels and progress bars as they were.

    mteb seeds the generators of Python, NumPy and torch when it is imported, when a task is made and when one
    is scored. It warns of every task that has a newer version, which a benchmark of a fixed version always
    has, and scikit-learn warns of every classifier that does not converge in its fixed number of iterations.
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
            f"it needs the extra: {install_extra('mteb')}"
        ) from fault
    if int(version("mteb").partition(".")[0]) < 2:
        raise ValueError(
            f"Mteb: mteb {version('mteb')} is installed, 2 or newer is needed: {install_extra('mteb')}"
        )
    return mteb
