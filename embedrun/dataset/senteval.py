"""The transfer tasks of SentEval: texts or pairs by class, for a classifier on frozen embeddings."""

from functools import partial
from typing import Literal

from embedrun.dataset.stored import OfStore
from embedrun.store.columns import category, sentence

TaskName = Literal["mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc"]
SPLITS = {
    "mr": ("train",),
    "cr": ("train",),
    "subj": ("train",),
    "mpqa": ("train",),
    "sst2": ("train", "dev", "test"),
    "trec": ("train", "test"),
    "mrpc": ("train", "test"),
}
_CLASSES = {"trec": 6}  # the others have two
_MAY_BE_EMPTY = ("cr", "mpqa")  # four texts and three, as SentEval gives them out; its counts include them


class Senteval(OfStore):
    """One transfer task, with the rows and in the order that SentEval gives it out with.

    Source: Conneau and Kiela 2018 (SentEval), https://aclanthology.org/L18-1269. MR, CR, SUBJ and MPQA have
    no split of their own, all rows are `train`; the other three have the published ones.

    =======  ======================  =======================================================
    task     rows                    classes
    =======  ======================  =======================================================
    mr       10,662                  1 positive, 0 negative sentence of a film review
    cr       3,775                   1 positive, 0 negative sentence of a product review
    subj     10,000                  1 objective, 0 subjective sentence
    mpqa     10,606                  1 positive, 0 negative phrase
    sst2     67,349 / 872 / 1,821    1 positive, 0 negative; phrases too in train
    trec     5,452 / 500             0 ABBR, 1 DESC, 2 ENTY, 3 HUM, 4 LOC, 5 NUM: what is asked
    mrpc     4,076 / 1,725           1 paraphrase, 0 not; pairs
    =======  ======================  =======================================================

    Only the whole published set is read: rows by class are held against these numbers. Four texts of CR and
    three of MPQA are empty there, and here.

    Args:
        task: which.

    Raises:
        ValueError: if there is no such task.
    """

    targets = ("category",)
    is_whole = True
    pattern = "senteval/{name}/{split}.jsonl.gz"

    def __init__(self, *, task: TaskName) -> None:
        if task not in SPLITS:
            raise ValueError(f"Senteval: task must be one of {', '.join(SPLITS)}; got {task!r}")
        self.name = task
        self.form = "pair" if task == "mrpc" else "text"
        self.splits = SPLITS[task]
        self.fields = ("sentence1", "sentence2") if task == "mrpc" else ("text",)
        self.text = _text if task in _MAY_BE_EMPTY else sentence
        self.values = {"category": ("label", partial(category, classes=_CLASSES.get(task, 2)))}


def _text(value: object) -> str:
    """A text, which may be empty."""
    return "" if value == "" else sentence(value)
