import json
import math
from pathlib import Path

import numpy as np
import pytest

from embedrun.curation.teachers import (
    average,
    prompt_problem,
    prompted,
    similarities,
)
from embedrun.errors import DataError

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "metrics.json").read_text(encoding="utf-8"))


def test_the_golden_scores_of_two_teachers():
    (case,) = [case for case in GOLDEN["cases"] if case["id"] == "teacher_score_average"]
    given = case["inputs"]

    def teacher(number: int):
        vectors = {
            f"{side}{row}": vector
            for side, text in (("a", "text1"), ("b", "text2"))
            for row, vector in enumerate(given[f"teacher{number}_{text}"])
        }
        return lambda texts: np.array([vectors[text] for text in texts], np.float32)

    found = average(similarities(["a0", "a1"], ["b0", "b1"], [teacher(1), teacher(2)]))
    np.testing.assert_allclose(found, np.array(case["expected"]), atol=GOLDEN["default_tolerance"], rtol=0)


def test_a_teacher_gets_each_text_of_a_block_once_shortest_first():
    asked = []

    def encode(texts: list[str]) -> np.ndarray:
        asked.append(texts)
        return np.ones((len(texts), 2), np.float32)

    found = similarities(["bb", "a", "bb"], ["ccc", "bb", "ab"], [encode, encode])
    assert asked == [["a", "ab", "bb", "ccc"]] * 2
    np.testing.assert_allclose(found, np.ones((3, 2)))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_vector_that_is_not_finite_is_refused_with_its_text(value):
    def encode(texts: list[str]) -> np.ndarray:
        return np.array([[value if text == "bad" else 1.0] for text in texts], np.float32)

    fine = lambda texts: np.ones((len(texts), 1), np.float32)  # noqa: E731
    with pytest.raises(DataError, match=r"teachers\[1\]: 1 of its 3 vectors are not finite, first .* 'bad'"):
        similarities(["good", "bad"], ["fine", "good"], [fine, encode])


@pytest.mark.parametrize(
    ("prompt", "read"),
    [(None, "a {b}"), ("query: ", "query: a {b}"), ('Sum "{text}" up:', 'Sum "a {b}" up:'), ("", "a {b}")],
)
def test_a_prompt_is_a_prefix_or_a_template(prompt, read):
    assert prompted(["a {b}"], prompt) == [read]
    assert prompt_problem(prompt) is None
