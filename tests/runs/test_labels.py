from pathlib import Path
from typing import Any

import pytest
from finished_runs import finished

from embedrun.runs.listing import choices, columns, labels, title
from embedrun.runs.reading import RunFiles

pytestmark = pytest.mark.usefixtures("here")

ANGLE = {"loss": {"terms": {"angle": {"weight": 1.0}}}}
COSENT = {"loss": {"terms": {"cosent": {"weight": 1.0}}}}


def run(name: str, config: dict[str, Any], *typed: str, **chosen: str) -> RunFiles:
    return RunFiles.read(finished(name, config, typed=typed, choices={"loss": "angle", **chosen}))


def test_runs_of_two_losses_differ_in_the_choice_and_not_in_what_it_brings():
    runs = [run("a", ANGLE), run("b", COSENT, "loss=cosent", loss="cosent")]
    assert columns(runs) == {"loss": ["angle", "cosent"]}
    assert labels(runs) == ["loss=angle", "loss=cosent"]


def test_an_option_is_a_column_where_choices_are_equal():
    runs = [run("a", {"training": {"lr": 1e-5}}), run("b", {"training": {"lr": 2e-5}})]
    assert columns(runs) == {"training.lr": [1e-5, 2e-5]}
    assert labels(runs) == ["training.lr=1e-05", "training.lr=2e-05"]


def test_an_experiment_explains_every_option_but_one_that_was_typed():
    both = [{"seed": seed, "training": {"lr": seed}} for seed in (1, 2)]
    runs = [run("a", both[0], experiment="x"), run("b", both[1], "seed=2", experiment="y")]
    assert columns(runs) == {"experiment": ["x", "y"], "seed": [1, 2]}
    assert labels(runs) == ["experiment=x, seed=1", "experiment=y, seed=2"]


@pytest.mark.parametrize("typed", ["loss.terms.angle.weight=2", "++loss.terms={angle:{weight:2}}"])
def test_an_option_that_was_typed_is_a_column_beside_the_choice_that_has_it(typed):
    twice = {"loss": {"terms": {"angle": {"weight": 2}}}}
    runs = [run("a", twice, typed), run("b", COSENT, "loss=cosent", loss="cosent")]
    assert columns(runs)["loss.terms.angle.weight"] == [2, None]


def test_a_choice_that_an_experiment_makes_is_a_column_but_not_in_the_name():
    runs = [run("a", ANGLE, experiment="x"), run("b", COSENT, experiment="y", loss="cosent")]
    assert list(columns(runs)) == ["experiment", "loss"]
    assert labels(runs) == ["experiment=x", "experiment=y"]


def test_runs_that_nothing_tells_apart_are_numbered_and_one_alone_has_its_name():
    alike = [run("a", {}), run("b", {})]
    assert columns(alike) == {}
    assert labels(alike) == ["trial (1)", "trial (2)"]
    assert labels(alike[:1]) == ["trial"]


def test_a_name_has_four_options_at_most_and_leaves_out_what_it_is_told_to():
    runs = [run(str(n), dict.fromkeys("abcdef", n) | {"seed": n}) for n in (1, 2)]
    assert labels(runs, without=("a", "seed"))[0] == "b=1, c=1, d=1, e=1"


def test_a_run_that_has_written_no_options_yet_differs_in_none_and_leaves_the_others_their_names():
    lr = {"training": {"lr": 1e-5}}
    runs = [run("a", {"seed": 1, **lr}, "loss=angle"), run("b", {"seed": 2, **lr}, "loss=angle")]
    Path("outputs/begins").mkdir()
    Path("outputs/begins/run.log").touch()
    begins = RunFiles.read(Path("outputs/begins"))
    assert columns([begins, *runs]) == {"seed": [None, 1, 2]}
    assert labels([begins, *runs]) == ["begins", *labels(runs)] == ["begins", "seed=1", "seed=2"]


def test_the_title_of_a_run_has_the_choices_that_were_typed():
    made = run("a", {}, "+experiment=x", "loss=cosent", "seed=1", loss="cosent", experiment="x", gpu="auto")
    assert title(made) == "trial, loss=cosent"


def test_what_decides_nothing_is_no_difference_and_what_decides_no_result_is_in_no_title():
    runs = [
        run("a", {}, tracking="local"),
        run("b", {}, "tracking=wandb", "gpu=cpu", tracking="wandb", gpu="cpu"),
    ]
    assert list(columns(runs)) == ["gpu"]
    assert title(runs[1]) == "trial"


SCORED = {"evaluation": {"tasks": {"sts": {}}}}


def test_choices_that_give_equal_options_are_one_and_have_the_name_that_was_typed():
    runs = [
        run("a", SCORED, evaluation="auto"),
        run("b", {**SCORED, "seed": 2}, "evaluation=sts", evaluation="sts"),
    ]
    assert choices(runs) == {}
    assert labels(runs, without=("seed",)) == ["trial (1)", "trial (2)"]
    other = run(
        "c", {"evaluation": {"tasks": {"geometry": {}}}}, "evaluation=geometry", evaluation="geometry"
    )
    assert choices([*runs, other]) == {"evaluation": ["sts", "sts", "geometry"]}
    assert labels([*runs[:1], other]) == ["evaluation=auto", "evaluation=geometry"]
