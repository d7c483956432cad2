"""STS12 to STS16: the test pairs of five SemEval tasks."""

from typing import Literal

from embedrun.dataset.store_pairs import OfStore, read_sts
from embedrun.rows import Rows
from embedrun.store import Store


class Sts(OfStore):
    """The English test pairs of one year's Semantic Textual Similarity task, score 0 to 5.

    Source: Agirre et al. 2012 to 2016, SemEval; 3,108, 1,500, 3,750, 3,000 and 1,186 scored pairs. STS13
    is the usual version without SMT, which cannot be given away.

    Args:
        year: of the task, its last two digits.
    """

    form = "pair"
    targets = ("score",)
    splits = ("test",)
    pattern = "sts/{name}.tsv.gz"

    def __init__(self, *, year: Literal[12, 13, 14, 15, 16]) -> None:
        if year not in (12, 13, 14, 15, 16):
            raise ValueError(f"Sts: year must be one of 12, 13, 14, 15, 16; got {year!r}")
        self.name = f"sts{year}"

    def read(self, split: str, store: Store) -> Rows:
        """The pairs in released order; `subset` is the task's data set, which `mean` aggregation needs."""
        (file,) = self.files(split, store)
        return read_sts(store, file, name=self.name, split=split)
