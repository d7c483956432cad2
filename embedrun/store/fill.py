"""Fill the store from the hub, whose files are converted to its layout, or from a copy."""

import contextlib
import hashlib
import json
import math
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from embedrun.console import Progress, say
from embedrun.errors import ConfigError, DataError, is_full
from embedrun.files import Plain, open_lock, packed, take, whole_file
from embedrun.store import Store, choose, verify
from embedrun.store.catalogue import COUNTED, Catalogue, HubSource, StoreFile, published_problems
from embedrun.store.columns import LineFaults, convert
from embedrun.store.hub import snapshot
from embedrun.store.read import blocks, sha256

# Prefix of a file that is not complete yet; not random, so that the remains of a kill are overwritten.
_ASIDE = ".tmp-"
_GET = "embedrun data get"
_NO_SOURCE = "no source on the hub is known"


@contextlib.contextmanager
def filling(store: Store) -> Iterator[None]:
    """Lock the store against other fillers; its folder is made where it is missing.

    Raises:
        DataError: if another fills it now, or it cannot be written; a full disk has an exit code of its own.
    """
    try:
        store.root.mkdir(parents=True, exist_ok=True)
        with open_lock(store.root / ".lock") as lock:
            if not take(lock):
                raise DataError(f"{store.root}: in use by another {_GET}; wait for it to finish")
            yield
    except OSError as fault:
        if is_full(fault):
            raise
        reason = fault.strerror or str(fault)
        raise DataError(
            f"{store.root}: cannot be written ({reason}); name another with --data-dir DIR"
        ) from fault


def entries(store: Store) -> dict[str, Plain]:
    """The manifest as it is now, by path; empty where there is none yet."""
    fresh = Store(store.root)
    return {entry["path"]: entry for entry in fresh.manifest} if fresh.has("MANIFEST.json") else {}


def place(store: Store, entry: Plain, write: Callable[[Path], object]) -> None:
    """Record one file, and let `write` make it aside; needs `filling`.

    The entry comes first: who is killed in between leaves an entry without its file, which is made again. A
    DataError if the bytes are not those of the entry.
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
    chosen = choose(_GET, names, offered, catalogue)
    with filling(store), Progress("copy", len(chosen), "files") as bar:
        known = entries(store)
        wanted = [path for path in chosen if not whole(store, offered[path]) or path not in known]
        problems = _in_the_way(store, [path for path in wanted if not whole(store, offered[path])], known)
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
    return store.has(entry["path"]) and store.fingerprint(entry["path"]) == entry["sha256"]


def _in_the_way(store: Store, paths: Sequence[str], known: Mapping[str, Plain]) -> list[str]:
    """A problem for each file that is no damaged copy of a listed one: the user's own, or another version."""
    return [
        f"{store.path(path)}: another file of this name is there; move it away and get it again"
        for path in paths
        if store.has(path) and not (path in known and not whole(store, known[path]))
    ]


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
        raise ConfigError(f"{_GET}: name what to fetch, such as stsb or nli; or give --from FOLDER")
    files = catalogue.files()
    on_hub = {catalogue.data_set_of(path) for path, file in files.items() if file.hub is not None}
    chosen = [
        path  # a sample beside a whole file of the hub is not missed
        for path in choose(_GET, names, files, catalogue)
        if files[path].hub is not None or catalogue.data_set_of(path) not in on_hub
    ]
    without_source = [
        f"{name}: {_NO_SOURCE}; copy it from a mounted store with {_GET} {name} --from FOLDER"
        for name in dict.fromkeys(names)
        if all(files[path].hub is None for path in choose(_GET, [name], files, catalogue))
    ]
    if without_source:
        raise DataError(without_source)
    results = []
    with filling(store), Progress("get", len(chosen), "files") as bar:
        known = entries(store)
        waiting = [path for path in chosen if not _is_settled(store, files[path], known.get(path))]
        if problems := _in_the_way(store, waiting, known):
            raise DataError(problems)
        for number, path in enumerate(chosen, 1):
            if path in waiting:
                results.append(_from_hub(store, path, files[path]))
            else:
                rows = known[path]["rows"] if path in known else None
                results.append(Fetched(path, _NO_SOURCE if rows is None else "there", rows))
            bar.reach(number, path)
    return results


