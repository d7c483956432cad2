"""How many evaluation rows are in the training rows, by set and subset, as numbers and as a table."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from embedrun.console import aligned
from embedrun.dataset.overlap import Shared
from embedrun.rows import Rows


@dataclass(frozen=True)
class Line:
    """One evaluation set or one subset of it.

    Args:
        name: of the data set.
        split: of it.
        subset: of the split, or None for the whole.
        rows: how many there are.
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

    def data(self) -> dict[str, Any]:
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

    Args:
        found: of each set, as `lines` gives it.
        subsets: with a line for each subset too.
    """
    cells = [["set", "split", "rows", "pair in training", "%", "a sentence in training", "%"]]
    for whole, *parts in found:
        cells.append(_cells(whole))
        cells += [_cells(part) for part in parts if subsets]
    cells += [_cells(line) for line in totals(found)]
    return aligned(cells, right=(2, 3, 4, 5, 6))


def totals(found: Sequence[Sequence[Line]]) -> list[Line]:
    """The sets of pairs put together, then those of single texts, without their subsets; none of no set."""
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
    """`37.9 %`; what is not nothing never reads as 0."""
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
