import math
import re

import pytest

from embedrun.store.columns import label, score, sentence


@pytest.mark.parametrize(("value", "number"), [("4.5", 4.5), (" 4 ", 4.0), ("1e-3", 0.001), (3, 3.0)])
def test_a_score_is_a_number_or_its_decimal_text(value, number):
    assert score(value) == number


@pytest.mark.parametrize("value", ["", "4,5", "1_0", True, None])
def test_what_is_not_a_number_is_no_score(value):
    with pytest.raises(ValueError, match="expected a number"):
        score(value)


@pytest.mark.parametrize("value", ["nan", "-inf", math.inf, 10**400])
def test_a_score_is_finite(value):
    with pytest.raises(ValueError, match="expected a finite number"):
        score(value)


def test_both_ends_of_the_scale_are_on_it():
    assert (score("0", low=0, high=5), score("5", low=0, high=5)) == (0.0, 5.0)
    with pytest.raises(ValueError, match=re.escape("expected a number from 0 to 5, got '5.01'")):
        score("5.01", low=0, high=5)


@pytest.mark.parametrize("value", [3, "1.0", True, "entailment"])
def test_only_0_1_and_2_are_labels(value):
    with pytest.raises(ValueError, match=r"expected 0 \(entailment\), 1 \(neutral\) or 2 \(contradiction\)"):
        label(value)


@pytest.mark.parametrize(("value", "reason"), [(" \t", "empty"), (None, "null"), ("a\ud800", "surrogate")])
def test_a_sentence_has_text_that_utf_8_holds(value, reason):
    with pytest.raises(ValueError, match=reason):
        sentence(value)
