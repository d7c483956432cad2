"""Fill the store from the hub, whose files are converted to its layout, or from a copy."""

import hashlib
import json
import math
import re
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain, compress
from pathlib import Path
from typing import Any, NamedTuple

from embedrun.console import Progress, say
from embedrun.errors import ConfigError, DataError
from embedrun.files import Plain, only_writer, packed, refuse_unwritable, whole_file
from embedrun.store import Store, choose, verify
from embedrun.store.catalogue import COUNTED, Catalogue, HubSource, StoreFile, published_problems
from embedrun.store.columns import LineFaults, convert, shown
from embedrun.store.hub import snapshot
from embedrun.store.read import blocks, sha256

# Prefix of a file that is not complete yet; not random, so that the remains of a kill are overwritten.
_ASIDE = ".tmp-"
_GET = "embedrun data get"


def entries(store: Store) -> dict[str, Plain]:
    """The manifest as it is now, by path; empty where there is none yet."""
    fresh = Store(store.root)
    return {entry["path"]: entry for entry in fresh.manifest} if fresh.has("MANIFEST.json") else {}


def place(store: Store, entry: Plain, write: Callable[[Path], object]) -> None:
    """Record one file, and let `write` make it aside; the store has no other writer.

    The entry comes first: who is killed in between leaves an entry without its file, which is made again.
    """
    path, manifest = store.path(entry["path"]), store.path("MANIFEST.json")
    every = {**entries(store), entry["path"]: dict(entry)}
    text = json.dumps([every[name] for name in sorted(every)], indent=1, ensure_ascii=False) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path, aside=_ASIDE + path.name) as aside:
        write(aside)
        if sha256(aside) != entry["sha256"]:
            raise DataError(f"{path}: the bytes read are not those that were checked; start again")
        with whole_file(manifest, aside=_ASIDE + manifest.name) as listed:
            listed.write_bytes(text.encode())


class Fetched(NamedTuple):
    """What became of one file: `copied`, `converted`, or `there` if it was whole already."""

    path: str
    state: str
    rows: int


def from_folder(store: Store, folder: Path, names: Sequence[str], catalogue: Catalogue) -> list[Fetched]:
    """Copy files of another store, by name, or all; intact ones stay, so a killed copy can be resumed."""
    source = Store(folder)
    offered = {entry["path"]: entry for entry in source.manifest}

    def copy(path: str) -> Fetched:
        if problems := verify(source, offered[path], catalogue):
            raise DataError(problems)
        place(store, offered[path], partial(shutil.copyfile, source.path(path)))
        return Fetched(path, "copied", offered[path]["rows"])

    chosen = choose(_GET, names, offered, catalogue)
    return _fetch(store, chosen, lambda path, _: whole(store, offered[path]), copy)


def whole(store: Store, entry: Plain) -> bool:
    """Whether the store has the file of a manifest's entry, byte for byte."""
    return store.has(entry["path"]) and sha256(store.path(entry["path"])) == entry["sha256"]


def _fetch(
    store: Store,
    chosen: Sequence[str],
    is_there: Callable[[str, Plain], bool],
    fetch: Callable[[str], Fetched],
) -> list[Fetched]:
    """Fetch what is not there; files of the user's own, or of another version, are refused before."""
    results = []
    refuse_unwritable("--data-dir", store.root)
    store.root.mkdir(parents=True, exist_ok=True)
    with only_writer(store.path("MANIFEST.json")), Progress("get", len(chosen), "files") as bar:
        known = entries(store)
        waiting = [path for path in chosen if path not in known or not is_there(path, known[path])]
        in_the_way = [
            f"{store.path(path)}: another file of this name is there; move it away and get it again"
            for path in waiting
            if store.has(path) and (path not in known or whole(store, known[path]))
        ]
        if in_the_way:
            raise DataError(in_the_way)
        for path in chosen:
            is_new = path in waiting
            results.append(fetch(path) if is_new else Fetched(path, "there", known[path]["rows"]))
            bar.reach(len(results), path)
    return results


