"""Several dev sets: scores by the name of their task, floors, and what training changed on each."""

import math
from dataclasses import replace

import pytest

from embedrun.config import Checker, TrainingConfig
from embedrun.config.request import Request
from embedrun.evaluation.heldout import Heldout
from embedrun.evaluation.scores import Scores
from embedrun.experiment.plan import plan_dev_tasks
from embedrun.experiment.scoring import WEIGHTED, with_dev_keys
from embedrun.report.diff import changes
from embedrun.report.scores import change_lines
from embedrun.study.tune import TunePlan
from embedrun.training.loop import Selection


def test_a_dev_score_is_known_by_the_name_of_its_task():
    training = TrainingConfig(
        dev_tasks={"search": {}}, select_by={"search/ndcg@10": 1, "toy_dev/spearman": 1}
    )
    named = with_dev_keys(replace(training, select_floor={"search/mrr@10": -1}))
    assert named.select_by == {"search_dev/ndcg@10": 1, "toy_dev/spearman": 1}
    assert named.select_floor == {"search_dev/mrr@10": -1}


def test_a_trial_is_judged_by_the_dev_score_of_that_name():
    request = Request(command="tune", overrides=())
    for select_by, metric in (("search/ndcg@10", "search_dev/ndcg@10"), ({"a_dev/x": 1}, WEIGHTED)):
        config = {"training": {"dev_tasks": {"search": {}}, "select_by": select_by}}
        assert TunePlan(request, (), (), (), config, ()).metric == metric


def test_a_step_below_the_floor_is_never_the_best():
    selection = Selection("own", floor={"general": 80.0})
    assert [selection.allows({"general": value}) for value in (80.0, 79.9, math.nan)] == [True, False, False]


def test_another_data_set_is_held_out_under_the_name_of_its_task():
    task = Heldout(split="dev", dataset="stsb")
    task.label = "general"
    (source,) = task.sources().values()
    assert (source.dataset, source.split) == ("stsb", "dev")
    options = {name: {"name": "heldout", "dataset": name} for name in ("stsbb", "wiki1m")}
    checker = Checker()
    plan_dev_tasks(checker, options, None)
    misspelt, unscored = checker.problems
    assert misspelt.startswith("training.dev_tasks.stsbb.dataset: no data set 'stsbb'; did you mean 'stsb'")
    assert unscored == "training.dev_tasks.wiki1m.dataset: wiki1m has no scored dev split"


def test_a_change_has_the_interval_of_a_paired_bootstrap():
    gold = list(range(100))

    def scored(column: list[int]) -> dict[str, Scores]:
        columns = {"gold": gold, "score": column}
        return {"general": Scores({"general_dev/spearman": 0}, "", {"general_dev": columns})}

    right, wrong = gold, gold[::-1]
    ends = changes(scored(wrong), scored(right))
    # From -100 to 100.
    assert ends == {"general_dev/spearman": (pytest.approx(200), pytest.approx(200))}


def test_several_dev_sets_are_said_one_by_one_and_one_is_in_the_table_alone():
    before = {"toy_dev/spearman": 40.0, "general_dev/spearman": 82.0}
    after = {"toy_dev/spearman": 75.5, "general_dev/spearman": 79.1}
    ends = {"toy_dev/spearman": (30.5, 40.5), "general_dev/spearman": (-3.5, -2.3)}
    assert change_lines(before, after, ends) == [
        "toy: 40.00 -> 75.50 (+35.50 ± 5.00)",
        "general: 82.00 -> 79.10 (-2.90 ± 0.60)",
    ]
    assert change_lines(before, after, {"toy_dev/spearman": (30.5, 40.5)}) == []
