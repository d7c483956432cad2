"""A run is named in the same ways wherever one is meant: commands x spellings."""

import json
from pathlib import Path

import pytest

from embedrun.commands.command_line import with_runs
from embedrun.errors import ConfigError, DataError
from embedrun.runs.directory import Run
from embedrun.runs.search import ANY, OF_MODEL, UNFINISHED, named, settle

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")


def made(place: str, day: int, state: str = "finished", *, model: bool = True) -> str:
    """A run below `outputs` that ended on this day of a month."""
    run = Run.create("x", {}, directory=f"outputs/{place}")
    run.start({"name": place.partition("/")[0]}, [], {})
    if model:
        (run.path / "model").mkdir()
    run.end(state)
    status = {**run.known, "ended": f"2026-01-{day:02}T00:00:00+00:00"}
    (run.path / "status.json").write_text(json.dumps(status))
    return str(run.path)


@pytest.fixture
def four() -> list[str]:
    """Two runs of `toy`, a later one of `stsb` that was interrupted, and a later evaluation."""
    return [
        made("toy/2026-01-01_00-00-00-aaaaaa", 1),
        made("toy/2026-01-02_00-00-00-bbbbbb", 2),
        made("stsb/2026-01-03_00-00-00-cccccc", 3, "interrupted", model=False),
        made("evaluate/2026-01-04_00-00-00-dddddd", 4, model=False),
    ]


@pytest.mark.parametrize(
    ("word", "any_run", "of_model", "unfinished"),
    [
        ("latest", 3, 1, 2),
        ("outputs", 3, 1, 2),
        ("toy", 1, 1, 1),  # all have finished, so that the newest is said to have
        ("./outputs/toy/", 1, 1, 1),
        ("run:aaaaaa", 0, 0, 0),
        ("outputs/toy/2026-01-01", 0, 0, 0),  # an incomplete path
        ("stsb", 2, None, 2),
        ("2026-01-0", None, None, 2),  # of several, the one that fits; else none
    ],
)
def test_a_word_means_the_newest_run_or_the_only_one_that_fits(four, word, any_run, of_model, unfinished):
    for wanted, place in ((ANY, any_run), (OF_MODEL, of_model), (UNFINISHED, unfinished)):
        if place is None:
            with pytest.raises((ConfigError, DataError)):
                named(word, wanted)
        else:
            assert named(word, wanted) == four[place]


def test_a_path_and_a_model_of_the_hub_stand_before_a_part_of_what_runs_are_called(four):
    Path("toy").mkdir()
    (Path("toy") / "config.json").touch()
    assert named("toy") == "toy"
    assert named("run:toy") == four[1]
    assert named("to", OF_MODEL) == "to"
    assert named("owner/model", OF_MODEL) == "owner/model"
    assert named("\0", OF_MODEL) == "\0"
    assert named("x" * 300) == "x" * 300


def test_a_name_that_must_mean_a_run_and_means_none_is_refused_with_the_nearest():
    Path("outputs/toy").mkdir(parents=True)
    with pytest.raises(DataError, match="no run named toi below outputs; did you mean 'toy'"):
        named("run:toi", ANY)


def test_a_name_stays_one_where_it_is_written_down_and_a_folder_becomes_its_run(four):
    written = [
        "model=latest",
        "backbone.name=toy",
        "+model=aaaaaa",
        "model=run:toy",
        "backbone.name=outputs/toy",
    ]
    assert with_runs(written) == [
        "model=run:latest", "backbone.name=run:toy", "+model=run:aaaaaa", "model=run:toy",
        f"backbone.name={four[1]}",
    ]  # fmt: skip
    others = ["name=toy", "model=[toy]", "model=a,b", "model='toy'", "model=${name}", "+loss=latest", "model"]
    assert with_runs(others) == others
    assert settle("run:latest") == str(Path(four[1]).resolve())