def from_hub(store: Store, names: Sequence[str], catalogue: Catalogue) -> list[Fetched]:
    """Download data sets from the hub, one at least, and convert them; intact files stay."""
    if not names:
        raise ConfigError(f"{_GET}: name what to fetch, such as stsb or nli; or give --from FOLDER")
    sources = _sources(names, catalogue)

    def convert_from_hub(path: str) -> Fetched:
        source = sources[path]
        folder, commit = snapshot(source.repo, source.revision, source.files)
        entry, content = converted(path, catalogue.files[path], source, folder, commit)
        place(store, entry, lambda aside: aside.write_bytes(content))
        return Fetched(path, "converted", entry["rows"])

    def is_there(path: str, entry: Plain) -> bool:
        rows = sources[path].rows or catalogue.files[path].rows or entry["rows"]
        commit = entry.get("hub", {}).get("commit")
        is_of_commit = commit is None or sources[path].revision in (None, commit)
        return rows == entry["rows"] and is_of_commit and whole(store, entry)

    return _fetch(store, list(sources), is_there, convert_from_hub)


def _sources(names: Sequence[str], catalogue: Catalogue) -> dict[str, HubSource]:
    every = {path: file.hub for path, file in catalogue.files.items() if file.hub is not None}
    paths = choose(_GET, names, catalogue.files, catalogue)
    copy = "no source on the hub is known; copy it from a mounted store with --from FOLDER"
    chosen = {name: choose(_GET, [name], catalogue.files, catalogue) for name in names}
    if without := [name for name in chosen if every.keys().isdisjoint(chosen[name])]:
        raise DataError([f"{name}: {copy}" for name in without])
    for name, data_set in catalogue.data_sets.items():
        if every.keys().isdisjoint(data_set.files) and not data_set.files.keys().isdisjoint(paths):
            say(f"warning: {name}: {copy}")
    return {path: every[path] for path in paths if path in every}


def converted(
    target: str, file: StoreFile, source: HubSource, folder: Path, commit: str
) -> tuple[Plain, bytes]:
    """The entry of the manifest and the bytes of the file `target` of the store, of the source's in `folder`.

    Texts lose outer blanks and are otherwise unaltered; the same rows give the same bytes.
    """
    columns = _read(source, folder)
    rows = len(next(iter(columns.values())))
    constants = dict(source.constants)
    columns |= {name: [value] * rows for name, value in constants.items()}
    if source.blocks and (subset := subsets_in_turn(columns, source.blocks, file.subsets)):
        columns["subset"] = subset
        constants.pop("subset", None)
    elif source.blocks:
        say(f"{target}: the rows of {source.repo} do not stand subset after subset, so none has its name")
    where = Path(f"{source.repo}@{commit[:12]}") / source.files[0]
    problems = published_problems(where, file, rows, columns, 1, constants)
    if source.rows is not None and rows != source.rows:
        problems.append(f"{where}: {rows} rows, the published data set has {source.rows}")
    if problems:
        raise DataError(problems)
    content = packed(_text(target, columns).encode())
    entry: dict[str, Any] = {
        "path": target,
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "rows": rows,
        **_facts(target, columns),
        "hub": {"repo": source.repo, "commit": commit, "files": source.files},
    }
    if constants:
        entry["hub"]["constants"] = constants
    return entry, content


def subsets_in_turn(
    columns: Mapping[str, Sequence[Any]], blocks: Mapping[str, Sequence[str]], sizes: Mapping[str, int]
) -> list[object]:
    """The subset of each row, where the rows of each stand together, in any order of subsets; else nothing.

    `blocks` has the `mark` of the first and of the last pair, `sizes` the number of rows, by subset.
    """
    marks = list(map(mark, columns.get("sentence1", ()), columns.get("sentence2", ())))  # (rows,)
    left = {name: list(ends) for name, ends in blocks.items()}
    subsets: list[object] = []
    while left:
        rows = {name: marks[len(subsets) :][: sizes[name]] for name in left}
        fitting = (name for name in left if rows[name][:1] + rows[name][sizes[name] - 1 :] == left[name])
        if (name := next(fitting, None)) is None:
            return []
        subsets += [name] * sizes[name]
        del left[name]
    return subsets if len(subsets) == len(marks) else []


