"""Fill the store from the hub or from a copy."""

import contextlib
import errno
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from embedrun.console import Progress
from embedrun.errors import ConfigError, DataError
from embedrun.files import Plain, open_lock, take, whole_file
from embedrun.store.catalogue import Catalogue, StoreFile
from embedrun.store.convert import convert
from embedrun.store.folder import Store, choose, verify
from embedrun.store.hub import snapshot
from embedrun.store.read import sha256

# Prefix of a file that is not complete yet; not random, so that the remains of a kill are overwritten.
_ASIDE = ".tmp-"


@contextlib.contextmanager
def filling(store: Store) -> Iterator[None]:
    """Lock the store against other fillers; its folder is made where it is missing.

    Raises:
        DataError: if another fills it now, or it cannot be written.
    """
    with _writable(store):
        store.root.mkdir(parents=True, exist_ok=True)
        lock = open_lock(store.root / ".lock")
    with lock:
        if not take(lock):
            raise DataError(f"{store.root}: in use by another embedrun data get; wait for it to finish")
        yield


def entries(store: Store) -> dict[str, Plain]:
    """The manifest as it is now, by path; empty where there is none yet."""
    fresh = Store(store.root)
    return {entry["path"]: entry for entry in fresh.manifest} if fresh.has("MANIFEST.json") else {}


def place(store: Store, entry: Plain, write: Callable[[Path], object]) -> None:
    """Record one file, and let `write` make it aside; needs `filling`.

    The entry comes first: who is killed in between leaves an entry without its file, which is made again.

    Raises:
        DataError: if the bytes are not those of the entry, or the store cannot be written.
    """
    path, manifest = store.path(entry["path"]), store.path("MANIFEST.json")
    every = {**entries(store), entry["path"]: dict(entry)}
    text = json.dumps([every[name] for name in sorted(every)], indent=1, ensure_ascii=False) + "\n"
    with _writable(store):
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path, aside=_ASIDE + path.name) as aside:
            write(aside)
            if sha256(aside) != entry["sha256"]:
                raise DataError(f"{path}: the bytes read are not those that were checked; start again")
            with whole_file(manifest, aside=_ASIDE + manifest.name) as listed:
                listed.write_bytes(text.encode())


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


@dataclass(frozen=True)
class Fetched:
    """What became of one file.

    `state` is `copied`, `converted`, `there` (whole already), or `no source on the hub is known`; `rows` is
    None where it was not fetched.
    """

    path: str
    state: str
    rows: int | None


def from_folder(store: Store, folder: Path, names: Sequence[str], catalogue: Catalogue) -> list[Fetched]:
    """Copy files of another store; intact ones are left as they are, so that a killed copy can be resumed.

    Args:
        folder: in the store layout, with its manifest; only read.
        names: of data sets, groups, folders or files; none for all.

    Raises:
        ConfigError: for an unknown name.
        DataError: if a wanted file of the folder is faulty or the store has another file of its name, and
            nothing is written then; or if the store cannot be written.
    """
    source = Store(folder)
    offered = {entry["path"]: entry for entry in source.manifest}
    chosen = choose("embedrun data get", names, offered, catalogue)
    with filling(store), Progress("copy", len(chosen), "files") as bar:
        known = entries(store)
        wanted = [path for path in chosen if not whole(store, offered[path]) or path not in known]
        problems = [text for path in wanted for text in in_the_way(store, path, known, offered[path])]
        for path in wanted:
            problems += verify(source, offered[path], catalogue)
        if problems:
            raise DataError(problems)
        for number, path in enumerate(chosen, 1):
            if path in wanted:
                place(store, offered[path], partial(shutil.copyfile, source.path(path)))
            bar.reach(number, path)
    return [Fetched(path, "copied" if path in wanted else "there", offered[path]["rows"]) for path in chosen]


def whole(store: Store, entry: Plain) -> bool:
    """Whether the store has the file of a manifest's entry, byte for byte."""
    path = store.path(entry["path"])
    return (
        path.is_file()
        and path.stat().st_size == entry["bytes"]
        and store.fingerprint(entry["path"]) == entry["sha256"]
    )


def in_the_way(store: Store, path: str, known: Mapping[str, Plain], entry: Plain | None = None) -> list[str]:
    """A problem if the file there is neither that of `entry` nor a damaged copy of a listed one.

    Then it is the user's own, or another version.
    """
    damaged = path in known and not whole(store, known[path])
    if not store.has(path) or damaged or (entry is not None and whole(store, entry)):
        return []
    return [f"{store.path(path)}: another file of this name is there; move it away and get it again"]


