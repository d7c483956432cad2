"""Which evaluation rows are also in the training or dev rows: their overlap, and the clean rest."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from embedrun.console import aligned, say_and_log
from embedrun.files import Plain, to_json, write_atomically
from embedrun.rows import Rows

_OTHER = re.compile(r"[\W_]+")  # \w is what str.isalnum accepts, and the underscore
Pair = tuple[str, str]


@dataclass(frozen=True)
class Shared:
    """Whether a pair, or a text, of each row of an evaluation set is a training one, bool, ``(rows,)`` each.

    `unit` is what a row is: its pairs, or that sentence where it has one text.
    """

    pairs: np.ndarray
    sentences: np.ndarray
    unit: Literal["pairs", "sentences"] = "pairs"

    @property
    def rows(self) -> np.ndarray:
        """Whether the row, as its unit has it, is in the training rows, bool, ``(rows,)``."""
        return self.pairs if self.unit == "pairs" else self.sentences


def normalise(text: str) -> str:
    """Lower case, with every run of characters other than letters and digits as one space, none at the ends.

    Letters and digits are those of Unicode, so that no script is lost; accents stay. A text without any stays
    as it is, or all such texts would be equal.
    """
    return _OTHER.sub(" ", text.lower()).strip() or text.strip()


def pairs_of(row: Sequence[str]) -> list[Pair]:
    """The pairs of one row of texts in view order; the two texts of a pair are unordered.

    A pair has one; a triplet two, of the anchor with the positive and with the negative; a text none.
    """
    first = row[0]
    return [(first, other) if first <= other else (other, first) for other in row[1:]]


def overlap(train: Iterable[Rows], evaluations: Sequence[Rows]) -> list[Shared]:
    """What each evaluation set shares with the training rows, whatever the form of either; in their order.

    The training rows are read once and only what the evaluation sets contain is kept of them, so that memory
    grows with the evaluation sets alone.
    """
    sets = [
        [tuple(map(normalise, row)) for row in zip(*rows.texts.values(), strict=True)] for rows in evaluations
    ]
    wanted = {text for rows in sets for row in rows for text in row}
    pairs: set[Pair] = set()
    sentences: set[str] = set()
    for rows in train:
        _add_seen(rows, wanted, pairs, sentences)
    return [
        Shared(
            pairs=np.array([not pairs.isdisjoint(pairs_of(row)) for row in rows], dtype=bool),
            sentences=np.array([not sentences.isdisjoint(row) for row in rows], dtype=bool),
            unit="pairs" if len(whole.texts) > 1 else "sentences",
        )
        for whole, rows in zip(evaluations, sets, strict=True)
    ]


def _add_seen(rows: Rows, wanted: set[str], pairs: set[Pair], sentences: set[str]) -> None:
    """Add the pairs and texts of training rows that have no other than `wanted` texts."""
    rows = rows.every_pair()
    texts, places = rows.distinct(list(rows.texts))
    known = {place: text for place, text in enumerate(map(normalise, texts)) if text in wanted}
    shared = np.zeros(len(texts), dtype=bool)  # (texts,)
    shared[list(known)] = True
    first, *others = places.values()  # (rows,) each
    for view in places.values():
        sentences.update(known[place] for place in np.unique(view[shared[view]]).tolist())
    for other in others:
        both = shared[first] & shared[other]  # (rows,)
        place_pairs = zip(first[both].tolist(), other[both].tolist(), strict=True)
        pairs.update(pair for a, b in place_pairs for pair in pairs_of((known[a], known[b])))


@dataclass(frozen=True)
class Line:
    """The overlap of one evaluation set, or of one `subset` of it.

    Of all `rows`, those of which a pair is in the training rows, None where a row is one text and has none,
    and those of which a single text is.
    """

    name: str
    split: str
    subset: str | None
    rows: int
    pairs: int | None
    sentences: int

    @property
    def unit(self) -> str:
        """What is counted: `pairs`, or `sentences` where a row is one text."""
        return "sentences" if self.pairs is None else "pairs"

    @property
    def seen(self) -> int:
        """Rows that are in the training rows, as pairs or as sentences."""
        return self.sentences if self.pairs is None else self.pairs

    def data(self) -> Plain:
        """The numbers with their percentages, for a JSON file."""
        shares = {
            f"{what}_percent": None if count is None else round(100 * count / max(self.rows, 1), 2)
            for what, count in (("pairs", self.pairs), ("sentences", self.sentences))
        }
        return asdict(self) | shares


def lines(rows: Rows, shared: Shared) -> list[Line]:
    """What one evaluation set shares with the training rows: the whole first, then each of its subsets."""
    names = np.array(rows.subset)
    parts = [(None, np.ones(len(rows), dtype=bool))]  # (rows,) each
    parts += [(name, names == name) for name in dict.fromkeys(rows.subset)]
    return [
        Line(
            rows.name,
            rows.split,
            subset,
            rows=int(mask.sum()),
            pairs=int(shared.pairs[mask].sum()) if shared.unit == "pairs" else None,
            sentences=int(shared.sentences[mask].sum()),
        )
        for subset, mask in parts
    ]


def table(sets: Sequence[Sequence[Line]], *, subsets: bool = False) -> str:
    """A text table with a line for each set, and one for all of pairs and one for all of single texts.

    `sets` has what `lines` gives for each set; with `subsets` there is a line for each subset too.
    """
    cells = [["set", "split", "rows", "pair in training", "%", "a sentence in training", "%"]]
    shown = [line for set_ in sets for line in (set_ if subsets else set_[:1])]
    for line in (*shown, *totals(sets)):
        name = line.name if line.subset is None else f"  {line.subset}"
        counts = [*_shown(line.pairs, line.rows), *_shown(line.sentences, line.rows)]
        cells.append([name, line.split, f"{line.rows:,}", *counts])
    return aligned(cells, right=(2, 3, 4, 5, 6))


def _shown(count: int | None, rows: int) -> tuple[str, str]:
    return ("-", "-") if count is None else (f"{count:,}", f"{100 * count / max(rows, 1):.1f}")


def totals(sets: Sequence[Sequence[Line]]) -> list[Line]:
    """The sums of all sets of pairs and of all those of single texts, without subsets; no line for no set."""
    wholes = [first for first, *_ in sets]
    by_unit = {unit: [line for line in wholes if line.unit == unit] for unit in ("pairs", "sentences")}
    return [
        Line(
            name="total",
            split="",
            subset=None,
            rows=sum(line.rows for line in alike),
            pairs=sum(line.seen for line in alike) if unit == "pairs" else None,
            sentences=sum(line.sentences for line in alike),
        )
        for unit, alike in by_unit.items()
        if alike
    ]


def percent(part: int, whole: int) -> str:
    """`37.9 %`; anything above 0 is never shown as 0."""
    share = 100 * part / whole if whole else 0.0
    return "under 0.1 %" if 0 < share < 0.1 else f"{share:.1f} %"


CONTAMINATION_FILE = "contamination.json"
_RULE = (
    "lower case; every run of characters other than letters and digits is one space; the order of the two "
    "texts of a pair does not matter; a row of one text is compared with every text that was seen"
)
Scored = Mapping[str, Mapping[str, Rows]]  # rows of each task, by its own names for its sources


@dataclass(frozen=True)
class Contamination:
    """What the rows of evaluation tasks share with rows that were seen; `shared` has the keys of `scored`."""

    seen: Sequence[Rows]
    scored: Scored
    shared: Mapping[str, Mapping[str, Shared]]

    @classmethod
    def find(cls, seen: Sequence[Rows], scored: Scored) -> "Contamination":
        """Compare every task's rows with the seen ones, which are read once."""
        shared = iter(overlap(seen, [rows for sources in scored.values() for rows in sources.values()]))
        by_task = {task: {key: next(shared) for key in sources} for task, sources in scored.items()}
        return cls(seen, scored, by_task)

    def clean(self) -> dict[str, dict[str, np.ndarray]]:
        """Of each task and source, true where no pair of the row, or its one text, was seen, ``(rows,)``."""
        return {
            task: {key: ~shared.rows for key, shared in sources.items()}
            for task, sources in self.shared.items()
        }

    def summary(self) -> str | None:
        """Such as `25.6 % of the test pairs of sts (4,825 of 18,850)`, by task; None where none was seen."""
        shares = []
        for task, sets in self._lines().items():
            for total in totals(sets):
                alike = [first for first, *_ in sets if first.unit == total.unit]
                splits = "/".join(dict.fromkeys(line.split for line in alike))
                name = alike[0].name if len(alike) == 1 else task
                share = f"{percent(total.seen, total.rows)} of the {splits} {total.unit} of {name}"
                shares += [f"{share} ({total.seen:,} of {total.rows:,})"] if total.seen else []
        return "; ".join(shares) or None

    def data(self) -> Plain:
        """The whole table, for a JSON file."""
        by_task = self._lines()
        seen = [{"name": rows.name, "split": rows.split, "rows": len(rows)} for rows in self.seen]
        tasks = {
            task: {
                "rows": sum(first.rows for first, *_ in sets),
                **{total.unit: total.seen for total in totals(sets)},
            }
            for task, sets in by_task.items()
        }
        every = [
            {"task": task, **line.data()} for task, sets in by_task.items() for set_ in sets for line in set_
        ]
        return {"seen": seen, "tasks": tasks, "sets": every}

    def _lines(self) -> dict[str, list[list[Line]]]:
        return {
            task: [lines(rows, self.shared[task][key]) for key, rows in sources.items()]
            for task, sources in self.scored.items()
        }