_OTHER = re.compile(r"[\W_]+")


def mark(first: str, second: str) -> str:
    """A pair by the letters and digits of its sentences: copies differ in blanks and quotation marks."""
    plain = (_OTHER.sub("", text.lower()) for text in (first, second))
    return hashlib.sha256("\n".join(plain).encode()).hexdigest()[:8]


def _read(source: HubSource, folder: Path) -> dict[str, list[object]]:
    rules = {source.columns[name]: partial(_value, name, source) for name in source.columns}
    columns: dict[str, list[object]] = {name: [] for name in source.columns}
    problems: list[str] = []
    for path in [folder / name for name in source.files]:
        faults = LineFaults(path)
        try:
            for raw, numbers in blocks(path, list(rules), faults, hint="; see `columns` in conf/hub.yaml"):
                typed = convert(raw, rules, numbers, faults)
                for name, column in source.columns.items():
                    columns[name] += typed[column]
            faults.check()
        except DataError as fault:
            problems += fault.problems
    if problems:
        raise DataError(problems)
    for name, accepted in source.keep.items():
        fits = [value in accepted for value in columns[name]]  # (rows,)
        columns = {other: list(compress(values, fits)) for other, values in columns.items()}
    if not any(columns.values()):
        raise DataError(f"{folder}: no row is kept; see `keep` in conf/hub.yaml")
    return columns


_NUMBERS = {"label": ((int,), "a whole number"), "score": ((int, float), "a finite number")}


def _value(name: str, source: HubSource, value: Any) -> object:
    if name in source.values:
        if value not in source.values[name]:
            raise ValueError(f"{value!r} is none of {', '.join(map(repr, source.values[name]))}")
        value = source.values[name][value]
    types, what = _NUMBERS.get(name, ((str, int), "text"))
    if type(value) not in types or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"expected {what}, got {shown(value)}")
    if name in _NUMBERS:
        return value
    text = str(value).strip()
    text.encode()  # half a surrogate pair is a ValueError too
    return text


def _text(target: str, columns: Mapping[str, Sequence[object]]) -> str:
    rows = zip(*columns.values(), strict=True)
    if target.endswith(".jsonl.gz"):
        lines = [json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) for row in rows]
        return "".join(f"{line}\n" for line in lines)
    fields = [tuple(columns), *rows] if target.endswith(".tsv.gz") else list(rows)
    texts = map(str, chain.from_iterable(fields))
    if (unfit := next(filter(re.compile(r"[\t\n\r]").search, texts), None)) is not None:
        raise DataError(f"{target}: cannot hold a text with a tab or a line end: {unfit[:40]!r}")
    return "".join("\t".join(map(str, row)) + "\n" for row in fields)


def _facts(target: str, columns: Mapping[str, Sequence[Any]]) -> Plain:
    if target.endswith(".txt.gz"):
        return {}
    facts: dict[str, object] = {"columns": list(columns)}
    for key, column in COUNTED.items():
        if column in columns:
            facts[key] = dict(sorted(Counter(map(str, columns[column])).items()))
    if "score" in columns:
        facts["score_min_max"] = [float(min(columns["score"])), float(max(columns["score"]))]
    return facts


def listing(store: Store, catalogue: Catalogue) -> list[list[str]]:
    """One row of cells for each data set, after a heading; the data folder need not exist."""
    known = entries(store)
    table = [["data set", "files here", "rows here", "on the hub", "licence"]]
    for name, data_set in catalogue.data_sets.items():
        here = [path for path in data_set.files if store.has(path)]
        listed = [known[path]["rows"] for path in here if path in known]
        counted = f"{sum(listed):,}" if len(listed) == len(here) else "?"
        number = f"{len(here)} of {len(data_set.files)}"
        source = "yes" if any(file.hub for file in data_set.files.values()) else "no"
        table.append([name, number, counted if here else "-", source, data_set.licence])
    return table
