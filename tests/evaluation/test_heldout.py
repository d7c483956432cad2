import math

import numpy as np
import pytest
import torch
from torch import Tensor

from embedrun.evaluation.heldout import Heldout
from embedrun.rows import Rows

PLACES = {"x": [1.0, 0.0], "near": [1.0, 0.1], "far": [0.0, 1.0]}


def encode(texts: list[str]) -> Tensor:
    return torch.tensor([PLACES[text] for text in texts])


def rows(split: str, gold: list[float]) -> Rows:
    texts = {"left": ["x", "x", "x"], "right": ["near", "far", "x"]}
    return Rows("toy", split, "pair", texts, {"score": np.array(gold)})


def test_the_score_is_spearman_times_100():
    assert Heldout().score({"heldout": rows("test", [1, 0, 2])}, encode).scores == {
        "toy_test/spearman": pytest.approx(100)
    }
    found = Heldout().score({"heldout": rows("test", [0, 1, 2])}, encode)
    assert found.scores[found.main] == pytest.approx(50)


def test_predictions_are_named_by_data_set_and_split():
    predictions = Heldout().score({"heldout": rows("test", [1, 0, 2])}, encode).predictions
    assert list(predictions) == ["toy_test"]
    assert predictions["toy_test"]["gold"] == [1, 0, 2]
    assert predictions["toy_test"]["score"] == pytest.approx([1 / math.sqrt(1.01), 0, 1])


def test_where_label_and_score_disagree_it_is_said_which_the_cosines_follow():
    # By label a and b are above c; by score a is, and b is not. a is the nearest, and b lies behind c: both
    # follow the score. With b before c, the label.
    places = {"a": 0.1, "b": 0.6, "c": 0.4, "d": 1.2}  # d is last by both
    for at_b, conflicting in ((0.6, 100), (0.3, 0), (0.4, 50)):
        angles = {**places, "b": at_b, "x": 0.0}
        own = Rows(
            "toy",
            "test",
            "pair",
            {"left": ["x"] * 4, "right": list("abcd")},
            {"score": np.array([5.0, 2.0, 3.0, 1.0]), "label": np.array([0, 0, 1, 2])},
        )
        found = Heldout().score(
            {"heldout": own},
            lambda texts, angles=angles: torch.tensor(
                [[math.cos(angles[t]), math.sin(angles[t])] for t in texts]
            ),
        )
        assert found.scores["toy_test/conflicting"] == conflicting
        assert found.scores["toy_test/agreeing"] == 100