def of_run(seen: Sequence[Rows], test: Scored, dev: Scored) -> tuple[Contamination, Contamination]:
    """What a run's test and dev rows share with the seen rows, and the test rows with the dev rows."""
    selecting = [rows for sources in dev.values() for rows in sources.values()]
    return Contamination.find(seen, {**test, **dev}), Contamination.find(selecting, test)


def by_part(train: Mapping[str, Rows], test: Scored) -> dict[str, Contamination]:
    """What the test rows share with each part of a mixture; nothing where there is one data set."""
    parts = train if len(train) > 1 else {}
    return {part: Contamination.find([rows], test) for part, rows in parts.items()}


def tell(
    folder: Path,
    training: Contamination,
    selection: Contamination | None = None,
    parts: Mapping[str, Contamination] | None = None,
) -> None:
    """Write `contamination.json` into a run directory, and report seen rows, if any."""
    tables = {"training": training} if selection is None else {"training": training, "selection": selection}
    data: Plain = {name: shared.data() for name, shared in tables.items()}
    if parts:
        data["parts"] = {part: shared.data() for part, shared in parts.items()}
    write_atomically(folder / CONTAMINATION_FILE, to_json({"schema": 1, "rule": _RULE, **data}))
    where = f"see {CONTAMINATION_FILE}"
    if summary := training.summary():
        say_and_log(f"warning: {summary} are in the training data; {where}")
    if selection is not None and (summary := selection.summary()):
        say_and_log(f"note: {summary} are in the dev data, which selects the checkpoint; {where}")
