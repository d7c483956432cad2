"""SICK-R: graded and NLI-labelled pairs of SemEval-2014."""

from functools import partial

from embedrun.dataset.store_pairs import OfStore, read_columns
from embedrun.rows import Rows
from embedrun.store import Store
from embedrun.store.columns import LABELS, as_labels, as_scores, score, sentence


def _relation(value: object) -> int:
    if value not in LABELS:
        raise ValueError(f"expected {', '.join(LABELS)}; got {value!r}")
    return LABELS.index(value)


class Sickr(OfStore):
    """SICK in its official splits: 4,500 / 500 / 4,927 pairs, relatedness 1 to 5 and an NLI label.

    Source: Marelli et al. 2014, SemEval-2014 Task 1, doi:10.3115/v1/S14-2001. SentEval and the papers
    score the test split; MTEB's set of the same name joins all three splits.
    """

    name = "sickr"
    form = "pair"
    targets = ("score", "label")
    splits = ("train", "dev", "test")
    pattern = "sickr/{split}.tsv.gz"

    def read(self, split: str, store: Store) -> Rows:
        """The pairs of the split."""
        (file,) = self.files(split, store)
        rules = {
            "sentence1": sentence,
            "sentence2": sentence,
            "score": partial(score, low=1, high=5),
            "entailment": _relation,
        }
        typed = read_columns(store, file, rules)
        return Rows(
            name=self.name,
            split=split,
            form=self.form,
            texts={"left": typed["sentence1"], "right": typed["sentence2"]},
            targets={"score": as_scores(typed["score"]), "label": as_labels(typed["entailment"])},
        )
