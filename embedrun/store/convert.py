"""From files in the hub's formats to one file in the layout of the store."""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from embedrun.console import say
from embedrun.errors import DataError
from embedrun.files import Plain, packed
from embedrun.store.catalogue import COUNTED, HubSource, StoreFile, published_problems
from embedrun.store.columns import LineFaults
from embedrun.store.columns import convert as typed_columns
from embedrun.store.read import blocks

_MAP = "; see `columns` in conf/hub.yaml"
_OTHER = re.compile(r"[\W_]+")
_LINES = "text"  # the column of a file that has none


@dataclass(frozen=True)
class Converted:
    """One packed file of the store, the same bytes for the same rows, and its entry of the manifest."""

    entry: Plain
    packed: bytes


def convert(target: str, file: StoreFile, source: HubSource, folder: Path, commit: str) -> Converted:
    """Convert the source's files into the store's file.

    Texts lose outer blanks and are otherwise unaltered; labels are whole numbers, scores numbers.

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
    subset = subsets_in_turn(columns, source.blocks or {}, file.subsets or {})
    if source.blocks and not subset:
        say(f"{target}: the rows of {source.repo} do not stand subset after subset, so none has its name")
    constants = {
        name: value for name, value in (source.constants or {}).items() if name != "subset" or not subset
    }
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
    return Converted(entry, content)


def subsets_in_turn(
    columns: Mapping[str, Sequence[Any]], blocks: Mapping[str, Sequence[str]], sizes: Mapping[str, int]
) -> list[object]:
    """The subset of each row, where the rows of each stand together, in any order of subsets; else nothing.

    Args:
        columns: with `sentence1` and `sentence2`, each ``(rows,)``.
        blocks: `mark` of the first and of the last pair, by subset.
        sizes: rows, by subset.
    """
    found: list[object] = []
    pairs = list(zip(columns.get("sentence1", ()), columns.get("sentence2", ()), strict=True))
    while left := [name for name in blocks if name not in found]:
        ends = {name: (len(found), len(found) + sizes[name] - 1) for name in left}
        fitting = (
            name
            for name, (first, last) in ends.items()
            if last < len(pairs) and [mark(*pairs[first]), mark(*pairs[last])] == list(blocks[name])
        )
        if (name := next(fitting, None)) is None:
            return []
        found += [name] * sizes[name]
    return found if len(found) == len(pairs) else []


def mark(first: str, second: str) -> str:
    """A pair by the letters and digits of its sentences: copies differ in blanks and quotation marks."""
    plain = (_OTHER.sub("", text.lower()) for text in (first, second))
    return hashlib.sha256("\n".join(plain).encode()).hexdigest()[:8]


def _read(source: HubSource, folder: Path) -> dict[str, list[object]]:
    """Typed values by our name, of the rows that are kept, file after file."""
    names = source.columns or {_LINES: _LINES}
    columns: dict[str, list[object]] = {name: [] for name in names}
    rules = {
        theirs: partial(_value, ours, mapped=(source.values or {}).get(ours))
        for ours, theirs in names.items()
    }
    problems: list[str] = []
    for name in source.files:
        path = folder / name
        faults = LineFaults(path)
        try:
            for block in blocks(path, list(names.values()), faults, hint=_MAP):
                typed = typed_columns(block.columns, rules, block.rows, faults)
                if len(faults):
                    continue
                for row in zip(*(typed[theirs] for theirs in names.values()), strict=True):
                    values = dict(zip(names, row, strict=True))
                    if all(values.get(name) in kept for name, kept in (source.keep or {}).items()):
                        for name, value in values.items():
                            columns[name].append(value)
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
    if name == "label":
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"expected a whole number, got {value!r}")
        return value
    if name == "score":
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f"expected a finite number, got {value!r}")
        return value
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"expected text, got {'null' if value is None else repr(value)}")
    text = str(value).strip()
    text.encode("utf-8", "strict")  # half a surrogate pair is a ValueError too
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
