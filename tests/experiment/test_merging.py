"""Means of weights, and what is said where they are no gain."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from embedrun.commands.merge import main
from embedrun.encoder import Encoder
from embedrun.errors import ConfigError
from embedrun.experiment.merging import Merging, mean

pytestmark = pytest.mark.usefixtures("_alone")


def test_the_mean_by_hand_and_whole_numbers_of_the_first():
    parts = [
        {"w": torch.tensor([1.0, 3.0]), "n": torch.tensor(4)},
        {"w": torch.tensor([5.0, -1.0]), "n": torch.tensor(6)},
    ]
    merged = mean(parts, [0.25, 0.75])
    assert merged["w"].tolist() == [4.0, 0.0]
    assert merged["n"] == 4


def test_a_mean_that_is_no_better_is_not_taken_and_is_said_to_be_no_gain(tiny, capsys):
    Encoder.load(tiny.path).save(Path("same"))
    assert main([str(tiny.path), "same", "-o", "merged", "--choose-by", "toy/spearman"]) == 0
    said = capsys.readouterr()
    assert "no gain: the best single model is the best of all on dev" in said.out
    assert json.loads(Path("merged/merge.json").read_text())["written"] == str(tiny.path)
    texts = ["a dog", "two cats"]
    np.testing.assert_array_equal(Encoder.load("merged").encode(texts), Encoder.load(tiny.path).encode(texts))


def test_weights_that_are_tried_leave_those_of_the_single_models_alone(tiny):
    encoder = Encoder.load(tiny.path)
    with torch.no_grad():
        for weight in encoder.parameters():
            weight.add_(1.0)
    encoder.save(Path("other"))
    merging = Merging([str(tiny.path), "other"], None)
    first, second, mean_of_both = merging.candidates([])
    merging.encoder.load_state_dict(mean_of_both.weights)
    kept = Encoder.load(tiny.path).state_dict()
    for name, weight in kept.items():
        torch.testing.assert_close(first.weights[name], weight)
        if weight.is_floating_point():
            torch.testing.assert_close(second.weights[name], weight + 1)
            torch.testing.assert_close(mean_of_both.weights[name], weight + 0.5)


def test_faults_are_named_before_a_model_is_loaded(tiny):
    def faults(*arguments: str) -> list[str]:
        with pytest.raises(ConfigError) as fault:
            main([str(tiny.path), *arguments])
        return [problem.partition(":")[0] for problem in fault.value.problems]

    assert faults("-o", str(tiny.path), "--weights", "2") == ["--weights", "--weights", "RUN", "-o"]
    assert faults("-o", "new", "--with", str(tiny.path)) == ["RUN"]
    with pytest.raises(ConfigError, match="was trained from scratch; name a model"):
        Merging([str(tiny.path)], "start")
