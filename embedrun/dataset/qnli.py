"""QNLI: a question and a sentence that answers it or not."""

from embedrun.dataset.store_pairs import OfStore, read_binary
from embedrun.rows import Rows
from embedrun.store import Store


class Qnli(OfStore):
    """QNLI: question on the left, sentence of Wikipedia on the right; score 1 (it answers) or 0.

    Source: Wang et al. 2018 (GLUE), doi:10.18653/v1/W18-5446, made from SQuAD (Rajpurkar et al. 2016). GLUE
    has 104,743 training and 5,463 dev pairs, with label 0 for an answer (entailment) where the store has 1;
    `embedrun data get qnli` fetches and turns them. A store may as well hold GLUE's dev split alone, divided
    into 4,063 / 1,400 pairs without a question or sentence in both: a score there is not comparable with
    AnglE's Table 3, which scores the whole dev split of a model trained on GLUE's training split. The
    fingerprint in `environment.json` tells them apart. The test split of GLUE has no public labels.
    """

    name = "qnli"
    form = "pair"
    targets = ("score",)
    splits = ("train", "dev")
    pattern = "pairs/qnli/{split}.jsonl.gz"

    def read(self, split: str, store: Store) -> Rows:
        """The pairs of the split, in file order."""
        (file,) = self.files(split, store)
        return read_binary(store, file, name=self.name, split=split)
