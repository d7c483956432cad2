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
