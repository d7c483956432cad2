from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedrun.dataset.masking import Masking

MASK = "[MASK]"


def hidden(copy: str) -> list[int]:
    """Places of the hidden words."""
    return [place for place, word in enumerate(copy.split()) if word == MASK]


def sentence(words: int) -> str:
    return " ".join(f"w{place}" for place in range(words))


def copies(words: int, seed: int = 0, **options: Any) -> tuple[str, str]:
    return Masking(**options).copies(sentence(words), MASK, np.random.default_rng(seed))


@given(words=st.integers(25, 120), seed=st.integers(0, 1000), segments=st.integers(1, 4))
def test_the_second_copy_hides_more_and_all_that_the_first_hides(words: int, seed: int, segments: int):
    first, second = (hidden(copy) for copy in copies(words, seed, segments=segments))
    assert len(first) == round(0.2 * words)
    assert len(second) == round(0.4 * words)
    assert set(first) < set(second)
    for places in (first, second):
        runs = 1 + sum(later - earlier > 1 for earlier, later in pairwise(places))
        assert runs == segments


def test_deleted_words_leave_nothing():
    first, second = copies(30, kind="delete")
    assert len(first.split()) == 24
    assert len(second.split()) == 18
    assert MASK not in first + second
    assert set(second.split()) < set(first.split())


def test_every_place_is_as_likely():
    begins = [hidden(copies(25, seed)[1])[0] for seed in range(3200)]
    counts = np.bincount(begins, minlength=16)  # 10 of 25 words: 16 places
    assert len(counts) == 16
    assert ((counts - 200) ** 2 / 200).sum() < 37.7  # chi-square, 15 degrees of freedom, 0.1 %


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"first": 0.4, "second": 0.4}, "0 < first < second < 1 must hold, got 0.4 and 0.4"),
        ({"segments": 0}, "segments and least_words must be 1 or more: 0, 25"),
        ({"segments": 6}, "0.2 of 25 words are fewer than 6 segments"),
        ({"segments": 5, "second": 0.9}, "or 0.9 leave no word between them"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        Masking(**options)
