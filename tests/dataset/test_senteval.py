import os

import pytest

from embedrun.dataset.senteval import SPLITS, Senteval
from embedrun.errors import DataError
from embedrun.store import Store

TREC_TEST = {0: 9, 1: 138, 2: 94, 3: 65, 4: 81, 5: 113}  # questions by class, as published


def texts(counts: dict[int, int]) -> list[dict]:
    return [{"text": f"text {label} {i}", "label": label} for label, n in counts.items() for i in range(n)]


def test_a_subj_of_5020_rows_is_refused_with_both_numbers(store, write):
    path = write("senteval/subj/train.jsonl.gz", texts({1: 5000, 0: 20}))
    with pytest.raises(DataError) as caught:
        Senteval(task="subj").read("train", store)
    assert caught.value.problems[:2] == [
        f"{path}: 5020 rows, the published data set has 10000",
        f"{path}: 20 rows of label 0, the published data set has 5000",
    ]
    assert "other scores under the same name" in caught.value.problems[2]
    assert "`embedrun data get subj --from DIR`" in caught.value.problems[2]


@pytest.mark.parametrize("label", [2, -1, True, "1", 1.0, None])
def test_what_is_no_class_of_the_task_is_refused_with_its_line(store, write, label):
    path = write("senteval/mr/train.jsonl.gz", [{"text": "a", "label": 0}, {"text": "b", "label": label}])
    with pytest.raises(DataError) as caught:
        Senteval(task="mr").read("train", store)
    shown = "null" if label is None else repr(label)
    reason = f"expected a whole number from 0 to 1, got {shown}"
    assert caught.value.problems == [f"{path}, row 2: label: {reason}"]


@pytest.mark.realdata
def test_every_real_set_has_its_published_rows_and_empty_texts():
    store = Store.find(os.environ["EMBEDRUN_DATA"])
    rows = {
        (task, split): Senteval(task=task).read(split, store)  # type: ignore[arg-type]
        for task, splits in SPLITS.items()
        for split in splits
    }
    assert {key: len(one) for key, one in rows.items()} == {
        ("mr", "train"): 10_662,
        ("cr", "train"): 3_775,
        ("subj", "train"): 10_000,
        ("mpqa", "train"): 10_606,
        ("sst2", "train"): 67_349,
        ("sst2", "dev"): 872,
        ("sst2", "test"): 1_821,
        ("trec", "train"): 5_452,
        ("trec", "test"): 500,
        ("mrpc", "train"): 4_076,
        ("mrpc", "test"): 1_725,
    }
    every = {key[0]: list(one.sentences()).count("") for key, one in rows.items()}
    empty = {name: count for name, count in every.items() if count}
    assert empty == {"cr": 4, "mpqa": 3}
