from pathlib import Path

import numpy as np
import pytest
import torch

from embedrun import plot
from embedrun.config import BackboneConfig, PoolingConfig, ScratchConfig
from embedrun.encoder import Encoder
from embedrun.evaluation.geometry import Geometry
from embedrun.evaluation.scores import Scores
from embedrun.evaluation.sts import Sts
from embedrun.experiment.evaluation import draw, dropout_samples
from embedrun.rows import Rows

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")

TEXTS = ["a dog runs over the hill", "a dog runs fast", "a cat sleeps"]
PAIRS = {"gold": [0.0, 2.0, 5.0], "score": [0.1, 0.5, 0.95]}


def encoder(dropout: float = 0.1) -> Encoder:
    shape = ScratchConfig(vocabulary=100, layers=1, width=16, heads=2, positions=12, dropout=dropout)
    config = BackboneConfig(name=None, scratch=shape)
    return Encoder.build(config, PoolingConfig(), seed=1, vocabulary_texts=TEXTS)


def scored(columns: dict, **notes: float) -> dict[str, Scores]:
    return {"task": Scores({}, "", {"toy": columns}, notes=notes)}


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("**/*.png"))


def test_cosines_with_gold_scores_have_two_plots_and_a_third_where_a_zone_is_known(tmp_path: Path):
    draw(scored(PAIRS), {}, encoder(), tmp_path / "a", "png")
    assert files(tmp_path / "a") == ["toy_density.png", "toy_scores.png"]
    draw(scored(PAIRS, saturated_from=0.9), {}, encoder(), tmp_path / "b", "png")
    assert files(tmp_path / "b") == ["toy_density.png", "toy_saturation.png", "toy_scores.png"]


@pytest.mark.parametrize("by", ["floor", "nearest"])
def test_the_groups_that_a_task_asks_for_are_drawn(tmp_path: Path, monkeypatch, by):
    drawn = []
    monkeypatch.setattr(plot, "density", lambda gold, cosine, title, path, by: drawn.append(by))
    rows = Rows("stsb", "test", "pair", {"left": TEXTS, "right": TEXTS}, {"score": np.array([0.0, 2.0, 5.0])})
    task = Sts(sets=["stsb"], interval_draws=0, rating_groups=by).parts()["stsb"]
    draw(
        {"sts": task.score({"stsb": rows}, lambda texts: torch.eye(len(texts)))},
        {},
        encoder(),
        tmp_path,
        "png",
    )
    assert drawn == [by]


def test_samples_differ_between_draws_and_are_the_same_again():
    found = encoder().eval()  # as it is loaded for scoring: sampling turns dropout on
    samples = dropout_samples(found, TEXTS, 4, seed=0)
    assert samples.shape == (3, 4, 16)
    assert len(np.unique(samples.reshape(12, 16), axis=0)) == 12
    assert np.array_equal(dropout_samples(found, TEXTS, 4, seed=0), samples)
    assert not np.allclose(dropout_samples(found, TEXTS, 4, seed=1), samples, atol=1e-3)


@pytest.mark.parametrize("training", [True, False])
def test_sampling_leaves_mode_and_random_state_and_no_gradient(training: bool):
    found = encoder().train(training)
    state = torch.get_rng_state()
    dropout_samples(found, TEXTS, 2, seed=0)
    assert torch.equal(torch.get_rng_state(), state)
    assert found.training is training
    assert all(weight.grad is None for weight in found.parameters())


def test_a_map_is_drawn_only_where_a_task_asks_for_it(tmp_path: Path, capsys):
    draw({}, {"sts": Sts(), "plain": Geometry()}, encoder(), tmp_path, "png")
    assert (files(tmp_path), capsys.readouterr().err) == ([], "")
    asks = Geometry(related=TEXTS, dropout_samples=3)
    draw({}, {"geometry": asks}, encoder(dropout=0), tmp_path, "png")
    assert files(tmp_path) == []
    assert "no map of dropout samples: all samples of a sentence are equal" in capsys.readouterr().err
    draw({}, {"geometry": asks}, encoder(), tmp_path, "png")
    assert (files(tmp_path), capsys.readouterr().err) == (["dropout_map.png"], "")
