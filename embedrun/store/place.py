"""Put files into a store: one filler at a time, a file whole or not at all, and the manifest with it."""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from embedrun.errors import DataError
from embedrun.files import open_lock
from embedrun.store.folder import Store

_ASIDE = ".tmp-"  # before the name of a file that is not whole yet


@contextlib.contextmanager
def filling(store: Store) -> Iterator[None]:
    """Keep every other filler of the store out; its folder is made where it is missing.

    Raises:
        ConfigError: if the file of the lock is a link.
        DataError: if another fills it now, or it cannot be written.
    """
    with _writable(store):
        store.root.mkdir(parents=True, exist_ok=True)
        lock = open_lock(store.root / ".lock")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataError(f"{store.root}: another embedrun data get fills it now; wait for it") from None
        yield


def entries(store: Store) -> dict[str, dict[str, Any]]:
    """The manifest as it is now, by path; empty where there is none yet."""
    fresh = Store(store.root)
    return {entry["path"]: entry for entry in fresh.manifest} if fresh.has("MANIFEST.json") else {}


def place(store: Store, entry: Mapping[str, Any], pieces: Iterable[bytes]) -> None:
    """Write one file and record it, both whole or not at all.

    Args:
        store: that `filling` holds.
        entry: of the manifest.
        pieces: the packed bytes.

    Raises:
        DataError: if the bytes are not those of the entry, or the store cannot be written.
    """
    path = store.path(entry["path"])
    digest = hashlib.sha256()

    def hashed() -> Iterator[bytes]:
        for piece in pieces:
            digest.update(piece)
            yield piece

    with _writable(store):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _aside(path, hashed()) as aside:
            if digest.hexdigest() != entry["sha256"]:
                raise DataError(f"{path}: the bytes read are not those that were checked; start again")
            aside.replace(path)
        _sync(path.parent)
        record(store, entry)


def record(store: Store, entry: Mapping[str, Any]) -> None:
    """Put an entry into the manifest, in place of one of the same path; the files stand in order of path."""
    every = {**entries(store), entry["path"]: dict(entry)}
    text = json.dumps([every[path] for path in sorted(every)], indent=1, ensure_ascii=False) + "\n"
    path = store.path("MANIFEST.json")
    with _aside(path, [text.encode()]) as aside:
        aside.replace(path)
    _sync(path.parent)


@contextlib.contextmanager
def _aside(path: Path, pieces: Iterable[bytes]) -> Iterator[Path]:
    """A whole neighbour of the file, on the disk; gone afterwards unless it took the file's place."""
    # The same name every time, so that what a killed filler left is overwritten.
    aside = path.with_name(_ASIDE + path.name)
    try:
        with aside.open("wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        yield aside
    finally:
        aside.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _writable(store: Store) -> Iterator[None]:
    """A store that may not be written is a DataError; a full disk has an exit code of its own."""
    try:
        yield
    except OSError as fault:
        refused = isinstance(fault, PermissionError | FileExistsError | NotADirectoryError)
        if not refused and fault.errno != errno.EROFS:
            raise
        reason = fault.strerror or str(fault)
        raise DataError(
            f"{store.root}: cannot be written ({reason}); name another with --data-dir DIR"
        ) from fault
