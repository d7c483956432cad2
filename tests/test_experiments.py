"""The presets of ArcCSE and RAOE: what the papers fix stands in them."""

from pathlib import Path

import pytest

from embedrun.cli import main
from embedrun.config.compose import composed
from embedrun.config.request import Request
from embedrun.experiment.plan import TrainPlan, plan_train
from embedrun.training.order import Order

PRESETS = ("arccse_bert", "raoe_s1_bert", "raoe_s2_bert")
# Of the paper of each, where it says so; options by path.
FACTS = {
    "arccse_bert": {
        "backbone.name": "google-bert/bert-base-uncased",
        "pooling.name": "cls_mlp",
        "pooling.keep_head": False,  # Sec. 4.1: "[CLS] output without MLP layer for evaluation"
        "loss.terms.arccon.margin": 10,
        "loss.terms.arccon.temperature": 0.05,
        "loss.terms.masked_triplet.weight": 0.1,
        "dataset.masking.first": 0.2,
        "dataset.masking.second": 0.4,
        "dataset.masking.least_words": 25,
        "training.optimizer": "sam",
        "training.lr": 3e-5,
        "training.epochs": 1,
        "training.accumulate": 64,
        "training.batching": "length_grouped",
        "training.evaluate_every": 125,
    },
    "raoe_s1_bert": {
        "backbone.name": "google-bert/bert-base-uncased",
        "pooling.name": "mean",
        "loss.terms.rank_margin.weight": 1.0,
        "loss.terms.rank_margin.interval": 2,
        "loss.terms.rank_margin.scale": 20,
        "loss.terms.gated_angular.weight": 1.0,
        "loss.terms.gated_angular.scale": 20,
        "dataset.name": "nli_scored",
        "training.optimizer": "adamw",
        "training.lr": 5e-5,
        "training.epochs": 5,
        "training.batch_size": 512,
        "training.accumulate": 1,
        "seed": 42,
    },
    "raoe_s2_bert": {
        "backbone.name": "run:raoe_s1_bert",
        "pooling.name": "mean",
        "loss.terms.rank_margin.weight": 1.0,
        "loss.terms.gated_angular.weight": 0,
        "dataset.name": "stsb",
        "training.epochs": 10,
    },
}


def plain(name: str) -> dict:
    return composed(Request(command="train", overrides=(f"+experiment={name}",))).config


def option(config: dict, path: str):
    for key in path.split("."):
        config = config[key]
    return config


def steps(plan: TrainPlan, rows: int) -> int:
    training = plan.config.training
    order = Order(rows, training.batch_size, training.accumulate, plan.config.seed)
    return order.steps(training.epochs, training.max_steps)


pytestmark = pytest.mark.usefixtures("here")


def test_a_preset_says_what_its_paper_says():
    for name in PRESETS:
        config = plain(name)
        assert {path: option(config, path) for path in FACTS[name]} == FACTS[name]
        assert config["name"] == name


@pytest.mark.parametrize(
    ("name", "rows", "expected", "dev"),
    [
        ("arccse_bert", 1_000_000, 977, "Stsb"),  # 62,500 batches of 16
        ("raoe_s1_bert", 941_581, 9_195, "Stsb"),  # 1,839 an epoch
        ("raoe_s2_bert", 5_749, 110, "Stsb"),  # 11 an epoch
    ],
)
def test_a_preset_is_valid_and_takes_the_steps_that_its_head_says(name, rows, expected, dev):
    plan = plan_train(plain(name))
    assert steps(plan, rows) == expected
    assert type(plan.dev).__name__ == dev


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_checked_without_data_model_or_first_run(name, capsys):
    assert main(["check", f"+experiment={name}", "data_dir=nowhere"]) == (0 if name == "quickstart" else 3)
    out = capsys.readouterr().out
    assert "the configuration is valid" in out
    assert not list(Path.cwd().iterdir())


def test_a_second_stage_without_its_first_says_how_to_make_it(capsys):
    assert main(["train", "+experiment=raoe_s2_bert", "data_dir=nowhere"]) == 3
    err = capsys.readouterr().err
    assert "no finished run with a model named raoe_s1_bert below outputs; run `embedrun train +exp" in err
    assert "stsb/train.tsv.gz" in err  # with everything else that is missing
    assert not Path("outputs").exists()


WHOLE = 512  # tokens
TRAINED = sorted(path.stem for path in Path(__file__).parents[1].glob("conf/experiment/*.yaml"))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*TRAINED} - {"quickstart"}))
def test_every_preset_of_a_paper_scores_whole_texts(name):
    config = plain(name)
    length = config["evaluation"]["max_length"]
    if length is None:  # then as many as the model reads, of which no file is here
        assert config["backbone"]["name"] in (
            "google-bert/bert-base-uncased",
            "google-bert/bert-large-uncased",
        )
    assert length in (None, WHOLE)
