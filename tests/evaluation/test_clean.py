import math

import numpy as np
import pytest
import torch
from torch import Tensor

from embedrun.evaluation.heldout import Heldout
from embedrun.evaluation.scores import Scores, add_clean, chosen, scores_by_row
from embedrun.evaluation.sts import SETS, Sts
from embedrun.rows import Rows

ANGLES = {"a": 0.0, "b": 0.2, "c": 0.6, "d": 1.2}  # of the vector of each text, in radians


def encode(texts: list[str]) -> Tensor:
    return torch.tensor([[math.cos(ANGLES[text]), math.sin(ANGLES[text])] for text in texts]).reshape(-1, 2)


def rows(right: str, gold: list[float], subset: list[str] | None = None) -> Rows:
    """Pairs of the text `a` with each of `right`; its cosine falls from b over c to d."""
    texts = {"left": ["a"] * len(right), "right": list(right)}
    return Rows("toy", "test", "pair", texts, {"score": np.array(gold)}, subset or [])


def both(task: Sts | Heldout, own: dict[str, Rows], clean: dict[str, list[bool]]) -> Scores:
    masks = {key: np.array(mask, dtype=bool) for key, mask in clean.items()}
    return add_clean(task.score(own, encode), task, own, masks, encode)


def test_chosen_rows_keep_their_texts_targets_subsets_and_name():
    part = chosen(rows("bcd", [3, 2, 1], ["x", "y", "z"]), np.array([True, False, True]))
    assert (part.name, part.split, part.texts["right"], part.subset) == (
        "toy",
        "test",
        ["b", "d"],
        ["x", "z"],
    )
    assert part.targets["score"].tolist() == [3, 1]
    assert chosen(rows("bc", [1, 2]), np.array([False, False])).texts == {"left": [], "right": []}


def test_the_clean_score_is_that_of_the_clean_rows_and_the_whole_score_stays():
    own = {"heldout": rows("bcdb", [3, 2, 1, 0])}  # but for the last row, the right order
    found = both(Heldout(), own, {"heldout": [True, True, True, False]})
    whole = Heldout().score(own, encode)
    assert list(found.scores) == ["toy_test/spearman", "toy_test/spearman_clean"]
    assert found.scores["toy_test/spearman"] == whole.scores["toy_test/spearman"] < 50
    assert found.scores["toy_test/spearman_clean"] == pytest.approx(100)
    assert (found.main, found.predictions) == (whole.main, whole.predictions)


def test_the_average_is_that_of_the_clean_scores():
    own = {name: rows("bcd", [3, 2, 1]) for name in SETS} | {"sts12": rows("bcdb", [3, 2, 1, 0])}
    clean = {name: [True] * len(own[name]) for name in SETS} | {"sts12": [True, True, True, False]}
    found = both(Sts(), own, clean).scores
    assert found["sts/sts12/spearman_clean"] == pytest.approx(100)
    assert found["sts/avg/spearman_clean"] == pytest.approx(100)
    assert found["sts/avg/spearman"] < 93
    assert len(found) == 2 * 8


def test_a_mean_over_subsets_is_over_those_that_are_left():
    own = {"sts12": rows("bcdbcd", [3, 2, 1, 1, 2, 3], ["x", "x", "x", "y", "y", "y"])}
    found = both(Sts(sets=["sts12"], aggregation=["mean"]), own, {"sts12": [True] * 3 + [False] * 3}).scores
    assert found["sts/sts12/spearman_mean"] == pytest.approx(0)  # (100 - 100) / 2
    assert found["sts/sts12/spearman_mean_clean"] == pytest.approx(100)


@pytest.mark.parametrize("left", [0, 1])
def test_fewer_than_two_clean_rows_have_no_score(left):
    mask = [True] * left + [False] * (3 - left)
    found = both(Heldout(), {"heldout": rows("bcd", [3, 2, 1])}, {"heldout": mask}).scores
    assert math.isnan(found["toy_test/spearman_clean"])
    assert found["toy_test/spearman"] == pytest.approx(100)


def test_a_task_says_itself_that_it_scores_row_by_row():
    assert scores_by_row(Sts())
    assert scores_by_row(Heldout())
    assert not scores_by_row(object())
