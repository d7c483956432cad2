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
# The same rule for ASCII, as a table of bytes: three times as fast, and nearly all of NLI is ASCII.
_ASCII = bytes(ord(chr(code).lower()) if chr(code).isalnum() else ord(" ") for code in range(128)).ljust(256)
Pair = tuple[str, str]


@dataclass(frozen=True)
class Shared:
    """What the rows of one evaluation set share with the training rows, bool, ``(rows,)`` each.

    Args:
        pairs: whether a pair of the row is a training pair.
        sentences: whether a text of the row is a training text.
        unit: what a row is: its pairs, or that sentence where it has one text.
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
    if text.isascii():
        plain = b" ".join(text.encode().translate(_ASCII).split()).decode()
    else:
        plain = _OTHER.sub(" ", text.lower()).strip()
    return plain or text.strip()


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
        texts, places = rows.distinct(list(rows.texts))
        known = {place: text for place, text in enumerate(map(normalise, texts)) if text in wanted}
        shared = np.zeros(len(texts), dtype=bool)  # (texts,)
        shared[list(known)] = True
        first, *others = places.values()  # (rows,) each
        for view in places.values():
            sentences.update(known[place] for place in np.unique(view[shared[view]]).tolist())
        for other in others:
            both = shared[first] & shared[other]  # (rows,)
            each = zip(first[both].tolist(), other[both].tolist(), strict=True)
            pairs.update(pair for a, b in each for pair in pairs_of((known[a], known[b])))
    return [
        Shared(
            pairs=np.array([not pairs.isdisjoint(pairs_of(row)) for row in rows], dtype=bool),
            sentences=np.array([not sentences.isdisjoint(row) for row in rows], dtype=bool),
            unit="pairs" if len(whole.texts) > 1 else "sentences",
        )
        for whole, rows in zip(evaluations, sets, strict=True)
    ]


@dataclass(frozen=True)
class Line:
    """The overlap of one evaluation set, or of one `subset` of it.

    Args:
        rows: all of them.
        pairs: rows of which a pair is in the training rows; None where a row is one text and has none.
        sentences: rows of which a single text is.
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
    found = [_line(rows, None, np.ones(len(rows), dtype=bool), shared)]
    names = np.array(rows.subset)
    return found + [_line(rows, name, names == name, shared) for name in dict.fromkeys(rows.subset)]


def table(found: Sequence[Sequence[Line]], *, subsets: bool = False) -> str:
    """A text table with a line for each set, and one for all of pairs and one for all of single texts.

    `found` has what `lines` gives for each set; with `subsets` there is a line for each subset too.
    """
    cells = [["set", "split", "rows", "pair in training", "%", "a sentence in training", "%"]]
    for whole, *parts in found:
        cells.append(_cells(whole))
        cells += [_cells(part) for part in parts if subsets]
    cells += [_cells(line) for line in totals(found)]
    return aligned(cells, right=(2, 3, 4, 5, 6))


def totals(found: Sequence[Sequence[Line]]) -> list[Line]:
    """The sums of all sets of pairs and of all those of single texts, without subsets; no line for no set."""
    whole = [first for first, *_ in found]
    alike = [[line for line in whole if line.unit == unit] for unit in ("pairs", "sentences")]
    return [
        Line(
            name="total",
            split="",
            subset=None,
            rows=sum(line.rows for line in own),
            pairs=sum(line.seen for line in own) if own[0].unit == "pairs" else None,
            sentences=sum(line.sentences for line in own),
        )
        for own in alike
        if own
    ]


def percent(part: int, whole: int) -> str:
    """`37.9 %`; anything above 0 is never shown as 0."""
    share = 100 * part / whole if whole else 0.0
    return "under 0.1 %" if 0 < share < 0.1 else f"{share:.1f} %"


def _line(rows: Rows, subset: str | None, mask: np.ndarray, shared: Shared) -> Line:
    pairs = int(shared.pairs[mask].sum()) if shared.unit == "pairs" else None
    sentences = int(shared.sentences[mask].sum())
    return Line(rows.name, rows.split, subset, int(mask.sum()), pairs, sentences)


def _cells(line: Line) -> list[str]:
    name = line.name if line.subset is None else f"  {line.subset}"
    cells = [name, line.split, f"{line.rows:,}"]
    for count in (line.pairs, line.sentences):
        cells += ["-", "-"] if count is None else [f"{count:,}", f"{100 * count / max(line.rows, 1):.1f}"]
    return cells


