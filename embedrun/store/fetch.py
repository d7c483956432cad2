"""Fill a store from a mounted copy of one; what a copy and a download have in common."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedrun.console import Progress
from embedrun.errors import DataError
from embedrun.store.catalogue import Catalogue
from embedrun.store.folder import Store
from embedrun.store.naming import choose
from embedrun.store.place import entries, filling, place, record
from embedrun.store.verify import verify

_PIECE = 1 << 20  # bytes


@dataclass(frozen=True)
class Fetched:
    """What became of one file.

    Args:
        path: its name in the store.
        state: `copied`, `converted`, `there` (whole already), or `no source on the hub is known`.
        rows: of it, or None where it was not fetched.
    """

    path: str
    state: str
    rows: int | None


def from_folder(store: Store, folder: Path, names: Sequence[str], catalogue: Catalogue) -> list[Fetched]:
    """Copy files of another store. A file that is there and right is left as it is, so a killed copy goes on.

    Args:
        store: to fill.
        folder: in the store layout, with its manifest; only read.
        names: of data sets, groups, folders or files; none for all.
        catalogue: what is known of the files.

    Raises:
        ConfigError: for a name that means nothing there.
        DataError: if a wanted file of the folder is faulty or the store has another file of its name, and
            nothing is written then; or if the store cannot be written.
    """
    source = Store(folder)
    offered = {entry["path"]: entry for entry in source.manifest}
    chosen = choose("embedrun data get", names, offered, catalogue)
    with filling(store):
        known = entries(store)
        there = [path for path in chosen if whole(store, offered[path])]
        wanted = [path for path in chosen if path not in there]
        problems = [text for path in wanted for text in in_the_way(store, path, known)]
        for path in wanted:
            problems += verify(source, offered[path], catalogue)
        if problems:
            raise DataError(problems)
        for path in there:
            if known.get(path) != offered[path]:
                record(store, offered[path])  # killed between the file and its entry
        total = sum(offered[path]["bytes"] for path in wanted)
        with Progress("copy", total >> 10, "KiB") as bar:
            done = 0
            for path in wanted:
                place(store, offered[path], _pieces(source.path(path), bar, done))
                done += offered[path]["bytes"]
    return [Fetched(path, "copied" if path in wanted else "there", offered[path]["rows"]) for path in chosen]


def whole(store: Store, entry: Mapping[str, Any]) -> bool:
    """Whether the store has the file of a manifest's entry, byte for byte."""
    path = store.path(entry["path"])
    return (
        path.is_file()
        and path.stat().st_size == entry["bytes"]
        and store.fingerprint(entry["path"]) == entry["sha256"]
    )


def in_the_way(store: Store, path: str, known: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A problem if the file there is no damaged copy of a listed one: the user's own, or another version."""
    if not store.has(path) or (path in known and not whole(store, known[path])):
        return []
    return [f"{store.path(path)}: another file of this name is there; move it away and get it again"]


def _pieces(path: Path, bar: Progress, before: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        done = before
        while piece := file.read(_PIECE):
            yield piece
            done += len(piece)
            bar.reach(done >> 10, path.name)
