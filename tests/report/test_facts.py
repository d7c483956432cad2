"""What a run says of itself: state, main score, options, files."""

import pytest

from embedrun.report.page import gather, summary
from embedrun.report.scores import Speed
from embedrun.runs.reading import RunFiles


@pytest.fixture
def run(tmp_path):
    """A run directory of which nothing but its state is there yet."""
    (tmp_path / "status.json").write_text('{"state": "running"}')
    return RunFiles.read(tmp_path)


def test_a_run_that_has_only_begun_has_a_page(run):
    facts = gather(run)
    assert facts["headline"] is None
    assert [facts[part] for part in ("panels", "images", "worst", "seen", "remarks")] == [[]] * 5
    assert (facts["config"], facts["repeat"]) == ("", "")
    assert facts["name"] == run.path.name
    assert facts["go_on"] == f"embedrun resume {run.path}"


NONE = Speed(None, None)
TRAINING = {
    "seed": 7,
    "backbone": {"name": "bert-base-uncased", "scratch": None},
    "pooling": {"name": "cls"},
    "loss": {"terms": {"angle": {"weight": 0.02}, "cosent": {}, "mse": {"weight": 1.0}}},
    "dataset": {"name": "stsb"},
    "training": {"batch_size": 32, "accumulate": 4, "lr": 2e-5, "schedule": "linear"},
    "gpu": {"device": "auto", "precision": "bf16"},
}


def test_a_training_run_says_what_it_trained_on_what_and_how():
    results = {
        "counts": {"train_rows": 5749, "steps": 1000, "best_step": 800},
        "seconds": {"load": 2, "train": 100},
    }
    found = dict(summary(TRAINING, results, {"gpu": ["A100", "A100"]}, Speed(431.7, 2.5e9)))
    assert found == {
        "loss": "0.02 × angle + cosent + mse",
        "backbone": "bert-base-uncased",
        "pooling": "cls",
        "training data": "stsb, 5,749 rows",
        "steps": "1,000 of 32 × 4 rows; the weights are those of step 800",
        "learning rate": "2e-5, linear",
        "seed": "7",
        "machine": "2 × A100, bf16",
        "speed": "432 rows/s",
        "memory": "2.3 GiB on the device at most",
        "time": "1\xa0min\xa042\xa0s: load 2.0\xa0s, train 1\xa0min\xa040\xa0s",
    }


def test_the_trainings_before_come_first_with_base_model_data_and_loss():
    first = {"backbone": {"name": "minilm"}, "dataset": {"name": "nli"}, "loss": {"terms": {"infonce": {}}}}
    found = summary(TRAINING, {}, {"stages": [{"config": first}, {"config": TRAINING}]}, NONE)
    assert found[0] == ("stage 1", "minilm, trained on nli with infonce")
    assert [name for name, _ in found[1:3]] == ["stage 2", "loss"]
