"""Every trial is checked before the first, on the rows of now."""

from dataclasses import replace
from pathlib import Path

import pytest

from embedrun.errors import ConfigError
from embedrun.study.tune import TunePlan, marks, plan_tune

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")

QUICK = "experiment=quickstart"
LR = "training.lr=loguniform(1e-4,1e-2)"


def plan(*overrides: str, study: str | None = None) -> TunePlan:
    return plan_tune([QUICK, *overrides], None, study)


def faults(*overrides: str, study: str | None = None) -> list[str]:
    with pytest.raises(ConfigError) as fault:
        plan(*overrides, study=study)
    return fault.value.problems


def test_a_trial_is_the_configuration_with_its_values():
    made = plan(LR, "training.batch_size=choice(16,32)", "pooling=choice(cls,mean)", "seed=3")
    job = made.job({"training.lr": 0.005, "training.batch_size": "32", "pooling": "cls"})
    training = job.config["training"]
    assert (training["lr"], training["batch_size"], job.config["seed"]) == (0.005, 32, 3)
    assert job.config["pooling"]["name"] == "cls"


def test_no_test_set_is_scored_unless_the_user_asks():
    values = {"training.lr": 0.005}
    precise = plan(LR, "evaluation.batch_tokens=64")
    assert "evaluation=none" not in precise.overrides(values)
    evaluation = precise.job(values).config["evaluation"]
    assert (evaluation["tasks"], evaluation["batch_tokens"]) == ({}, 64)
    assert plan(LR, "evaluation=sts").job(values).config["evaluation"]["tasks"] != {}


def test_the_study_is_named_by_what_decides_its_trials():
    made = plan(LR)
    name = made.folder(None)
    assert name.parent == Path("outputs/quickstart/tune")
    assert made.folder("first") == Path("outputs/quickstart/tune/first")
    assert plan("training.lr=loguniform(0.0001,0.01)", "tracking.log_every=5").folder(None) == name
    others = [plan(LR, "seed=3"), plan("training.lr=uniform(1e-4,1e-2)")]
    assert len({name, *(other.folder(None) for other in others)}) == 3


def test_a_search_without_dev_rows_has_nothing_to_compare():
    Path("train.csv").write_text("text1,text2,score\na,b,1\nc,d,2\n", encoding="utf-8")
    own = (LR, "dataset=pairs", "dataset.path=train.csv", "loss=cosent")
    (problem,) = faults(*own, "training.dev=none")
    assert problem == (
        "training.dev: a search compares dev scores, and there are no dev rows; give training.dev=stsb"
    )  # a dev file would not select either
    with pytest.raises(
        ConfigError, match=r"compares dev scores, and no dev rows, and 2 training rows are too"
    ) as refused:
        marks(plan(*own))
    assert refused.value.problems[0].endswith("; give dataset.dev=FILE, or training.dev=stsb")


def test_faults_at_both_ends_of_every_range_are_reported_together():
    found = faults(
        "training.warmup_ratio=uniform(-1,2)",
        "training.batch_size=uniform(8,16)",
        "trainin.epochs=int(1,2)",
        "training.clip=loguniform(1,0)",
        "training.adam_beta1=uniform(0.5,1)",
        "loss.terms.cosent.tau=uniform(0,1)",
    )
    text = "\n".join(found)
    assert "training.warmup_ratio: must be at least 0, got -1.0" in found
    assert "training.warmup_ratio: must be at most 1, got 2.0" in found
    assert "training.batch_size: expected a whole number, got 8.0" in text
    assert "training.clip: loguniform(1,0): write loguniform(a,b) with a below b" in text
    assert "training.adam_beta1: must be below 1, got 1.0" in text
    assert "trainin: unknown key" in text
    assert "cosent" in text
    assert len(found) == len(set(found))


def plan_of(*overrides: str) -> TunePlan:
    return plan_tune(["experiment=quickstart", LR, *overrides], None, None)


def test_rows_of_each_choice_have_a_mark_and_other_rows_another():
    made = plan_of("dataset.train_rows=choice(48,64)")
    one, two = (marks(replace(made, ends=(end,))) for end in (made.ends[0], made.ends[-1]))
    both = marks(made)
    assert one["toy/dev"] == two["toy/dev"] == both["toy/dev"]
    assert one["toy/train"] != two["toy/train"]
    assert both["toy/train"] == sorted(one["toy/train"] + two["toy/train"])
