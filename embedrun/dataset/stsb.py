"""STS Benchmark: graded sentence pairs of SemEval 2012 to 2017."""

from embedrun.dataset.store_pairs import OfStore, read_sts
from embedrun.rows import Rows
from embedrun.store import Store


class Stsb(OfStore):
    """The STS Benchmark in its official splits: 5,749 / 1,500 / 1,379 pairs, score 0 (unrelated) to 5 (same).

    Source: Cer et al. 2017, SemEval-2017 Task 1, doi:10.18653/v1/S17-2001. Its train and dev splits hold
    pairs of STS12 to STS16, so a model trained on them must not be scored there as if they were unseen.
    """

    name = "stsb"
    form = "pair"
    targets = ("score",)
    splits = ("train", "dev", "test")
    pattern = "stsb/{split}.tsv.gz"

    def read(self, split: str, store: Store) -> Rows:
        """The pairs of the split; `subset` is the data set that a pair was drawn from."""
        (file,) = self.files(split, store)
        return read_sts(store, file, name=self.name, split=split)