def _is_settled(store: Store, file: StoreFile, entry: Plain | None) -> bool:
    """Whether there is nothing to do: the file is as its source would give it, or it has no source."""
    if file.hub is None:
        return True
    if entry is None or not whole(store, entry):
        return False
    rows = file.hub.rows if file.hub.rows is not None else file.rows
    commit = entry.get("hub", {}).get("commit")
    return (commit is None or file.hub.revision in (None, commit)) and rows in (None, entry["rows"])


def _from_hub(store: Store, path: str, file: StoreFile) -> Fetched:
    assert file.hub is not None
    folder, commit = snapshot(file.hub.repo, file.hub.revision, file.hub.files)
    entry, content = converted(path, file, file.hub, folder, commit)
    place(store, entry, lambda aside: aside.write_bytes(content))
    return Fetched(path, "converted", entry["rows"])


def converted(
    target: str, file: StoreFile, source: HubSource, folder: Path, commit: str
) -> tuple[Plain, bytes]:
    """The entry of the manifest and the bytes of a file of the store, made of the source's files.

    Texts lose outer blanks and are otherwise unaltered; labels are whole numbers, scores numbers. The same
    rows give the same bytes.

    Args:
        target: name of the file in the store.
        file: what is published of it.
        folder: that holds the source's files.
        commit: of the repository, for the manifest.

    Raises:
        DataError: if a file cannot be read, lacks a column, or has a value that does not fit; or if the rows,
            or their labels, are not as many as published.
    """
    columns = _read(source, folder)
    rows = len(next(iter(columns.values())))
    constants = dict(source.constants or {})
    if source.blocks:
        if subset := subsets_in_turn(columns, source.blocks, file.subsets or {}):
            constants.pop("subset", None)
        else:
            say(f"{target}: the rows of {source.repo} do not stand subset after subset, so none has its name")
    else:
        subset = []
    columns |= {name: [value] * rows for name, value in constants.items()}
    columns |= {"subset": subset} if subset else {}
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

    Args:
        columns: with `sentence1` and `sentence2`, each ``(rows,)``.
        blocks: `mark` of the first and of the last pair, by subset.
        sizes: rows, by subset.
    """
    subsets: list[object] = []
    pairs = list(zip(columns.get("sentence1", ()), columns.get("sentence2", ()), strict=True))
    while left := [name for name in blocks if name not in subsets]:
        ends = {name: (len(subsets), len(subsets) + sizes[name] - 1) for name in left}
        fitting = (
            name
            for name, (first, last) in ends.items()
            if last < len(pairs) and [mark(*pairs[first]), mark(*pairs[last])] == list(blocks[name])
        )
        if (name := next(fitting, None)) is None:
            return []
        subsets += [name] * sizes[name]
    return subsets if len(subsets) == len(pairs) else []


_OTHER = re.compile(r"[\W_]+")


def mark(first: str, second: str) -> str:
    """A pair by the letters and digits of its sentences: copies differ in blanks and quotation marks."""
    plain = (_OTHER.sub("", text.lower()) for text in (first, second))
    return hashlib.sha256("\n".join(plain).encode()).hexdigest()[:8]


def _read(source: HubSource, folder: Path) -> dict[str, list[object]]:
    """Typed values by our name, of the rows that are kept, file after file."""
    names = source.columns or {"text": "text"}  # plain text has no columns
    columns: dict[str, list[object]] = {name: [] for name in names}
    rules = {
        theirs: partial(_value, ours, mapped=(source.values or {}).get(ours))
        for ours, theirs in names.items()
    }
    kept = {names[name]: values for name, values in (source.keep or {}).items()}
    problems: list[str] = []
    for path in [folder / name for name in source.files]:
        faults = LineFaults(path)
        try:
            for raw, numbers in blocks(path, list(rules), faults, hint="; see `columns` in conf/hub.yaml"):
                typed = convert(raw, rules, numbers, faults)
                places = [
                    place
                    for place in range(len(next(iter(typed.values()))))
                    if all(typed[theirs][place] in values for theirs, values in kept.items())
                ]
                for ours, theirs in names.items():
                    columns[ours] += [typed[theirs][place] for place in places]
            faults.check()
        except DataError as fault:
            problems += fault.problems
    if problems:
        raise DataError(problems)
    if not next(iter(columns.values())):
        raise DataError(f"{folder}: no row is kept; see `keep` in conf/hub.yaml")
    return columns


def _value(name: str, value: object, *, mapped: Mapping[Any, Any] | None) -> object:
    if mapped is not None:
        if value not in mapped:
            raise ValueError(f"{value!r} is none of {', '.join(map(repr, mapped))}")
        value = mapped[value]
    wanted, what = {
        "label": (int, "a whole number"),
        "score": (int | float, "a finite number"),
    }.get(name, (str | int, "text"))
    if isinstance(value, bool) or not isinstance(value, wanted):
        raise ValueError(f"expected {what}, got {'null' if value is None else repr(value)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"expected a finite number, got {value!r}")
    if name in ("label", "score"):
        return value
    text = str(value).strip()
    text.encode()  # half a surrogate pair is a ValueError too
    return text


def _text(target: str, columns: Mapping[str, Sequence[object]]) -> str:
    names = list(columns)
    rows = zip(*columns.values(), strict=True)
    if target.endswith(".jsonl.gz"):
        lines = [json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) for row in rows]
    elif target.endswith(".tsv.gz"):
        lines = ["\t".join(names), *("\t".join(_field(target, value) for value in row) for row in rows)]
    else:
        lines = [_field(target, text) for (text,) in rows]
    return "".join(f"{line}\n" for line in lines)


def _field(target: str, value: object) -> str:
    text = str(value)
    if any(end in text for end in "\t\n\r"):
        raise DataError(f"{target}: cannot hold a text with a tab or a line end: {text[:40]!r}")
    return text


def _facts(target: str, columns: Mapping[str, Sequence[Any]]) -> Plain:
    """What the manifest says beside bytes and rows."""
    if target.endswith(".txt.gz"):
        return {}
    facts: dict[str, object] = {"columns": list(columns)}
    for key, column in COUNTED.items():
        if column in columns:
            counts = Counter(map(str, columns[column]))
            facts[key] = {value: counts[value] for value in sorted(counts)}
    if "score" in columns:
        facts["score_min_max"] = [float(min(columns["score"])), float(max(columns["score"]))]
    return facts


def listing(store: Store, catalogue: Catalogue, presets: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """One row of cells for each data set, after a heading; then one for each file of no known data set.

    `presets` are those of conf/experiment by the data set that they need. The data folder need not exist, nor
    have a manifest.
    """
    known = entries(store)
    table = [["data set", "files here", "rows here", "on the hub", "licence", "presets"]]
    for name, data_set in catalogue.data_sets.items():
        here = [path for path in data_set.files if store.has(path)]
        rows = [known[path]["rows"] if path in known else None for path in here]
        counted = "?" if None in rows else f"{sum(filter(None, rows)):,}"
        table.append(
            [
                name,
                f"{len(here)} of {len(data_set.files)}",
                counted if here else "-",
                "yes" if any(file.hub is not None for file in data_set.files.values()) else "no",
                data_set.licence,
                ", ".join(presets.get(name, ())) or "-",
            ]
        )
    there = {path.relative_to(store.root).as_posix() for path in store.root.rglob("*.gz")}
    for path in sorted((there | set(known)) - set(catalogue.files())):
        rows = f"{known[path]['rows']:,}" if path in known else "?"
        table.append([path, f"{int(path in there)} of 1", rows, "no", "?", "-"])
    return table
