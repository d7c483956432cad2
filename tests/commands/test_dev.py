import json
import math
from pathlib import Path

import numpy as np
import pytest

from embedrun.errors import ConfigError
from embedrun.evaluation.heldout import Heldout
from embedrun.evaluation.scores import Scores
from embedrun.experiment import scoring
from embedrun.rows import Rows

SENTEVAL = Scores(
    scores={"senteval/mr/accuracy_fast": 70.0, "senteval_dev/mr/accuracy_fast": 60.0},
    main="senteval/mr/accuracy_fast",
    predictions={"senteval_fast_mr": {"gold": [1], "predicted": [0]}},
    intervals={"senteval/mr/accuracy_fast": (1.0, 2.0)},
    shown=("senteval/mr/accuracy_fast",),
    notes={"engine": "numba"},
)
OWN = Scores({"toy_dev/spearman": math.nan}, "toy_dev/spearman", {"toy_dev": {"gold": [1.0], "score": [1.0]}})


def test_no_score_on_test_rows_is_left_and_dev_scores_stay_as_they_are():
    found = scoring.dev_alone({"dev": OWN, "dev_tasks.senteval": SENTEVAL})
    assert found["dev"] is OWN
    kept = found["dev_tasks.senteval"]
    assert kept.scores == {"senteval_dev/mr/accuracy_fast": 60.0}
    assert kept.main == "senteval_dev/mr/accuracy_fast"
    assert (kept.predictions, kept.intervals, kept.shown) == ({}, {}, ())
    assert kept.notes == SENTEVAL.notes


def test_the_own_dev_split_comes_first_and_asked_tasks_under_names_of_their_own():
    geometry = Heldout(split="dev")
    found = scoring.tasks({"geometry": geometry})
    assert list(found) == ["dev", "dev_tasks.geometry"]
    assert (found["dev"].split, found["dev_tasks.geometry"]) == ("dev", geometry)


def test_rows_of_test_splits_select_nothing():
    def rows(split: str) -> Rows:
        return Rows("sst2", split, "text", {"text": ["a"]}, {"category": np.array([0])})

    found = scoring.selecting({"senteval": {"sst2_dev": rows("dev"), "sst2_test": rows("test")}})
    assert list(found["senteval"]) == ["sst2_dev"]


def test_a_score_that_there_is_not_is_refused_with_those_that_there_are():
    known = scoring.own_keys("toy")
    assert known == ["toy_dev/spearman", "toy_dev/spearman_clean"]
    scoring.check_select_by("toy_dev/spearman_clean", known)
    with pytest.raises(ConfigError, match="did you mean 'toy_dev/spearman'") as refused:
        scoring.check_select_by("toy_dev/spearmann", known)
    assert "(there are: toy_dev/spearman, toy_dev/spearman_clean)" in str(refused.value)


def test_an_unknown_score_is_refused_before_a_run_directory_is_made(refused, options):
    said = refused("train", *options, "training.select_by=toy_dev/pearson")
    assert "training.select_by: no dev score 'toy_dev/pearson'" in said


def read(run: str) -> tuple[dict, list[dict]]:
    lines = Path(run, "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return json.loads(Path(run, "results.json").read_text(encoding="utf-8")), [
        json.loads(line) for line in lines
    ]


@pytest.mark.realdata
def test_any_dev_score_can_select_the_lowest_too(embedrun, options):
    tasks = "training.dev_tasks={geometry: {split: dev}}"
    lowest = ("training.select_by=geometry_dev/uniformity", "training.select_lowest=true")
    ended = embedrun(
        "train",
        *options,
        tasks,
        *lowest,
        "training.evaluate_every=1",
        "training.lr=0.01",
        "hydra.run.dir=run",
    )
    assert ended.code == 0, ended.err
    results, lines = read("run")
    of_step = {
        line["step"]: line["value"]
        for line in lines
        if line["name"] == "geometry_dev/uniformity" and line["step"]
    }
    assert set(of_step) == {1, 2}
    assert results["counts"]["best_step"] == min(of_step, key=of_step.__getitem__)
    assert results["scores"]["geometry_dev/uniformity"] == pytest.approx(min(of_step.values()))
    assert results["main"]["name"] == "toy_test/spearman"
    assert results["counts"]["dev_tasks.geometry/stsb"] == 1500


@pytest.mark.realdata
def test_an_unknown_score_of_a_task_is_refused_at_the_first_dev_score(embedrun, options):
    tasks = "training.dev_tasks={geometry: {split: dev}}"
    ended = embedrun("train", *options, tasks, "training.select_by=geometry_dev/uniform", "hydra.run.dir=run")
    assert ended.code == 2
    assert "no dev score 'geometry_dev/uniform'; did you mean 'geometry_dev/uniformity'?" in ended.err
    assert not Path("run/checkpoints").exists()
    assert not list(Path("run/.parts").glob("untrained-test/*.part"))  # which may take hours
