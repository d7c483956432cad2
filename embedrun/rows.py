"""Rows: what every data set gives, whatever file it comes from."""

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

if TYPE_CHECKING:
    from datasets import Dataset

# The text columns of each form of row, by the view that each of them feeds.
FORMS: dict[str, dict[str, str]] = {
    "pair": {"left": "text1", "right": "text2"},
    "triplet": {"left": "anchor", "right": "positive", "negative": "negative"},
    "text": {"text": "text"},
}
_NUMBERED = re.compile(r"negative_[1-9][0-9]*")


def numbered_negatives(names: Iterable[str]) -> list[str]:
    """The names of several hard negatives among these: `negative_1`, `negative_2`, ..."""
    return [name for name in names if _NUMBERED.fullmatch(name)]


def views_of_form(form: str, names: Collection[str]) -> Mapping[str, str]:
    """The text columns of rows by view: those of the form, unless triplets have several hard negatives.

    Then `negative_1` to `negative_n`, names of views and of columns alike, stand in place of `negative`.
    `names` are the columns or the views that are there. A ValueError if they are not numbered from 1 on.
    """
    numbered = numbered_negatives(names) if form == "triplet" else []
    if not numbered:
        return FORMS[form]
    wanted = [f"negative_{number}" for number in range(1, len(numbered) + 1)]
    if "negative" in names or set(wanted) != set(numbered):
        there = ", ".join(name for name in names if name.startswith("negative"))
        raise ValueError(f"must number every negative, from 'negative_1' without a gap; it has {there}")
    return {"left": "anchor", "right": "positive"} | {name: name for name in wanted}


MASKED = ("masked_once", "masked_twice")  # the views of the copies of a sentence, made anew in every epoch


@dataclass(frozen=True)
class Skipped:
    """A faulty row that was left out because the user asked for it."""

    file: str  # as the user named it, or a shard of the folder that was named
    row: int  # from 1; where the file has a header, that is row 1
    column: str  # of the faulty value, as the file calls it; empty where the whole row is meant
    reason: str


_AT_ONCE = 8192  # texts that are read together


