"""Whitening: mean 0 and covariance 1 on the texts it is fitted on, also of the model that is saved."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from sentence_transformers import SentenceTransformer

from embedrun.encoder import Encoder
from embedrun.errors import DataError
from embedrun.experiment.whitening import whitening

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")


def test_by_hand_and_on_random_vectors():
    # Variances 4 and 1 along the axes, around (1, 2).
    vectors = np.array([[3.0, 2.0], [-1.0, 2.0], [1.0, 2 + 2**0.5], [1.0, 2 - 2**0.5]])
    layer = whitening(vectors, 1)  # variances 2 and 1: the first axis is kept
    found = layer(torch.from_numpy(vectors).float()).numpy()
    np.testing.assert_allclose(abs(found[:, 0]), [2**0.5, 2**0.5, 0, 0], atol=1e-6)
    many = np.random.default_rng(0).normal(size=(200, 5)) @ np.random.default_rng(1).normal(size=(5, 5)) + 3
    white = whitening(many, None)(torch.from_numpy(many).float()).numpy()
    np.testing.assert_allclose(white.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(np.cov(white.T, bias=True), np.eye(5), atol=1e-4)


def test_no_more_numbers_than_there_are_directions():
    flat = np.random.default_rng(0).normal(size=(50, 2)) @ np.ones((2, 4))
    with pytest.raises(DataError, match=r"whiten\.dims: 2 asked for, and the vectors differ in 1 directions"):
        whitening(flat, 2)


@pytest.mark.parametrize(
    "pooling",
    [
        ("pooling=auto",),
        ("pooling=first_last_mean", "pooling.first_layer=1"),  # two modules of sentence-transformers
        ("pooling=cls_last_mean",),  # a layer of its own stands before the map
    ],
)
def test_an_evaluation_scores_and_saves_the_whitened_model(embedrun, tiny, pooling):
    same = ("evaluate", f"model={tiny.path}", "dataset=toy", "evaluation=heldout", "gpu=cpu", *pooling)
    ended = embedrun(*same, "whiten={dataset: toy, dims: 8}", "hydra.run.dir=white")
    assert ended.code == 0, ended.err
    encoder = Encoder.load("white/model")
    assert encoder.dim == 8
    texts = ["a dog runs", "the cat sits on the mat"]
    theirs = SentenceTransformer(str(Path("white/model").resolve()), device="cpu")
    np.testing.assert_allclose(theirs.encode(texts), encoder.encode(texts), atol=1e-5)
    again = embedrun("evaluate", "model=white", *same[2:5], "hydra.run.dir=again")
    assert again.code == 0, again.err
    names = ("white", "again", "plain")
    assert embedrun(*same, "hydra.run.dir=plain").code == 0
    white, scored, plain = (pq.read_table(f"{run}/predictions/toy_test.parquet")["score"] for run in names)
    np.testing.assert_allclose(white, scored, atol=1e-6)
    assert abs(np.array(plain) - np.array(white)).max() > 0.01
    assert not Path("plain/model").exists()
    exported = embedrun("export", "white", "whole")
    assert exported.code == 0, exported.err
    np.testing.assert_array_equal(Encoder.load("whole").encode(texts), encoder.encode(texts))