CONTAMINATION_FILE = "contamination.json"
_RULE = (
    "lower case; every run of characters other than letters and digits is one space; the order of the two "
    "texts of a pair does not matter; a row of one text is compared with every text that was seen"
)
_UNITS = ("pairs", "sentences")
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
        found = iter(overlap(seen, [rows for own in scored.values() for rows in own.values()]))
        return cls(seen, scored, {task: {key: next(found) for key in own} for task, own in scored.items()})

    def clean(self) -> dict[str, dict[str, np.ndarray]]:
        """Of each task and source, true where no pair of the row, or its one text, was seen, ``(rows,)``."""
        return {task: {key: ~shared.rows for key, shared in own.items()} for task, own in self.shared.items()}

    def summary(self) -> str | None:
        """The seen pairs and sentences of each task, as part of a sentence; None where there are none."""
        every = [(task, unit) for task in self.scored for unit in _UNITS]
        return "; ".join(self._part(*one) for one in every if self._counts(*one)[0]) or None

    def data(self) -> Plain:
        """The whole table, for a JSON file."""
        sets = [
            {"task": task, **line.data()}
            for task, own in self.scored.items()
            for key, rows in own.items()
            for line in lines(rows, self.shared[task][key])
        ]
        seen = [{"name": rows.name, "split": rows.split, "rows": len(rows)} for rows in self.seen]
        tasks = {task: self._task(task) for task in self.scored}
        return {"seen": seen, "tasks": tasks, "sets": sets}

    def _task(self, task: str) -> dict[str, int]:
        """Rows of a task, and how many of its pairs and of its single sentences were seen."""
        units = [unit for unit in _UNITS if self._of(task, unit)]
        return {"rows": sum(map(len, self.scored[task].values()))} | {
            unit: self._counts(task, unit)[0] for unit in units
        }

    def _of(self, task: str, unit: str) -> dict[str, Rows]:
        """The sources of a task whose rows are of a unit."""
        return {key: rows for key, rows in self.scored[task].items() if self.shared[task][key].unit == unit}

    def _counts(self, task: str, unit: str) -> tuple[int, int]:
        """Seen rows and all rows of a task, of those that are of a unit."""
        own = self._of(task, unit)
        return sum(int(self.shared[task][key].rows.sum()) for key in own), sum(map(len, own.values()))

    def _part(self, task: str, unit: str) -> str:
        """`25.6 % of the test pairs of sts (4,825 of 18,850; sts12 32.3 %, ...)`."""
        own, (seen, rows) = self._of(task, unit), self._counts(task, unit)
        splits = "/".join(dict.fromkeys(one.split for one in own.values()))
        name, each = task, ""
        if len(own) == 1:
            name = next(iter(own.values())).name
        else:
            counts = [
                (_label(one, own), int(self.shared[task][key].rows.sum()), len(one))
                for key, one in own.items()
            ]
            each = "; " + ", ".join(f"{set_} {percent(part, all_)}" for set_, part, all_ in counts if part)
        return f"{percent(seen, rows)} of the {splits} {unit} of {name} ({seen:,} of {rows:,}{each})"


def _label(rows: Rows, among: Mapping[str, Rows]) -> str:
    """The name of a data set, with its split where others of that name stand beside it."""
    several = sum(other.name == rows.name for other in among.values()) > 1
    return f"{rows.name} {rows.split}" if several else rows.name


def of_run(seen: Sequence[Rows], test: Scored, dev: Scored) -> tuple[Contamination, Contamination]:
    """What a run's test and dev rows share with the seen rows, and the test rows with the dev rows.

    `seen` are the training rows, the run's own and those that the model had seen before; the `dev` rows
    select the checkpoint.
    """
    selecting = [rows for own in dev.values() for rows in own.values()]
    return Contamination.find(seen, {**test, **dev}), Contamination.find(selecting, test)


def report(training: Contamination, selection: Contamination | None = None) -> Plain:
    """The content of `contamination.json`; `selection` compares the test rows with the dev rows."""
    tables = {"training": training.data()}
    if selection is not None:
        tables["selection"] = selection.data()
    return {"schema": 1, "rule": _RULE, **tables}


def tell(folder: Path, training: Contamination, selection: Contamination | None = None) -> None:
    """Write `contamination.json` into a run directory, and report seen rows, if any."""
    write_atomically(folder / CONTAMINATION_FILE, to_json(report(training, selection)))
    for remark in remarks(training, selection):
        say_and_log(remark)


def remarks(training: Contamination, selection: Contamination | None = None) -> list[str]:
    """A line for the person where rows were seen, a warning if they were trained on."""
    said = []
    if found := training.summary():
        said.append(f"warning: {found} are in the training data; see {CONTAMINATION_FILE}")
    if selection is not None and (found := selection.summary()):
        said.append(
            f"note: {found} are in the dev data, which selects the checkpoint; see {CONTAMINATION_FILE}"
        )
    return said
