"""MRPC: pairs of news sentences, paraphrases or not."""

from collections import Counter
from dataclasses import replace

import numpy as np

from embedrun.dataset.split import held_out
from embedrun.dataset.store_pairs import OfStore, read_binary
from embedrun.errors import DataError
from embedrun.rows import Rows
from embedrun.store import Store
from embedrun.store.convert import mark

_TRAIN = "senteval/mrpc/train.jsonl.gz"  # SentEval's: GLUE's training and validation split in one
_DEV = "senteval/mrpc/mrpc_dev.jsonl.gz"  # GLUE's validation split alone
_DEV_ROWS = 408
_SEED = 42  # of the draw where the store has no such file


class Mrpc(OfStore):
    """The Microsoft Research Paraphrase Corpus: 4,076 / 1,725 pairs, score 1 (paraphrase) or 0.

    Source: Dolan and Brockett 2005, https://aclanthology.org/I05-5002, in its official splits as SentEval
    gives them out; GLUE calls 408 of the training pairs validation. AnglE's Table 3 scores the test
    split. `embedrun/dataset/senteval.py` has the same pairs by class, for the transfer task. STS12's MSRpar
    is drawn from this corpus, so a model trained here must not be scored there as if it were unseen.

    With `dev_split` the pairs are GLUE's 3,668 / 408 / 1,725. GLUE's 408 are those of
    `senteval/mrpc/mrpc_dev.jsonl.gz` (`embedrun data get mrpc_dev`), found among the 4,076 by the letters and
    digits of their texts, since copies differ in blanks and quotation marks. A store without that file gives
    408 others, drawn once for all and sharing no text with the rest: their scores are called
    `mrpc_drawn_dev/spearman`.

    Args:
        dev_split: whether 408 of the training pairs are a dev split; else all are trained on.
    """

    name = "mrpc"
    form = "pair"
    targets = ("score",)

    def __init__(self, *, dev_split: bool = False) -> None:
        self.splits = ("train", "dev", "test") if dev_split else ("train", "test")

    def files(self, split: str, store: Store) -> list[str]:
        """The files of the split, by their names in the store."""
        self.require(split)
        if split == "test":
            return ["senteval/mrpc/test.jsonl.gz"]
        return [_TRAIN, _DEV] if "dev" in self.splits and store.has(_DEV) else [_TRAIN]

    def remark(self, store: Store) -> str:
        """That the dev split is not GLUE's, where it is not."""
        if "dev" not in self.splits or store.has(_DEV):
            return ""
        return (
            f"{_DEV} is not in the data folder: the {_DEV_ROWS} dev pairs of MRPC are drawn from the 4,076 "
            "by a fixed seed and are not GLUE's: mrpc_drawn_dev; embedrun data get mrpc_dev fetches GLUE's"
        )

    def read(self, split: str, store: Store) -> Rows:
        """The pairs of the split, in file order.

        DataError also unless a file is the whole published one, or if GLUE's pairs are not among the others.
        """
        file, *dev = self.files(split, store)
        rows = read_binary(store, file, name=self.name, split=split)
        if split == "test" or "dev" not in self.splits:
            return rows
        known = [read_binary(store, name, name=self.name, split="dev") for name in dev]
        is_dev = _found(rows, known[0], store) if known else _drawn(rows)  # (rows,)
        if split == "train":
            return rows.part(np.flatnonzero(~is_dev))
        return replace(rows.part(np.flatnonzero(is_dev)), name=self.name if dev else f"{self.name}_drawn")


def _found(rows: Rows, wanted: Rows, store: Store) -> np.ndarray:
    """Which of the rows are the wanted ones, bool, ``(rows,)``; of equal rows as many as are wanted."""
    left = Counter(_marks(wanted))
    is_wanted = np.zeros(len(rows), dtype=bool)  # (rows,)
    for row, pair in enumerate(_marks(rows)):
        if left[pair]:
            left[pair] -= 1
            is_wanted[row] = True
    if lacking := left.total():
        raise DataError(
            f"{store.path(_DEV)}: {lacking} of its {len(wanted)} pairs are not in {store.path(_TRAIN)}, so "
            "they are of two versions of MRPC; move both away and get them again: embedrun data get mrpc"
        )
    return is_wanted


def _marks(rows: Rows) -> list[str]:
    return list(map(mark, rows.texts["left"], rows.texts["right"]))


def _drawn(rows: Rows) -> np.ndarray:
    """Which of the rows are drawn, bool, ``(rows,)``."""
    _, places = rows.distinct(list(rows.texts))
    is_drawn = np.zeros(len(rows), dtype=bool)  # (rows,)
    is_drawn[held_out(np.stack(list(places.values()), axis=1), _DEV_ROWS, _SEED)] = True
    return is_drawn
