import json

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer

from embedrun import export
from embedrun.backbone import declared
from embedrun.config import BackboneConfig, PoolingConfig, ScratchConfig
from embedrun.encoder import Encoder

TEXTS = ["a dog runs fast over the wide green hill", "a cat", "dogs", "a cat sits", "the hill is green"]
SHAPE = ScratchConfig(vocabulary=100, layers=2, width=16, heads=2, positions=12)
CHOICES = [
    PoolingConfig(name="cls"),
    PoolingConfig(name="mean", normalize=True),
    PoolingConfig(name="max"),
    PoolingConfig(name="cls_last_mean", normalize=True),
    PoolingConfig(name="first_last_mean", first_layer=0),
    PoolingConfig(name="first_last_mean", first_layer=1, normalize=True),
]


def tiny(pooling, layers=2):
    shape = ScratchConfig(**{**vars(SHAPE), "layers": layers})
    config = BackboneConfig(name=None, scratch=shape, max_length=8)
    return Encoder.build(config, pooling, seed=1, vocabulary_texts=TEXTS)


def test_sentence_transformers_gives_the_same_vectors_for_every_pooling(tmp_path):
    from sentence_transformers import SentenceTransformer

    encoders = [tiny(choice) for choice in CHOICES] + [tiny(CHOICES[-1], layers=1)]
    for number, encoder in enumerate(encoders):
        folder = tmp_path / str(number)
        encoder.save(folder)
        loaded = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
        theirs = loaded.encode(TEXTS, show_progress_bar=False)
        np.testing.assert_allclose(theirs, encoder.encode(TEXTS), rtol=0, atol=1e-6)
        assert loaded.max_seq_length == 8


def test_transformers_loads_every_weight_and_the_tokenizer(tmp_path):
    encoder = tiny(PoolingConfig(name="first_last_mean", first_layer=0)).eval()
    encoder.save(tmp_path)
    model, report = AutoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    inputs = AutoTokenizer.from_pretrained(tmp_path)(
        TEXTS[:1], return_tensors="pt", truncation=True, max_length=8
    )
    with torch.no_grad():
        expected = encoder.backbone.model(**inputs).last_hidden_state
        torch.testing.assert_close(model.eval()(**inputs).last_hidden_state, expected)


def test_weights_are_float32_safetensors_and_nothing_else_holds_any(tmp_path):
    tiny(PoolingConfig(name="cls_last_mean")).save(tmp_path)
    weights = [path for path in tmp_path.rglob("*") if path.suffix in (".safetensors", ".bin", ".pt")]
    assert sorted(path.relative_to(tmp_path).as_posix() for path in weights) == [
        "2_Dense/model.safetensors",
        "model.safetensors",
    ]
    for path in weights:
        assert {tensor.dtype for tensor in load_file(path).values()} == {torch.float32}


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
    }
    assert json.loads((tmp_path / "embedrun.json").read_text()) == {
        "schema": 1,
        "pooling": "mean",
        "first_layer": None,
        "normalize": True,
        "max_length": 8,
        "lowercase": False,
    }


def test_the_schema_that_is_written_is_the_one_that_is_read():
    assert export.SCHEMA == declared.SCHEMA


def test_a_folder_that_holds_anything_is_not_written_to(tmp_path):
    (tmp_path / "mine.txt").write_text("kept")
    with pytest.raises(FileExistsError, match="not empty"):
        tiny(PoolingConfig()).save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def card(folder, **changes):
    given = {
        "title": "My model",
        "base_model": "owner/name",
        "dataset": "nli",
        "scores": {"sts/avg/spearman": 82.366, "a|b": 1.0},
        "config_yaml": "seed: 42\n",
        "citations": ["Li & Li 2023, arXiv:2309.12871"],
        "license": "apache-2.0",
    }
    export.write_card(folder, **{**given, **changes})
    return (folder / "README.md").read_text()


def test_the_card_has_front_matter_scores_configuration_and_citations(tmp_path):
    text = card(tmp_path)
    head = yaml.safe_load(text.split("---\n")[1])
    assert head["library_name"] == "sentence-transformers"
    assert head["pipeline_tag"] == "sentence-similarity"
    assert (head["base_model"], head["license"]) == ("owner/name", "apache-2.0")
    assert "| sts/avg/spearman | 82.37 |" in text
    assert "| a\\|b | 1.00 |" in text
    assert "```yaml\nseed: 42\n```" in text
    assert "- Li & Li 2023, arXiv:2309.12871" in text


def test_a_card_leaves_out_what_is_not_known(tmp_path):
    text = card(tmp_path, base_model=None, license=None, scores={}, citations=[])
    head = yaml.safe_load(text.split("---\n")[1])
    assert "base_model" not in head
    assert "license" not in head
    assert "random weights" in text
    assert "## Scores" not in text
    assert "## Citation" not in text


def test_text_from_a_configuration_cannot_leave_its_place_in_the_card(tmp_path):
    text = card(tmp_path, title="A\n\n# B", config_yaml="note: '```'\n", base_model="x\ntags: [y]")
    assert "# A # B" in text
    assert "````yaml\nnote: '```'\n````" in text
    assert yaml.safe_load(text.split("---\n")[1])["base_model"] == "x\ntags: [y]"
