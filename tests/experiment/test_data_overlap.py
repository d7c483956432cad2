"""Rows and texts that two data sets share, and the table of them."""

import os

import pytest

from embedrun.dataset.published import Sts, Stsb
from embedrun.experiment.contamination import normalise, overlap, pairs_of
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
