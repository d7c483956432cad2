import numpy as np

from embedrun.experiment.data import lines, overlap, percent, table, totals
from embedrun.rows import Rows


def test_a_share_that_is_not_nothing_never_reads_as_nothing():
    assert (percent(0, 9), percent(1, 18_850), percent(4760, 12_544)) == ("0.0 %", "under 0.1 %", "37.9 %")
    assert percent(0, 0) == "0.0 %"


def test_a_line_has_counts_and_percentages_and_none_where_there_are_no_rows():
    rows = Rows("mine", "test", "pair", {"left": ["a", "b", "c"], "right": ["x", "y", "z"]})
    (shared,) = overlap([Rows("t", "train", "pair", {"left": ["x", "c"], "right": ["a", "w"]})], [rows])
    (whole,) = lines(rows, shared)
    assert whole.data() == {
        "name": "mine",
        "split": "test",
        "subset": None,
        "rows": 3,
        "pairs": 1,
        "sentences": 2,
        "pairs_percent": 33.33,
        "sentences_percent": 66.67,
    }
    empty = Rows("mine", "test", "pair", {"left": [], "right": []}, {"score": np.zeros(0)})
    ((nothing,),) = [lines(empty, one) for one in overlap([rows], [empty])]
    assert nothing.data()["pairs_percent"] == 0
    assert table([[nothing]]).splitlines()[-1].split() == ["total", "0", "0", "0.0", "0", "0.0"]


def test_the_total_counts_a_set_once_whatever_its_subsets():
    texts = {"left": ["a", "b", "c"], "right": ["x", "y", "z"]}
    rows = Rows("mine", "test", "pair", texts, subset=["p", "q", "p"])
    (shared,) = overlap([Rows("t", "train", "pair", {"left": ["z"], "right": ["c"]})], [rows])
    found = lines(rows, shared)
    assert [(line.subset, line.rows, line.pairs) for line in found] == [
        (None, 3, 1),
        ("p", 2, 1),
        ("q", 1, 0),
    ]
    (both,) = totals([found, found])
    assert (both.rows, both.pairs, both.sentences) == (6, 2, 2)
    assert len(table([found]).splitlines()) == 4
    assert len(table([found], subsets=True).splitlines()) == 6


def test_single_texts_have_no_pairs_and_a_total_of_their_own():
    train = Rows("t", "train", "pair", {"left": ["x"], "right": ["a"]})
    pairs = Rows("mine", "test", "pair", {"left": ["a", "b"], "right": ["x", "a"]})
    texts = Rows("yours", "test", "text", {"text": ["x", "y", "z", "a"]})
    found = [
        lines(own, one) for own, one in zip((pairs, texts), overlap([train], [pairs, texts]), strict=True)
    ]
    assert [line.split() for line in table(found).splitlines()[2:]] == [
        ["mine", "test", "2", "1", "50.0", "2", "100.0"],
        ["yours", "test", "4", "-", "-", "2", "50.0"],
        ["total", "2", "1", "50.0", "2", "100.0"],
        ["total", "4", "-", "-", "2", "50.0"],
    ]
    assert [(line.seen, line.rows, line.unit) for line in totals(found)] == [
        (1, 2, "pairs"),
        (2, 4, "sentences"),
    ]
    (whole,) = found[1]
    assert (whole.data()["pairs"], whole.data()["pairs_percent"]) == (None, None)
    assert whole.data()["sentences_percent"] == 50
