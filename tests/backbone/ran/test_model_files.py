"""A RAN from nothing, saved as a folder, and read back by embedrun and sentence-transformers."""

import json

import numpy as np
import pytest

from embedrun.backbone import load, scratch
from embedrun.config import BackboneConfig, PoolingConfig, ScratchConfig
from embedrun.encoder import Encoder
from embedrun.errors import ConfigError

TEXTS = [
    "a dog runs fast over the wide green hill",
    "a cat",
    "dogs",
    "a cat sits",
    "the hill is green",
    "a dog",
]
SHAPE = ScratchConfig(
    architecture="ran", vocabulary=100, layers=2, width=16, heads=2, positions=40, window=4, min_window=2
)
LONG = [" ".join(TEXTS[i:] * 4) for i in range(6)] + ["a cat"]  # 2 to 40 tokens


def build(**pooling) -> Encoder:
    config = BackboneConfig(name=None, scratch=SHAPE)
    return Encoder.build(config, PoolingConfig(**pooling), seed=1, vocabulary_texts=TEXTS)


def refused(**shape) -> list[str]:
    return scratch.problems(ScratchConfig(**{"architecture": "ran", **shape}))


def test_a_text_of_any_length_is_read_and_only_positions_cut_it():
    backbone = load(BackboneConfig(name=None, scratch=SHAPE), TEXTS, seed=1)
    assert (backbone.max_length, backbone.tokenize(LONG).lengths.max()) == (40, 40)
    longer = load(BackboneConfig(name=None, scratch=SHAPE, max_length=4000), TEXTS, seed=1)
    assert longer.tokenize([" ".join(LONG * 30)]).lengths.tolist() == [4000]


@pytest.mark.parametrize(
    "pooling",
    [{"name": "cls"}, {"name": "mean", "normalize": True}, {"name": "first_last_mean", "first_layer": 0}],
)
def test_a_saved_encoder_gives_the_same_vectors_in_every_library(tmp_path, pooling):
    from sentence_transformers import SentenceTransformer

    encoder = build(**pooling)
    encoder.save(tmp_path)
    expected = encoder.encode(LONG)
    np.testing.assert_allclose(Encoder.load(tmp_path).encode(LONG), expected, rtol=0, atol=1e-6)
    theirs = SentenceTransformer(str(tmp_path), device="cpu", local_files_only=True)
    found = theirs.encode(LONG, batch_size=3, show_progress_bar=False)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_the_file_names_the_architecture_and_no_code(tmp_path):
    build().save(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["model_type"], config["window"], config["min_window"]) == ("embedrun_ran", 4, 2)
    assert "auto_map" not in config


def test_a_shape_that_cannot_be_is_refused():
    for shape, says in [
        ({"width": 10, "heads": 3}, "heads: 3 heads do not divide a width of 10; choose a divisor"),
        ({"width": 10, "heads": 2}, "head_size: must be even in a RAN, got 5; null is width by heads"),
        ({"window": 8, "min_window": 9}, "min_window: must be at most backbone.scratch.window (8), got 9"),
        (
            {"architecture": "bert", "window": 8},
            "window: only architecture=ran has one, got 8; leave it null",
        ),
    ]:
        assert refused(**shape) == [f"backbone.scratch.{says}"]
        with pytest.raises(ConfigError):
            scratch.make(ScratchConfig(**{"architecture": "ran", **shape}), TEXTS, attention="sdpa")
