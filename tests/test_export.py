import json

import numpy as np
import pytest

from embedrun import export
from embedrun.config import BackboneConfig, PoolingConfig, ScratchConfig
from embedrun.encoder import Encoder
from embedrun.prompts import Prompt

TEXTS = ["a dog runs fast over the wide green hill", "a cat", "dogs", "a cat sits", "the hill is green"]
SHAPE = ScratchConfig(vocabulary=100, layers=2, width=16, heads=2, positions=12)
CHOICES = [
    PoolingConfig(name="cls"),
    PoolingConfig(name="mean", normalize=True),
    PoolingConfig(name="max"),
    PoolingConfig(name="cls_last_mean", normalize=True),
    PoolingConfig(name="first_last_mean", first_layer=0),
    PoolingConfig(name="first_last_mean", first_layer=1, normalize=True),
    PoolingConfig(name="pooler"),
    PoolingConfig(name="last_token", normalize=True),
    PoolingConfig(name="weighted_mean"),
    PoolingConfig(name="cls_max"),
    PoolingConfig(name="cls_mlp"),
    PoolingConfig(name="cls_mlp", keep_head=True, normalize=True),
]


def tiny(pooling):
    config = BackboneConfig(name=None, scratch=SHAPE, max_length=8)
    return Encoder.build(config, pooling, seed=1, vocabulary_texts=TEXTS)


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: choice.name)
def test_sentence_transformers_gives_the_same_vectors_for_every_pooling(choice, tmp_path):
    from sentence_transformers import SentenceTransformer

    encoder = tiny(choice)
    encoder.save(tmp_path)
    loaded = SentenceTransformer(str(tmp_path), device="cpu", local_files_only=True)
    theirs = loaded.encode(TEXTS, show_progress_bar=False)
    np.testing.assert_allclose(theirs, encoder.encode(TEXTS), rtol=0, atol=1e-6)
    assert loaded.max_seq_length == 8


@pytest.mark.parametrize(("name", "nearest"), export.NEAREST.items())
def test_where_padding_is_averaged_sentence_transformers_gets_the_nearest(name, nearest, tmp_path):
    from sentence_transformers import SentenceTransformer

    legacy = tiny(PoolingConfig(name=name, padded_to=8))
    legacy.save(tmp_path)
    loaded = SentenceTransformer(str(tmp_path), device="cpu", local_files_only=True)
    theirs = loaded.encode(TEXTS, show_progress_bar=False)
    np.testing.assert_allclose(theirs, tiny(PoolingConfig(name=nearest)).encode(TEXTS), rtol=0, atol=1e-6)
    assert np.abs(theirs - legacy.encode(TEXTS)).max() > 0.01


def test_sentence_transformers_puts_the_same_words_before_every_text(tmp_path):
    from sentence_transformers import SentenceTransformer

    encoder = tiny(PoolingConfig(name="mean"))
    encoder.use(Prompt("the wide {text}"))
    encoder.save(tmp_path)
    loaded = SentenceTransformer(str(tmp_path), device="cpu", local_files_only=True)
    ours = encoder.encode(TEXTS)
    for encode in (loaded.encode, loaded.encode_query, loaded.encode_document):
        np.testing.assert_allclose(encode(TEXTS, show_progress_bar=False), ours, rtol=0, atol=1e-6)


@pytest.mark.parametrize("prompt", [Prompt("the {text} hill"), Prompt("the {text}", "angle_llm")])
def test_what_sentence_transformers_has_no_words_for_is_in_our_file_alone(prompt, tmp_path):
    encoder = tiny(PoolingConfig(name="mean"))
    encoder.use(prompt)
    encoder.save(tmp_path)
    own = json.loads((tmp_path / "embedrun.json").read_text())
    assert (own["prompt"], own["text_edit"]) == (prompt.template, prompt.text_edit)
    assert not (tmp_path / "config_sentence_transformers.json").exists()


def test_the_files_say_in_the_old_keys_how_vectors_are_made(tmp_path):
    tiny(PoolingConfig(name="mean", normalize=True)).save(tmp_path)
    modules = json.loads((tmp_path / "modules.json").read_text())
    assert [(module["path"], module["type"]) for module in modules] == [
        ("", "sentence_transformers.models.Transformer"),
        ("1_Pooling", "sentence_transformers.models.Pooling"),
        ("2_Normalize", "sentence_transformers.models.Normalize"),
    ]
    assert json.loads((tmp_path / "1_Pooling" / "config.json").read_text()) == {
        "word_embedding_dimension": 16,
        "pooling_mode_cls_token": False,
        "pooling_mode_max_tokens": False,
        "pooling_mode_mean_tokens": True,
        "pooling_mode_mean_sqrt_len_tokens": False,
        "pooling_mode_weightedmean_tokens": False,
        "pooling_mode_lasttoken": False,
    }
    assert json.loads((tmp_path / "embedrun.json").read_text()) == {
        "schema": 2,
        "pooling": "mean",
        "first_layer": None,
        "normalize": True,
        "max_length": 8,
        "lowercase": False,
        "padded_to": None,
        "head": None,
        "prompt": None,
        "text_edit": None,
    }


def test_a_folder_that_holds_anything_is_not_written_to(tmp_path):
    (tmp_path / "mine.txt").write_text("kept")
    with pytest.raises(FileExistsError, match="not empty"):
        tiny(PoolingConfig()).save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
