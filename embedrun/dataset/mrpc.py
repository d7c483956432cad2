"""MRPC: pairs of news sentences, paraphrases or not."""

from embedrun.dataset.store_pairs import read_binary
from embedrun.rows import Rows
from embedrun.store import Store


class Mrpc:
    """The Microsoft Research Paraphrase Corpus: 4,076 / 1,725 pairs, score 1 (paraphrase) or 0.

    Source: Dolan and Brockett 2005, https://aclanthology.org/I05-5002, in its official splits as SentEval
    gives them out; GLUE calls a part of the training split validation. AnglE's Table 3 scores the test
    split. `embedrun/dataset/senteval.py` has the same pairs by class, for the transfer task. STS12's MSRpar
    is drawn from this corpus, so a model trained here must not be scored there as if it were unseen.
    """

    name = "mrpc"
    form = "pair"
    targets = ("score",)
    splits = ("train", "test")

    def files(self, split: str, store: Store) -> list[str]:
        """The file of the split, by its name in the store."""
        if split not in self.splits:
            raise ValueError(f"Mrpc: no split {split!r} (there are: {', '.join(self.splits)})")
        return [f"senteval/mrpc/{split}.jsonl.gz"]

    def problems(self, split: str, store: Store) -> list[str]:
        """Why the split cannot be read."""
        return store.missing(self.files(split, store))

    def read(self, split: str, store: Store) -> Rows:
        """The pairs of the split, in file order; DataError also unless it is the whole published one."""
        (file,) = self.files(split, store)
        return read_binary(store, file, name=self.name, split=split)
