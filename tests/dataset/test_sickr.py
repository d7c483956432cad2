import os

import numpy as np
import pytest

from embedrun.dataset.sickr import Sickr
from embedrun.errors import DataError
from embedrun.store import Store

HEADER = ["id", "score", "entailment", "sentence1", "sentence2"]


def test_the_relation_becomes_a_label(store, write):
    relations = ["contradiction", "entailment", "neutral"]
    write("sickr/test.tsv.gz", [HEADER, *(["1", "4.5", relation, "a", "b"] for relation in relations)])
    rows = Sickr().read("test", store)
    np.testing.assert_array_equal(rows.targets["label"], np.array([2, 0, 1]))
    assert rows.targets["label"].dtype == np.int64
    assert set(rows.targets) == set(Sickr.targets)


def test_scores_begin_at_one_and_relations_are_spelt_out(store, write):
    path = write("sickr/dev.tsv.gz", [HEADER, ["1", "0.9", "neutral", "a", "b"], ["2", "5", "0", "a", "b"]])
    with pytest.raises(DataError) as caught:
        Sickr().read("dev", store)
    assert caught.value.problems == [
        f"{path}, line 2: score: expected a number from 1 to 5, got '0.9'",
        f"{path}, line 3: entailment: expected entailment, neutral, contradiction; got '0'",
    ]


def test_a_missing_file_is_a_problem(store):
    assert len(Sickr().problems("train", store)) == 1


def test_an_unknown_split_is_an_error(store):
    with pytest.raises(ValueError, match="no split 'all'"):
        Sickr().files("all", store)


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("split", "labels"), [("train", [1299, 2536, 665]), ("dev", [144, 282, 74]), ("test", [1414, 2793, 720])]
)
def test_the_real_splits_have_their_published_sizes(split, labels):
    rows = Sickr().read(split, Store.find(os.environ["EMBEDRUN_DATA"]))
    assert np.bincount(rows.targets["label"]).tolist() == labels
