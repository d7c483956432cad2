"""Fill a store from the hub."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from embedrun.console import Progress
from embedrun.errors import ConfigError, DataError
from embedrun.store import hub
from embedrun.store.catalogue import Catalogue, StoreFile
from embedrun.store.convert import convert
from embedrun.store.fetch import Fetched, in_the_way, whole
from embedrun.store.folder import Store
from embedrun.store.naming import choose
from embedrun.store.place import entries, filling, place, record

# (repository, revision, files) -> folder with the files, commit
Snapshot = Callable[[str, str | None, Sequence[str]], tuple[Path, str]]


def from_hub(
    store: Store, names: Sequence[str], catalogue: Catalogue, snapshot: Snapshot = hub.snapshot
) -> list[Fetched]:
    """Download data sets from the hub and convert them to the store layout, file by file.

    A file that is there and right is left as it is, so that a killed download goes on. The manifest says
    repository, commit and files of each.

    Args:
        store: to fill.
        names: of data sets, groups, folders or files; one at the least.
        catalogue: says where they are on the hub.
        snapshot: gets the files of one commit.

    Raises:
        ConfigError: for a name that means nothing, or no name.
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
        # A file without an entry may be what a killed download left; its bytes will say.
        recorded = [path for path in waiting if path in known]
        if problems := [text for path in recorded for text in in_the_way(store, path, known)]:
            raise DataError(problems)
        for number, path in enumerate(chosen, 1):
            results.append(_from_hub(store, path, files[path], path in waiting, known, snapshot))
            bar.reach(number, path)
    return results


def _from_hub(
    store: Store,
    path: str,
    file: StoreFile,
    wanted: bool,
    known: Mapping[str, Mapping[str, Any]],
    snapshot: Snapshot,
) -> Fetched:
    if not wanted and path in known:
        return Fetched(path, "there", known[path]["rows"])
    if file.hub is None:
        return Fetched(path, "no source on the hub is known", None)
    folder, commit = snapshot(file.hub.repo, file.hub.revision, file.hub.files)
    made = convert(path, file, file.hub, folder, commit)
    if store.has(path) and path not in known:
        if store.fingerprint(path) != made.entry["sha256"]:
            raise DataError(in_the_way(store, path, known))
        record(store, made.entry)  # killed between the file and its entry
    else:
        place(store, made.entry, [made.packed])
    return Fetched(path, "converted", made.entry["rows"])


def _without_source(names: Sequence[str], catalogue: Catalogue) -> list[str]:
    """One problem for each name of which nothing is on the hub; of a group, what there is will do."""
    files = catalogue.files()
    meant = {name: choose("embedrun data get", [name], files, catalogue) for name in dict.fromkeys(names)}
    return [
        f"{name}: no source on the hub is known; copy it from a mounted store with "
        f"embedrun data get {name} --from FOLDER"
        for name, paths in meant.items()
        if all(files[path].hub is None for path in paths)
    ]


def _settled(store: Store, path: str, file: StoreFile, known: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether nothing is to be done: the file is there as its source would give it, or it has no source."""
    if file.hub is None:
        return True
    entry = known.get(path)
    if entry is None or not whole(store, entry):
        return False
    rows = file.hub.rows if file.hub.rows is not None else file.rows
    commit = entry.get("hub", {}).get("commit")
    pinned = commit is None or file.hub.revision in (None, commit)
    return pinned and rows in (None, entry["rows"])