def from_hub(store: Store, names: Sequence[str], catalogue: Catalogue) -> list[Fetched]:
    """Download data sets from the hub and convert them to the store layout, file by file.

    An intact file is left as it is, so that an interrupted download can be resumed. The manifest says
    repository, commit and files of each. `names` are of data sets, groups, folders or files; one at least.

    Raises:
        ConfigError: for an unknown name, or no name.
        DataError: if a name has no source on the hub, cannot be downloaded or is not what is published,
            or the store has another file of its name. Files that were whole before stay.
    """
    if not names:
        raise ConfigError("embedrun data get: name what to fetch, such as stsb or nli; or give --from FOLDER")
    files = catalogue.files()
    on_hub = {catalogue.data_set_of(path) for path, file in files.items() if file.hub is not None}
    chosen = [
        path  # a sample beside a whole file of the hub is not missed
        for path in choose("embedrun data get", names, files, catalogue)
        if files[path].hub is not None or catalogue.data_set_of(path) not in on_hub
    ]
    if problems := _without_source(names, catalogue):
        raise DataError(problems)
    results = []
    with filling(store), Progress("get", len(chosen), "files") as bar:
        known = entries(store)
        waiting = [path for path in chosen if not _settled(store, path, files[path], known)]
        if problems := [text for path in waiting for text in in_the_way(store, path, known)]:
            raise DataError(problems)
        for number, path in enumerate(chosen, 1):
            results.append(_from_hub(store, path, files[path], path in waiting, known))
            bar.reach(number, path)
    return results


def _from_hub(store: Store, path: str, file: StoreFile, wanted: bool, known: Mapping[str, Plain]) -> Fetched:
    if not wanted and path in known:
        return Fetched(path, "there", known[path]["rows"])
    if file.hub is None:
        return Fetched(path, "no source on the hub is known", None)
    folder, commit = snapshot(file.hub.repo, file.hub.revision, file.hub.files)
    made = convert(path, file, file.hub, folder, commit)
    place(store, made.entry, lambda aside: aside.write_bytes(made.packed))
    return Fetched(path, "converted", made.entry["rows"])


def _without_source(names: Sequence[str], catalogue: Catalogue) -> list[str]:
    """One problem for each name of which nothing is on the hub; for a group, one member there is enough."""
    files = catalogue.files()
    meant = {name: choose("embedrun data get", [name], files, catalogue) for name in dict.fromkeys(names)}
    return [
        f"{name}: no source on the hub is known; copy it from a mounted store with "
        f"embedrun data get {name} --from FOLDER"
        for name, paths in meant.items()
        if all(files[path].hub is None for path in paths)
    ]


def _settled(store: Store, path: str, file: StoreFile, known: Mapping[str, Plain]) -> bool:
    """Whether there is nothing to do: the file is as its source would give it, or it has no source."""
    if file.hub is None:
        return True
    entry = known.get(path)
    if entry is None or not whole(store, entry):
        return False
    rows = file.hub.rows if file.hub.rows is not None else file.rows
    commit = entry.get("hub", {}).get("commit")
    pinned = commit is None or file.hub.revision in (None, commit)
    return pinned and rows in (None, entry["rows"])


HEADING = ["data set", "files here", "rows here", "on the hub", "licence", "presets"]
RIGHT = (1, 2)  # columns of numbers


def listing(store: Store, catalogue: Catalogue, presets: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """One row of cells for each data set, after a heading; then one for each file of no known data set.

    `presets` are those of conf/experiment by the data set that they need. The data folder need not exist, nor
    have a manifest.
    """
    known = entries(store)
    table = [HEADING]
    for name, one in catalogue.data_sets.items():
        here = [path for path in one.files if store.has(path)]
        rows = [known[path]["rows"] if path in known else None for path in here]
        counted = "?" if None in rows else f"{sum(row for row in rows if row is not None):,}"
        hub = "yes" if any(file.hub is not None for file in one.files.values()) else "no"
        table.append(
            [
                name,
                f"{len(here)} of {len(one.files)}",
                counted if here else "-",
                hub,
                one.licence,
                ", ".join(presets.get(name, ())) or "-",
            ]
        )
    found = {path.relative_to(store.root).as_posix() for path in store.root.rglob("*.gz")}
    for path in sorted((found | set(known)) - set(catalogue.files())):
        rows = f"{known[path]['rows']:,}" if path in known else "?"
        table.append([path, f"{int(path in found)} of 1", rows, "no", "?", "-"])
    return table
