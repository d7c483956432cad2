import numpy as np
import pytest

from embedrun.rows import FORMS, Rows, views_of_form


def pairs(left=("a", "b"), right=("c", "d"), score=(1.0, 0.0), **options) -> Rows:
    return Rows(
        "toy",
        "dev",
        "pair",
        {"left": list(left), "right": list(right)},
        {"score": np.array(score)},
        **options,
    )


def test_length_is_the_number_of_rows_not_of_texts():
    assert len(pairs()) == 2


def test_sentences_are_all_texts_in_view_order_with_repeats():
    assert list(pairs(left=("a", "b"), right=("b", "a")).sentences()) == ["a", "b", "b", "a"]


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match=r"different lengths, \[1, 2\]"):
        pairs(right=("c",))
    with pytest.raises(ValueError, match=r"different lengths, \[2, 3\]"):
        pairs(score=(1.0, 0.0, 0.5))
    with pytest.raises(ValueError, match=r"different lengths, \[1, 2\]"):
        pairs(subset=["one"])


def test_views_must_be_those_of_the_form():
    with pytest.raises(ValueError, match=r"'pair' need the views \['left', 'right'\], got \['text'\]"):
        Rows("toy", "dev", "pair", {"text": ["a"]})


def test_triplets_have_any_number_of_numbered_negatives():
    texts = {"left": ["a"], "right": ["b"], "negative_1": ["c"], "negative_2": ["d"]}
    assert list(Rows("t", "train", "triplet", texts).texts) == list(texts)
    assert list(views_of_form("triplet", ["negative_2", "right", "left", "negative_1"])) == list(texts)
    assert views_of_form("pair", ["negative_1"]) == FORMS["pair"]
    gap = {name.replace("2", "3"): column for name, column in texts.items()}
    with pytest.raises(ValueError, match="lacks 'negative_2' and has negative_1, negative_3"):
        Rows("t", "train", "triplet", gap)
    with pytest.raises(ValueError, match="has 'negative' beside 'negative_1'"):
        Rows("t", "train", "triplet", {"left": ["a"], "right": ["b"], "negative": ["c"], "negative_1": ["d"]})


def test_an_unknown_form_is_refused():
    with pytest.raises(ValueError, match="no form 'quad', only pair, triplet, text"):
        Rows("toy", "dev", "quad", {"text": ["a"]})


def test_equal_rows_have_equal_fingerprints():
    assert pairs().fingerprint() == pairs().fingerprint()
    assert len(pairs().fingerprint()) == 64


@pytest.mark.parametrize(
    "other",
    [
        pairs(left=("a", "x")),
        pairs(left=("b", "a"), right=("d", "c"), score=(0.0, 1.0)),  # another order
        pairs(left=("ab", ""), right=("c", "d")),  # the same characters, cut elsewhere
        pairs(score=(1.0, 0.5)),
        pairs(subset=["one", "two"]),
        Rows("toy", "test", "pair", pairs().texts, pairs().targets),
        Rows("toy", "dev", "pair", pairs().texts, {"label": pairs().targets["score"]}),
    ],
)
def test_every_difference_changes_the_fingerprint(other: Rows):
    assert other.fingerprint() != pairs().fingerprint()


def test_a_share_of_the_rows_keeps_their_order_and_all_columns():
    rows = Rows(
        "a",
        "train",
        "pair",
        {"left": [f"l{n}" for n in range(10)], "right": [f"r{n}" for n in range(10)]},
        {"score": np.arange(10.0)},
        [f"s{n}" for n in range(10)],
    )
    drawn = rows.drawn(0.3, 7)
    places = [int(one) for one in drawn.targets["score"]]
    assert len(places) == 3
    assert places == sorted(set(places))
    assert drawn.texts == {"left": [f"l{n}" for n in places], "right": [f"r{n}" for n in places]}
    assert drawn.subset == [f"s{n}" for n in places]
    assert drawn.fingerprint() == rows.drawn(0.3, 7).fingerprint()
    assert any(rows.drawn(0.3, seed).fingerprint() != drawn.fingerprint() for seed in range(5))


def test_all_rows_are_the_rows_themselves_and_none_is_never_drawn():
    rows = Rows("a", "train", "text", {"text": ["x", "y"]})
    assert rows.drawn(1.0, 1) is rows
    assert len(rows.drawn(0.01, 1)) == 1
