from pathlib import Path

import pytest

from embedrun.config.compose import composed
from embedrun.config.request import Request
from embedrun.curation.annotate import plan_annotate
from embedrun.dataset.pairs import Pairs
from embedrun.dataset.published import Stsb
from embedrun.dataset.toy import Toy
from embedrun.errors import ConfigError
from embedrun.experiment.data import read_splits, seen_rows
from embedrun.experiment.plan import plan_evaluate, plan_train
from embedrun.store import Store

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")

QUICK = "+experiment=quickstart"


def plain(*overrides: str, command: str = "train") -> dict:
    return composed(Request(command=command, overrides=overrides)).config


def problems(*overrides: str, command: str = "train") -> list[str]:
    plan = {"train": plan_train, "evaluate": plan_evaluate, "annotate": plan_annotate}[command]
    with pytest.raises(ConfigError) as caught:
        plan(plain(*overrides, command=command))
    return caught.value.problems


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("training.lr=fast", "training.lr: expected a number, got 'fast'"),
        (
            "gpu.device=cdua",
            "gpu.device: expected one of auto, cpu, cuda, got 'cdua'; did you mean 'cuda'?",
        ),
        ("dataset=pairs", "dataset.path: no value given; pass dataset.path=..."),
        (
            "+loss.terms.angle.temprature=2",
            "loss.terms.angle.temprature: Angle has no such option; did you mean 'temperature'? "
            "(it has: temperature, delta, direction)",
        ),
        ("+evaluation.tasks.heldout.splt=dev", "evaluation.tasks.heldout.splt: Heldout has no such option"),
        ("dataset.name=toyy", "dataset: no data set 'toyy'; did you mean 'toy'?"),
        ("backbone.scratch.heads=3", "backbone.scratch.heads: 3 heads do not divide a width of 128"),
        ("backbone.max_length=129", "backbone.max_length: must be at most backbone.scratch.positions (128)"),
        ("pooling=first_last_mean", "pooling.first_layer: no value given; pass pooling.first_layer=..."),
        ("evaluation.contamination=sts12", "evaluation.contamination: sts12 has no train split"),
        (
            "evaluation.contamination=[nli_three_way,sts12]",
            "evaluation.contamination: sts12 has no train split",
        ),
        (
            "+evaluation.tasks.again={name: heldout}",
            "evaluation.tasks.again: gives its scores the keys of evaluation.tasks.heldout",
        ),
        (
            "+evaluation.tasks.dev={name: heldout, split: dev}",
            "evaluation.tasks.dev: the score that selects the checkpoint has this name",
        ),
        ("pooling.first_layer=1", "pooling.first_layer: only pooling.name=first_last_mean has one, got 1"),
        (
            "training.dev_tasks={mine: {name: heldout, split: dev}}",
            "training.dev_tasks.mine: gives its scores the keys of the data set's own dev split",
        ),
        ("gpu.rendezvous=here", "gpu.rendezvous: expected host:port"),
        ("gpu.rendezvous=node1:29500", "gpu.rendezvous: is where several machines meet, and gpu.nodes is 1"),
    ],
)
def test_one_fault_is_one_problem(override, problem):
    (found,) = problems(QUICK, override)
    assert found.startswith(problem)


def test_all_faults_are_reported_together():
    found = problems(
        QUICK,
        "training.lrr=1",
        "training.lr=-1",
        "gpu.device=cdua",
        "loss.terms.angle.temprature=2",
        "loss.terms.angel.weight=1",
        "dataset.rows=4",
        "name=../x",
    )
    keys = [problem.split(":")[0] for problem in found]
    assert sorted(keys) == [
        "dataset.rows",
        "gpu.device",
        "loss.terms.angel",
        "loss.terms.angle.temprature",
        "name",
        "training.lr",
        "training.lrr",
    ]


OWN = ("+experiment=quickstart", "evaluation=none", "dataset.path=x.csv")
RANKED, TEXTS = "dataset.columns={text1: a, text2: b, label: c}", "dataset.columns={text1: a, text2: b}"


