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
    assert "a SUBJ of 5,020 rows has spoilt published averages" in caught.value.problems[2]
    assert "`embedrun data get subj --from DIR`" in caught.value.problems[2]


def test_the_right_number_of_rows_with_other_classes_is_refused(store, write):
    path = write("senteval/trec/test.jsonl.gz", texts({**TREC_TEST, 0: 10, 1: 137}))
    with pytest.raises(DataError) as caught:
        Senteval(task="trec").read("test", store)
    assert caught.value.problems == [
        f"{path}: 10 rows of label 0, the published data set has 9",
        f"{path}: 137 rows of label 1, the published data set has 138",
    ]


@pytest.mark.parametrize("label", [2, -1, True, "1", 1.0, None])
def test_what_is_no_class_of_the_task_is_refused_with_its_line(store, write, label):
    path = write("senteval/mr/train.jsonl.gz", [{"text": "a", "label": 0}, {"text": "b", "label": label}])
    with pytest.raises(DataError) as caught:
        Senteval(task="mr").read("train", store)
    assert caught.value.problems == [
        f"{path}, row 2: label: expected a class from 0 to 1, got {label!r}",
    ]


def test_an_empty_text_stays_in_cr(store, write):
    rows = texts({0: 1368, 1: 2407})
    rows[3]["text"] = ""
    write("senteval/cr/train.jsonl.gz", rows)
    assert Senteval(task="cr").read("train", store).texts["text"][3] == ""


@pytest.mark.parametrize(("task", "text"), [("subj", ""), ("cr", " "), ("mpqa", None)])
def test_another_text_without_a_word_is_refused(store, write, task, text):
    write(f"senteval/{task}/train.jsonl.gz", [{"text": text, "label": 0}])
    with pytest.raises(DataError, match=r"row 1: text: (the text is empty|expected text)"):
        Senteval(task=task).read("train", store)


def test_an_unknown_task_is_refused_with_those_that_there_are():
    with pytest.raises(ValueError, match="one of mr, cr, subj, mpqa, sst2, trec, mrpc; got 'sst5'"):
        Senteval(task="sst5")  # type: ignore[arg-type]


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
