"""Rows and texts that two data sets share, and the table of them."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedrun.dataset.published import Sts, Stsb
from embedrun.experiment.contamination import lines, normalise, overlap, pairs_of, table, totals
from embedrun.rows import FORMS, Rows
from embedrun.store import Store


def rows(*texts: tuple[str, ...], form: str = "pair") -> Rows:
    columns = {view: [row[place] for row in texts] for place, view in enumerate(FORMS[form])}
    return Rows("mine", "train", form, columns)


def shared(train: Rows | list[Rows], evaluation: Rows) -> tuple[list[bool], list[bool]]:
    (found,) = overlap([train] if isinstance(train, Rows) else train, [evaluation])
    assert found.pairs.dtype == found.sentences.dtype == bool
    return found.pairs.tolist(), found.sentences.tolist()


@pytest.mark.parametrize("form", FORMS)
def test_a_row_of_one_text_counts_by_its_sentence_and_any_other_by_its_pairs(form):
    views = len(FORMS[form])
    (found,) = overlap(
        [rows(("a", "b"))], [rows(("a", "x", "y")[:views], ("b", "a", "z")[:views], form=form)]
    )
    assert found.unit == ("sentences" if form == "text" else "pairs")
    assert found.sentences.tolist() == [True, True]
    assert found.rows.tolist() == [form == "text", True]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("A man  is playing.", "a man is playing"),
        ("  U.S. -- 2,000 'dead'!\t", "u s 2 000 dead"),
        ("Élan, ÉTÉ", "élan été"),
        ("東京、日本", "東京 日本"),
        ("x\u00b2", "x\u00b2"),  # superscript two is a digit for Unicode
    ],
)
def test_a_text_becomes_its_letters_and_digits_in_lower_case(text, plain):
    assert normalise(text) == plain


@given(st.text(max_size=30) | st.text(st.characters(max_codepoint=127), max_size=30))
def test_the_table_for_ascii_says_what_the_rule_says(text):
    def words(of: str) -> str:
        return " ".join("".join(one if one.isalnum() else " " for one in of.lower()).split())

    assert normalise(text) == (words(text) or text.strip())


def test_a_pair_is_found_in_either_order_and_another_spelling():
    train = rows(("A dog runs.", "It is raining"), ("One", "Two"))
    tests = rows(("it is raining!", "a DOG runs"), ("One", "a dog runs"), ("one", "three"), ("four", "five"))
    assert shared(train, tests) == ([True, False, False, False], [True, True, True, False])


def test_a_triplet_holds_two_pairs_and_not_that_of_positive_and_negative():
    assert pairs_of(["m", "z", "b"]) == [("m", "z"), ("b", "m")]
    assert pairs_of(["m", "z", "b", "c"]) == [("m", "z"), ("b", "m"), ("c", "m")]  # two hard negatives
    train = rows(("anchor", "same", "other"), form="triplet")
    tests = rows(("same", "anchor"), ("other", "anchor"), ("same", "other"))
    assert shared(train, tests) == ([True, True, False], [True, True, True])


@pytest.mark.realdata
def test_the_sts_benchmark_holds_4760_of_the_12544_pairs_of_sts12_to_sts16():
    store = Store.find(os.environ["EMBEDRUN_DATA"])
    tests = [Sts(year=year).read("test", store) for year in (12, 13, 14, 15, 16)]
    found = overlap([Stsb().read("train", store)], tests)
    counts = [(len(rows), int(one.pairs.sum())) for rows, one in zip(tests, found, strict=True)]
    assert counts == [(3108, 1003), (1500, 597), (3750, 1861), (3000, 1102), (1186, 197)]
    assert sum(rows for rows, _ in counts) == 12_544
    assert sum(pairs for _, pairs in counts) == 4_760


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
