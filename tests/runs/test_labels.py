from typing import Any

import pytest
from finished_runs import finished

from embedrun.runs.listing import columns, labels, title
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


@pytest.mark.parametrize("typed", ["loss.terms.angle.weight=2", "++loss.terms={angle:{weight:2}}"])
def test_an_option_that_was_typed_is_a_column_beside_the_choice_that_has_it(typed):
    twice = {"loss": {"terms": {"angle": {"weight": 2}}}}
    runs = [run("a", twice, typed), run("b", COSENT, "loss=cosent", loss="cosent")]
    assert columns(runs)["loss.terms.angle.weight"] == [2, None]


def test_runs_that_nothing_tells_apart_are_numbered_and_one_alone_has_its_name():
    alike = [run("a", {}), run("b", {})]
    assert columns(alike) == {}
    assert labels(alike) == ["trial (1)", "trial (2)"]
    assert labels(alike[:1]) == ["trial"]


def test_what_decides_nothing_is_no_difference_and_what_decides_no_result_is_in_no_title():
    runs = [
        run("a", {}, tracking="local"),
        run("b", {}, "tracking=wandb", "gpu=cpu", tracking="wandb", gpu="cpu"),
    ]
    assert list(columns(runs)) == ["gpu"]
    assert title(runs[1]) == "trial"