class MappedTexts(Sequence[str]):
    """Texts that stay on the disk: those at `places`, int, ``(texts,)``, of a table of distinct texts."""

    def __init__(self, table: "Dataset", places: np.ndarray) -> None:
        self.table, self.places = table, places

    @property
    def mark(self) -> str:
        """Equal for equal texts of one table; the name of a folder of the cache says what is in it."""
        folder = Path(self.table.cache_files[0]["filename"]).parent.name
        return f"{folder} {hashlib.sha256(self.places.astype(np.int64).tobytes()).hexdigest()}"

    def at(self, rows: Sequence[int] | np.ndarray) -> list[str]:
        """The texts of some rows, in that order."""
        places = self.places[np.asarray(rows, np.int64)]  # (wanted,)
        return self.table[places.tolist()]["text"] if len(places) else []

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        rows = range(len(self))[row]
        return self.at([rows])[0] if isinstance(rows, int) else self.at(rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __iter__(self) -> Iterator[str]:
        for begin in range(0, len(self), _AT_ONCE):
            yield from self[begin : begin + _AT_ONCE]


def texts_at(texts: Sequence[str], rows: Sequence[int] | np.ndarray) -> list[str]:
    """Some texts of a column, in the order of `rows`."""
    return texts.at(rows) if isinstance(texts, MappedTexts) else [texts[row] for row in map(int, rows)]


@dataclass(frozen=True)
class Rows:
    """The rows of one split of one data set, by column.

    `targets` are each ``(rows,)``: ``score`` float64 (higher is more similar), ``label`` int64 (0 entailment,
    1 neutral, 2 contradiction), ``category`` int64 (class of a classification task, from 0), ``group`` int64
    (number of the thing that several texts describe, from 0), ``hard_negatives`` int64 (how many of
    `negative_1`, `negative_2` and so on a row has; the texts behind these are empty).
    """

    name: str  # of the data set, "stsb"
    split: str  # "train", "dev" or "test"
    form: str  # a key of `FORMS`
    texts: Mapping[str, Sequence[str]]  # by view, all of one length: lists, or mapped from the disk
    targets: dict[str, np.ndarray] = field(default_factory=dict)
    subset: list[str] = field(default_factory=list)  # the part of the data set of each row, or empty
    skipped: tuple[Skipped, ...] = ()  # rows left out, in file order; not part of the fingerprint
    masked: Any = None  # a `Masking`, which makes masked copies, where the losses may ask for them
    kept: str | None = None  # the fingerprint, where it was computed before
    lists: "Lists | None" = None  # where each epoch draws the texts of a row anew
    # Which views are queries or documents, of joined parts as `part/view`; no part of the fingerprint.
    roles: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise ValueError(f"rows: no form {self.form!r}, only {', '.join(FORMS)}")
        views = list(views_of_form(self.form, self.texts))
        if list(self.texts) != views:
            raise ValueError(f"rows of form {self.form!r} need the views {views}, got {list(self.texts)}")
        columns = [*self.texts.values(), *self.targets.values(), *([self.subset] if self.subset else [])]
        lengths = set(map(len, columns))
        if len(lengths) > 1:
            raise ValueError(f"rows: columns of different lengths, {sorted(lengths)}")

    def __len__(self) -> int:
        return len(next(iter(self.texts.values())))

    def drawn(self, fraction: float, seed: int) -> "Rows":
        """A random fraction of the rows, at least one, in their own order; `seed` alone decides which.

        A smaller fraction is a part of a larger one with the same seed.
        """
        if fraction >= 1:
            return self
        random = np.random.default_rng([seed, 0x64726177])
        rows = random.permutation(len(self))[: drawn_of(len(self), fraction)]  # (drawn,)
        return self.part(np.sort(rows))

    def part(self, rows: np.ndarray) -> "Rows":
        """The rows at `rows`, int, ``(kept,)``, in that order."""
        return replace(
            self,
            texts={view: _picked(column, rows) for view, column in self.texts.items()},
            targets={name: values[rows] for name, values in self.targets.items()},
            subset=[self.subset[place] for place in rows] if self.subset else [],
            kept=None,
            lists=None if self.lists is None else self.lists.part(rows),
        )

    def every_pair(self) -> "Rows":
        """The pairs of all texts of the lists of the rows; of other rows, these."""
        return self if self.lists is None else self.lists.pairs.part(self.lists.used())

    def sentences(self) -> Iterator[str]:
        """All texts of all views, in view order, repeats included."""
        return chain.from_iterable(self.texts.values())

    def by_role(self) -> Iterator[tuple[str | None, str]]:
        """All texts of all views with the role of each, repeats included."""
        for view, column in self.texts.items():
            if self.name == MIX:
                roles = [self.roles.get(f"{part}/{view}") for part in self.subset]
                yield from zip(roles, column, strict=True)
            else:
                yield from zip(repeat(self.roles.get(view)), column)

    def distinct(self, views: Sequence[str]) -> tuple[Sequence[str], dict[str, np.ndarray]]:
        """The distinct texts of some views, and by view the places of the rows' texts, int, ``(rows,)``."""
        columns = {view: self.texts[view] for view in views}
        mapped = {view: column for view, column in columns.items() if isinstance(column, MappedTexts)}
        tables = {id(column.table): column.table for column in mapped.values()}
        if len(mapped) == len(columns) and len(tables) == 1:
            (table,) = tables.values()
            occurs = np.zeros(len(table), dtype=bool)  # (texts of the table,)
            for column in mapped.values():
                occurs[column.places] = True
            number = np.cumsum(occurs, dtype=np.int32) - 1  # (texts of the table,)
            places = {view: number[column.places] for view, column in mapped.items()}
            return MappedTexts(table, np.flatnonzero(occurs)), places
        position: dict[str, int] = {}
        places = {
            view: np.array([position.setdefault(text, len(position)) for text in column], dtype=np.int64)
            for view, column in columns.items()
        }
        return list(position), places

    def index(self) -> np.ndarray:
        """The place of each text among the distinct ones, int, ``(rows, views)``."""
        return np.stack(list(self.distinct(list(self.texts))[1].values()), axis=1)

    def fingerprint(self) -> str:
        """SHA-256, in hex, of every column in order: equal for equal rows, wherever they were read from."""
        if self.kept is not None:
            return self.kept
        digest = hashlib.sha256(f"{self.name} {self.split} {self.form}".encode())
        for view, column in self.texts.items():
            digest.update(view.encode())
            _add_texts(digest, column)
        for name, values in self.targets.items():
            digest.update(name.encode() + np.ascontiguousarray(values).tobytes())
        _add_texts(digest, self.subset)
        return digest.hexdigest()


@dataclass(frozen=True)
class Lists:
    """The texts that stand beside each row, of which every epoch draws some.

    Args:
        pairs: of a row's anchor with each of its texts; first its positives, then its negatives. The target
            `listed` is the score in the file, where there is one.
        starts: where the pairs of each row begin, int64, ``(rows,)``.
        positives: how many there are of each row, ``(rows,)``.
        negatives: the same of negatives.
        copies: which of the rows of one list each is, ``(rows,)``; they draw different positives.
        drawn: negatives that are drawn.
    """

    pairs: Rows
    starts: np.ndarray
    positives: np.ndarray
    negatives: np.ndarray
    copies: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    drawn: int = 0

    def rows(self, positives: int, negatives: int) -> Rows:
        """Each list as so many rows, under the first of its texts until an epoch draws others."""
        places = np.repeat(np.arange(len(self.starts)), positives)  # (rows,)
        copies = np.tile(np.arange(positives), len(self.starts))  # (rows,)
        lists = replace(self.part(places), copies=copies, drawn=negatives)
        index = lists.first()  # (rows, 1 + negatives)
        anchor, items = self.pairs.texts["left"], self.pairs.texts["right"]
        texts = {"left": _picked(anchor, lists.starts), "right": _picked(items, index[:, 0])}
        texts |= {f"negative_{place}": _picked(items, index[:, place]) for place in range(1, negatives + 1)}
        fewer = np.minimum(lists.negatives, negatives)  # (rows,)
        targets = {"hard_negatives": fewer} if (fewer < negatives).any() else {}
        form, skipped = "triplet" if negatives else "pair", self.pairs.skipped
        return Rows(self.pairs.name, "train", form, texts, targets, skipped=skipped, lists=lists)

    def part(self, rows: np.ndarray) -> "Lists":
        """Those of some rows, int, ``(kept,)``."""
        copies = self.copies[rows] if len(self.copies) else self.copies
        kept = (self.starts[rows], self.positives[rows], self.negatives[rows], copies)
        return Lists(self.pairs, *kept, drawn=self.drawn)

    def first(self) -> np.ndarray:
        """The pair of the first positive and negatives of each row, ``(rows, 1 + drawn)``."""
        return self._index(self.copies, np.arange(self.drawn)[None])

    def draw(self, rows: np.ndarray, chance: np.ndarray) -> np.ndarray:
        """The pairs that some rows have in an epoch, ``(drawn rows, 1 + drawn)``, the positive first.

        `chance` is a random number in [0, 1) of each pair, ``(pairs,)``.
        """
        of_rows = self.part(rows)
        first = np.floor(chance[of_rows.starts] * of_rows.positives).astype(np.int64) + of_rows.copies
        order = np.zeros((len(rows), max(self.drawn, 1)), np.int64)  # (rows, drawn)
        begins, counts = of_rows.starts + of_rows.positives, of_rows.negatives
        for place, (begin, count) in enumerate(zip(begins.tolist(), counts.tolist(), strict=True)):
            ranked = np.argsort(chance[begin : begin + count])[: self.drawn]  # (drawn or fewer,)
            order[place, : len(ranked)] = ranked
        return of_rows._index(first, order[:, : self.drawn])

    def _index(self, first: np.ndarray, negatives: np.ndarray) -> np.ndarray:
        positive = self.starts + first % np.maximum(self.positives, 1)  # (rows,)
        wrapped = negatives % np.maximum(self.negatives, 1)[:, None]  # (rows, drawn)
        others = (self.starts + self.positives)[:, None] + wrapped  # (rows, drawn)
        return np.concatenate([positive[:, None], others], axis=1)

    def longest(self, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The most of `lengths` of pairs among the positives and the negatives of each row, ``(rows,)``."""
        ends = self.starts + self.positives
        both = []
        for begins, counts in ((self.starts, self.positives), (ends, self.negatives)):
            ranges = zip(begins.tolist(), counts.tolist(), strict=True)
            both.append(np.array([lengths[begin : begin + count].max(initial=0) for begin, count in ranges]))
        return both[0], both[1]

    def all_of(self) -> np.ndarray:
        """The pairs that a row may draw, the last one repeated where others have more, ``(rows, most)``."""
        counts = self.positives + (self.negatives if self.drawn else 0)  # (rows,)
        return self.starts[:, None] + np.minimum(np.arange(counts.max())[None], counts[:, None] - 1)

    def used(self) -> np.ndarray:
        """Every pair of the rows, each once and sorted, ``(pairs,)``."""
        ranges = zip(self.starts.tolist(), (self.positives + self.negatives).tolist(), strict=True)
        return np.unique(np.concatenate([np.arange(begin, begin + count) for begin, count in ranges]))


def _picked(column: Sequence[str], rows: np.ndarray) -> Sequence[str]:
    if isinstance(column, MappedTexts):
        return MappedTexts(column.table, column.places[rows])
    return texts_at(column, rows)


MIX = "mix"  # the name of the joined rows of several parts, whose subsets are the parts


def joined(parts: Mapping[str, Rows]) -> Rows:
    """The rows of several parts one after the other, each as the subset of its part; of a single one itself.

    They have the views that all share, of which there must be one, and the targets that all have.
    """
    first, *others = parts.values()
    if not others:
        return first
    views = [view for view in first.texts if all(view in rows.texts for rows in others)]
    targets = [name for name in first.targets if all(name in rows.targets for rows in others)]
    every = [first, *others]
    return Rows(
        MIX,
        first.split,
        first.form,
        texts={view: [text for rows in every for text in rows.texts[view]] for view in views},
        targets={name: np.concatenate([rows.targets[name] for rows in every]) for name in targets},
        subset=[name for name, rows in parts.items() for _ in range(len(rows))],
        skipped=tuple(row for rows in every for row in rows.skipped),
        roles={f"{name}/{view}": role for name, rows in parts.items() for view, role in rows.roles.items()},
        masked=first.masked if all(rows.masked is not None for rows in every) else None,
    )


def drawn_of(rows: int, fraction: float) -> int:
    """How many of so many rows `Rows.drawn` gives."""
    return rows if fraction >= 1 else max(1, round(rows * fraction))


def _add_texts(digest: "hashlib._Hash", texts: Sequence[str]) -> None:
    """Feed texts to a digest, each with its length, so that no two different lists give the same bytes."""
    for begin in range(0, len(texts), _AT_ONCE):
        encoded = [text.encode() for text in texts[begin : begin + _AT_ONCE]]
        digest.update(b"".join(len(part).to_bytes(8, "little") + part for part in encoded))


def digest_of(texts: Sequence[str]) -> str:
    """SHA-256, in hex, of texts in their order."""
    digest = hashlib.sha256()
    _add_texts(digest, texts)
    return digest.hexdigest()
