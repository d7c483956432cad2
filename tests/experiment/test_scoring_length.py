"""Texts are trained on at one length, and scored at another: whole."""

import json

import pytest

from embedrun.backbone.declared import Declared
from embedrun.backbone.transformer import scored_length
from embedrun.config.compose import composed
from embedrun.config.decides import decisive
from embedrun.config.options import BackboneConfig, PoolingConfig, ScratchConfig
from embedrun.config.request import Request
from embedrun.encoder import Encoder
from embedrun.errors import ConfigError
from embedrun.experiment.plan import plan_evaluate
from embedrun.prompts import Prompt
from embedrun.runs.directory import config_hash

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")

OURS = Declared(max_length=900, files={"max_length": "embedrun.json"})
THEIRS = Declared(max_length=900, files={"max_length": "sentence_bert_config.json"})


@pytest.mark.parametrize(
    ("reads", "declared", "trained", "is_new", "length"),
    [
        (512, Declared(), 32, False, 512),  # BERT
        (256, Declared(max_length=256), 512, False, 256),  # what the files say
        (8192, Declared(), None, False, 512),
        (8192, Declared(), 1024, False, 1024),  # never less than it is trained on
        (900, THEIRS, None, False, 512),
        (900, OURS, None, False, 900),  # a saved model has been scored so
        (8192, Declared(), 4096, True, 8192),  # a new model's configuration says what it reads
    ],
)
def test_without_an_option_a_text_is_read_whole_up_to_512_tokens(reads, declared, trained, is_new, length):
    assert scored_length(reads, declared, trained=trained, is_new=is_new) == length


def encoder(**options) -> Encoder:
    scratch = ScratchConfig(layers=1, width=8, heads=2, vocabulary=100, positions=16)
    backbone = BackboneConfig(name=None, scratch=scratch, **options)
    return Encoder.build(
        backbone, PoolingConfig(name="mean"), seed=1, vocabulary_texts=["a b c d e f g h i j"]
    )


def test_training_keeps_its_length_and_scoring_has_its_own():
    made = encoder(max_length=4)
    made.score_at(None, trained=4)
    texts = ["a b c d e f g h i j"]
    assert made.backbone.tokenize(texts).lengths.tolist() == [4]
    assert made.tokenize(texts).lengths.tolist() == [12]  # ten words, [CLS] and [SEP]
    made.score_at(6)
    assert made.tokenize(texts).lengths.tolist() == [6]
    made.score_at(17)
    assert made.max_length == 16  # positions


def test_a_prompt_counts_towards_the_length_and_must_leave_room():
    made = encoder()
    made.use(Prompt("a b c {text}"))
    made.score_at(8)
    assert made.tokenize(["d e f g h"]).lengths.tolist() == [8]
    with pytest.raises(ConfigError, match=r"takes 5 tokens by itself.*evaluation\.max_length"):
        made.score_at(5)


def test_a_saved_model_has_the_length_that_it_was_scored_at(tmp_path):
    made = encoder(max_length=6)
    made.score_at(6)
    made.save(tmp_path / "m")
    own = json.loads((tmp_path / "m/embedrun.json").read_text())
    assert own["max_length"] == 6
    settings = json.loads((tmp_path / "m/sentence_bert_config.json").read_text())
    assert settings["max_seq_length"] == 6
    again = Encoder.load(tmp_path / "m")
    again.score_at(None)
    assert again.max_length == 6


def config(*overrides: str, command: str = "train") -> dict:
    return dict(composed(Request(command, overrides)).config)


def test_the_short_form_of_an_evaluation_is_the_same_option():
    model = "model=google-bert/bert-base-uncased"
    short = config(model, "max_length=64", command="evaluate")
    long = config(model, "evaluation.max_length=64", command="evaluate")
    assert config_hash(short) == config_hash(long)
    assert plan_evaluate(short).config.evaluation.max_length == 64
    assert decisive(config(model, command="evaluate"))["max_length"] is None
    with pytest.raises(ConfigError, match=r"max_length: 64 is short for evaluation\.max_length, which is 32"):
        plan_evaluate(config(model, "max_length=64", "evaluation.max_length=32", command="evaluate"))
    plan_evaluate(config(model, "max_length=64", "evaluation.max_length=64", command="evaluate"))
