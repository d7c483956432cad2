import os

import numpy as np
import pytest

from embedrun.dataset.stsb import Stsb
from embedrun.errors import DataError
from embedrun.store import Store

HEADER = ["genre", "subset", "year", "id", "score", "sentence1", "sentence2"]


def row(score: str, first: str = "A plane.", second: str = "A jet.") -> list[str]:
    return ["captions", "MSRvid", "2012", "0001", score, first, second]


def test_rows_are_read_in_file_order_with_quotes_left_alone(store, write):
    write("stsb/dev.tsv.gz", [HEADER, row("5.000", 'He said "no'), row("0", second="Rice")])
    rows = Stsb().read("dev", store)
    assert (rows.name, rows.split, rows.form) == ("stsb", "dev", "pair")
    assert rows.texts == {"left": ['He said "no', "A plane."], "right": ["A jet.", "Rice"]}
    np.testing.assert_array_equal(rows.targets["score"], np.array([5.0, 0.0]))
    assert rows.targets["score"].dtype == np.float64
    assert rows.subset == ["MSRvid", "MSRvid"]


def test_every_faulty_line_is_named_at_once(store, write):
    path = write("stsb/train.tsv.gz", [HEADER, row("7"), row("3"), row("nan"), row("x"), row("1", first=" ")])
    with pytest.raises(DataError) as caught:
        Stsb().read("train", store)
    assert caught.value.problems == [
        f"{path}, line 2: score: expected a number from 0 to 5, got '7'",
        f"{path}, line 4: score: expected a finite number, got 'nan'",
        f"{path}, line 5: score: expected a number, got 'x'",
        f"{path}, line 6: sentence1: the text is empty",
    ]


def test_a_missing_split_is_a_problem_before_reading(store, write):
    write("stsb/train.tsv.gz", [HEADER, row("1")])
    assert Stsb().problems("train", store) == []
    (problem,) = Stsb().problems("dev", store)
    assert "stsb/dev.tsv.gz" in problem
    assert str(store.root) in problem
    assert "EMBEDRUN_DATA=DIR" in problem
    assert "+experiment=quickstart" in problem


def test_an_unknown_split_is_an_error(store):
    with pytest.raises(ValueError, match="no split 'validation'"):
        Stsb().files("validation", store)


@pytest.mark.realdata
@pytest.mark.parametrize(("split", "count"), [("train", 5749), ("dev", 1500), ("test", 1379)])
def test_the_real_splits_have_their_published_sizes(split, count):
    rows = Stsb().read(split, Store.find(os.environ["EMBEDRUN_DATA"]))
    assert len(rows) == count
    assert (rows.targets["score"].min(), rows.targets["score"].max()) == (0, 5)