@pytest.mark.parametrize(
    ("options", "dev", "holds_out"),
    [
        ((QUICK,), Toy, False),
        (("dataset=nli", "loss=simcse_supervised"), Stsb, False),
        ((*OWN, "dataset=pairs"), type(None), True),
        ((*OWN, "dataset=triplets", "loss=simcse_supervised"), type(None), True),
        ((*OWN, "dataset=pairs", TEXTS, "loss=simcse_supervised"), type(None), False),
        ((*OWN, "dataset=pairs", "dataset.dev=d.csv"), Pairs, False),
        (("+experiment=angle_llm_supervised",), Stsb, False),
    ],
)
def test_what_selects_is_the_own_dev_split_else_rows_held_out_of_ones_own_or_stsb(options, dev, holds_out):
    plan = plan_train(plain(*options))
    assert (type(plan.dev), bool(plan.held)) == (dev, holds_out)


def test_what_needs_a_dev_score_is_refused_where_there_are_no_dev_rows():
    texts = (*OWN, "dataset=texts", "loss=simcse_unsupervised")
    options = (
        "training.patience=2",
        "training.select_untrained=true",
        "training.select_by=stsb_dev/spearman",
    )
    found = problems(*texts, *options)
    asked = ["training.select_by", "training.select_untrained", "training.patience"]
    assert [text.partition(": ")[0] for text in found] == asked
    assert "give dataset.dev=FILE, or training.dev=stsb" in found[0]
    geometry = ("training.dev_tasks={geometry: {split: dev}}", "training.select_by=geometry_dev/alignment")
    assert plan_train(plain(*texts, "training.patience=2", *geometry)).dev is None


def test_an_evaluation_needs_a_model_and_something_to_score():
    assert problems(command="evaluate") == ["model: no value given; pass model=..."]
    assert problems("model=x", "evaluation=none", command="evaluate") == [
        "evaluation.tasks: nothing to score; choose evaluation=sts"
    ]
    (found,) = problems("model=x", "evaluation=heldout", command="evaluate")
    assert found == "evaluation.tasks.heldout: scores the data set's own split; choose dataset=..."


@pytest.mark.parametrize("command", ["evaluate", "annotate"])
def test_what_the_gpu_group_has_for_training_alone_is_refused_elsewhere(command: str):
    asked = {
        "evaluate": ("model=x", "evaluation=sts"),
        "annotate": ("output=x", "teachers=[{name: x}]"),
    }[command]
    options = ("gpu.processes=2", "gpu.nodes=2", "gpu.rendezvous=node1:1", "gpu.compile=true")
    alone = [
        "gpu.processes, gpu.nodes, gpu.rendezvous: are for train and evaluate only (processes: annotate)"
    ]
    assert problems(*asked, "gpu=cpu", *options, command=command) == [
        *(alone if command == "annotate" else []),
        "gpu.compile: is for training only, got true; leave it false",
    ]


def test_a_time_limit_is_a_duration():
    (problem,) = problems(QUICK, "training.max_time=3x")
    assert problem.startswith("training.max_time: expected a duration such as 3h50m")
    assert plan_train(plain(QUICK, "training.max_time=3h50m")).config.training.max_time == "3h50m"


def test_patience_needs_more_than_one_score():
    (found,) = problems(QUICK, "training.patience=2", "training.evaluate_every=null")
    assert found.startswith("training.patience: there is one dev score, at the end")
    every = ("training.patience=2", "training.evaluate_every=null", "training.evaluations_per_epoch=2")
    assert plan_train(plain(QUICK, *every)).config.training.patience == 2


def test_each_data_set_that_a_model_has_seen_is_read():
    plan = plan_train(plain(QUICK, "evaluation.contamination=[toy,nli_three_way]"))
    assert {("toy", "train"), ("nli", "train")} <= {(one.name, split) for one, split in read_splits(plan)}
    plan = plan_train(plain(QUICK, "evaluation.contamination=[toy,toy_dev]"))
    read = [(rows.name, rows.split) for rows in seen_rows(plan, Store(Path()))]
    assert read == [("toy", "train"), ("toy", "dev")]
