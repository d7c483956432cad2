import os
from collections import Counter

import pytest

from embedrun.dataset.sts import Sts
from embedrun.errors import DataError
from embedrun.store import Store

HEADER = ["subset", "score", "sentence1", "sentence2"]


def test_the_year_picks_the_file_and_the_name(store, write):
    write("sts/sts14.tsv.gz", [HEADER, ["OnWN", "2.5", "to go", "to move"]])
    rows = Sts(year=14).read("test", store)
    assert (rows.name, rows.split, rows.subset) == ("sts14", "test", ["OnWN"])
    assert rows.targets["score"].tolist() == [2.5]
    assert Sts(year=14).files("test", store) == ["sts/sts14.tsv.gz"]


def test_a_year_without_a_task_is_refused():
    with pytest.raises(ValueError, match="12, 13, 14, 15, 16; got 17"):
        Sts(year=17)  # type: ignore[arg-type]


def test_there_is_only_a_test_split(store):
    assert Sts(year=12).splits == ("test",)
    with pytest.raises(ValueError, match="no split 'train'"):
        Sts(year=12).read("train", store)


def test_a_pair_without_subset_or_above_the_scale_is_refused(store, write):
    path = write("sts/sts12.tsv.gz", [HEADER, ["", "1", "a", "b"], ["OnWN", "5.5", "a", "b"]])
    with pytest.raises(DataError) as caught:
        Sts(year=12).read("test", store)
    assert caught.value.problems == [
        f"{path}, line 2: subset: the text is empty",
        f"{path}, line 3: score: expected a number from 0 to 5, got '5.5'",
    ]


def test_a_missing_file_is_a_problem(store):
    (problem,) = Sts(year=15).problems("test", store)
    assert problem.startswith("sts/sts15.tsv.gz: not in the data folder")


@pytest.mark.realdata
@pytest.mark.parametrize(("year", "count"), [(12, 3108), (13, 1500), (14, 3750), (15, 3000), (16, 1186)])
def test_the_real_sets_have_their_published_sizes(year, count):
    assert len(Sts(year=year).read("test", Store.find(os.environ["EMBEDRUN_DATA"]))) == count


@pytest.mark.realdata
def test_the_real_sts12_has_its_five_subsets():
    rows = Sts(year=12).read("test", Store.find(os.environ["EMBEDRUN_DATA"]))
    assert Counter(rows.subset) == {
        "MSRpar": 750,
        "MSRvid": 750,
        "SMTeuroparl": 459,
        "OnWN": 750,
        "SMTnews": 399,
    }
