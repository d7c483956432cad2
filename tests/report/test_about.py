from embedrun.report.charts import Speed
from embedrun.report.facts import environment_entries, pairs, summary

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
        "speed": "432 rows/s, 2.5 GB on the device at most",
        "time": "1\xa0min\xa042\xa0s: load 2.0\xa0s, train 1\xa0min\xa040\xa0s",
    }


def test_a_run_that_has_only_begun_says_what_its_configuration_says():
    found = dict(summary(TRAINING, {}, {}, NONE))
    assert found["steps"] == "of 32 × 4 rows each"
    assert found["training data"] == "stsb"
    assert not {"machine", "speed", "time"} & found.keys()


def test_a_model_from_nothing_is_named_by_its_size():
    config = TRAINING | {"backbone": {"name": None, "scratch": {"layers": 2, "width": 128}}}
    assert dict(summary(config, {}, {}, NONE))["backbone"] == "from nothing: 2 layers, width 128"


def test_an_evaluation_says_which_model_by_which_tasks():
    config = {
        "model": "m",
        "revision": None,
        "pooling": {"name": "auto"},
        "evaluation": {"tasks": {"sts": {}}},
    }
    environment = {"gpu": ["A100"], "cpu": {"threads": 2}}
    found = summary(config | {"gpu": {"device": "cpu"}}, {}, environment, NONE)
    assert found == [
        ("model", "m"),
        ("pooling", "auto"),
        ("evaluation", "sts"),
        ("machine", "processor, 2 threads"),
    ]


def test_a_run_may_say_nothing():
    assert summary({}, {}, {}, NONE) == []
    assert environment_entries({}) == []
    odd = {"training": {}, "loss": {"terms": 3}, "backbone": [1], "dataset": "x"}
    assert summary(odd, {"counts": 3, "seconds": []}, {"gpu": 3, "cpu": 1}, NONE) == []


def test_the_environment_names_the_commit_and_whether_it_is_all():
    found = dict(
        environment_entries({"code": {"commit": "abc", "dirty": True}, "cpu": {"count": 8}, "gpu": []})
    )
    assert found == {"code": "commit abc, with changes that are not in it", "processor": "count 8"}


def test_counts_are_written_with_commas():
    assert pairs({"rows": 12345, "none": None, "flag": True, "huge": 10**5000}) == [
        ("rows", "12,345"), ("none", "–"), ("flag", "True"), ("huge", "a very large number")
    ]  # fmt: skip
    assert pairs([1]) == []
