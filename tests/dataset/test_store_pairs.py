"""Data sets that are one file of pairs a split."""

import os

import pytest

from embedrun.dataset.mrpc import Mrpc
from embedrun.dataset.qnli import Qnli
from embedrun.dataset.qqp import Qqp
from embedrun.dataset.store_pairs import require_published
from embedrun.errors import DataError
from embedrun.store import Store


def pair(label: object, first: str = "why", second: str = "because") -> dict:
    return {"sentence1": first, "sentence2": second, "label": label}


@pytest.mark.parametrize("label", [2, -1, True, 0.0, "0", None])
def test_a_label_that_is_neither_0_nor_1_is_refused_with_its_line(store, write, label):
    path = write("pairs/qnli/train.jsonl.gz", [pair(1), pair(label), pair(0, second="")])
    with pytest.raises(DataError) as caught:
        Qnli().read("train", store)
    assert caught.value.problems == [
        f"{path}, line 2: label: expected 0 or 1, got {label!r}",
        f"{path}, line 3: sentence2: the text is empty",
    ]


def test_mrpc_is_read_where_senteval_has_it_and_only_whole(store, write):
    path = write("senteval/mrpc/test.jsonl.gz", [pair(1)] * 1147 + [pair(0)] * 578)
    assert Mrpc().read("test", store).targets["score"].sum() == 1147
    write("senteval/mrpc/test.jsonl.gz", [pair(1)] * 1147 + [pair(0)] * 577)
    with pytest.raises(DataError, match=f"{path}: 1724 rows, the published data set has 1725"):
        Mrpc().read("test", store)


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("dataset", "split", "rows", "ones"),
    [
        (Mrpc(), "train", 4_076, 2_753),
        (Mrpc(), "test", 1_725, 1_147),
        (Qqp(), "dev", 5_000, 2_508),
        (Qnli(), "dev", 1_400, 684),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_the_real_splits_have_their_sizes(dataset, split, rows, ones):
    found = dataset.read(split, Store.find(os.environ["EMBEDRUN_DATA"]))
    assert (len(found), found.targets["score"].sum()) == (rows, ones)


FILE = "senteval/mrpc/test.jsonl.gz"  # 578 and 1,147 rows of the labels 0 and 1


def test_a_file_with_the_published_numbers_passes(store):
    require_published(store, FILE, 1725, [0] * 578 + [1] * 1147)


def test_labels_are_counted_although_the_rows_are_right(store):
    with pytest.raises(DataError) as caught:
        require_published(store, FILE, 1725, [0] * 579 + [1] * 1146)
    assert caught.value.problems == [
        f"{store.path(FILE)}: 579 rows of label 0, the published data set has 578",
        f"{store.path(FILE)}: 1146 rows of label 1, the published data set has 1147",
    ]


def test_another_number_of_rows_is_refused_with_the_way_on(store):
    with pytest.raises(DataError) as caught:
        require_published(store, "mscoco/test_captions.jsonl.gz", 4999)
    first, second = caught.value.problems
    assert first.endswith("4999 rows, the published data set has 5000")
    assert "`embedrun data get mscoco --from DIR`" in second


@pytest.mark.parametrize("file", ["flickr8k/captions.jsonl.gz", "my/own.jsonl.gz"])
def test_a_file_of_which_nothing_is_published_passes(store, file):
    require_published(store, file, 3)
