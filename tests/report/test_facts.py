"""What a run says of itself: state, main score, options, files."""

import pytest

from embedrun.report import gather
from embedrun.report.charts import Speed
from embedrun.report.facts import State, environment_entries, headline, summary
from embedrun.report.scores import table
from embedrun.runs.directory import to_yaml
from embedrun.runs.reading import RunFiles


@pytest.fixture
def run(tmp_path):
    """A run directory of which nothing but its state is there yet."""
    (tmp_path / "status.json").write_text('{"state": "running"}')
    return RunFiles.read(tmp_path)


def test_a_run_that_has_only_begun_has_a_page(run):
    facts = gather(run)
    assert (facts.headline, facts.panels, facts.images, facts.worst, facts.seen) == (None, [], [], [], [])
    assert (facts.config, facts.repeat, facts.remarks) == ("", "", [])
    assert facts.name == run.path.name
    assert facts.go_on == f"embedrun resume {run.path}"


@pytest.mark.parametrize(
    ("typed", "end"),
    [
        ("embedrun train --config-dir 'my own' +experiment=x", " --config-dir 'my own'"),
        ("embedrun train -cd a +experiment=x --config-dir=b", " --config-dir b"),
        ("embedrun train +experiment=x", ""),
        ("embedrun train --config-dir 'not closed", ""),
        (["embedrun"], ""),
    ],
)
def test_the_folder_of_ones_own_yaml_is_named_again(run, typed, end):
    run.config.update({"name": "x", "training": {}})
    run.environment["command"] = typed
    (run.path / "overrides.yaml").write_text(to_yaml(["+experiment=x"]))
    assert gather(run).repeat == f"embedrun train +experiment=x{end}"


def test_what_has_everything_says_everything(rich):
    facts = rich("word")
    assert facts.headline is not None
    assert facts.headline["to_paper"] == "−2.00"
    assert [panel.title for panel in facts.panels] == [
        "Loss and dev scores", "Terms of the loss", "Comparisons of the terms"
    ]  # fmt: skip
    assert [found.name for found in facts.worst] == ["word", "word dev"]
    assert facts.remarks == ["word is broken"]
    assert facts.scores.lost == {"word only": "1.00"}


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
        "speed": "432 rows/s, 2.3 GiB on the device at most",
        "time": "1\xa0min\xa042\xa0s: load 2.0\xa0s, train 1\xa0min\xa040\xa0s",
    }


def test_a_model_from_nothing_is_named_by_its_size():
    config = TRAINING | {"backbone": {"name": None, "scratch": {"layers": 2, "width": 128}}}
    assert dict(summary(config, {}, {}, NONE))["backbone"] == "from scratch: 2 layers, width 128"


def test_the_trainings_before_come_first_with_base_model_data_and_loss():
    first = {"backbone": {"name": "minilm"}, "dataset": {"name": "nli"}, "loss": {"terms": {"infonce": {}}}}
    found = summary(TRAINING, {}, {"stages": [{"config": first}, 3]}, NONE)
    assert found[0] == ("stage 1", "minilm, trained on nli with infonce")
    assert [name for name, _ in found[1:3]] == ["stage 2", "loss"]


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


def test_the_environment_names_the_commit_and_whether_it_is_all():
    found = dict(
        environment_entries({"code": {"commit": "abc", "dirty": True}, "cpu": {"count": 8}, "gpu": []})
    )
    assert found == {"code": "commit abc, with changes that are not in it", "processor": "count 8"}


KEY = "sts/stsb/spearman"


def test_the_main_score_stands_beside_interval_baseline_and_paper():
    results = {
        "main": {"name": KEY, "value": 80.0},
        "scores": {KEY: 80.0},
        "baseline": {KEY: 60.0},
        "intervals": {KEY: [78.0, 82.0]},
    }
    found = headline(results, table(results, {KEY: 85.0}))
    assert found is not None
    assert found == {
        "key": KEY,
        "value": "80.00",
        "interval": "78.00 to 82.00",
        "before": "60.00",
        "gain": "+20.00",
        "paper": "85.00",
        "to_paper": "−5.00",
        "clean": "",
    }


def test_times_are_in_utc_and_the_last_sign_is_that_of_a_running_run():
    state = State.of(
        {"state": "running", "started": "2026-03-01T12:00:30+02:00", "heartbeat": "2026-03-01T11:00:00Z"}
    )
    assert state.times == ("started 2026-03-01 10:00 UTC", "last heartbeat 2026-03-01 11:00 UTC")
    state = State.of({"state": "finished", "heartbeat": "2026-03-01T11:00:00Z", "ended": "soon"})
    assert state.times == ("ended soon",)
