import csv
import io
import json
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest
from job_scripts import be_script

from embedrun.files import Lock
from embedrun.study.distributions import split
from embedrun.study.trials import Claim, Ended, Row, Study
from embedrun.study.tune import search, table, to_csv, train

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")

METRIC = "toy_dev/spearman"
# A run of two dev scores, beside other metrics, as a child leaves it.
METRICS = [
    {"step": 0, "split": "dev", "name": METRIC, "value": 1.0},
    {"step": 1, "split": "train", "name": "loss", "value": 9.0},
    {"step": 2, "split": "dev", "name": METRIC, "value": 40.0},
    {"step": 2, "split": "dev", "name": f"{METRIC}_clean", "value": 39.0},
    {"step": 4, "split": "dev", "name": METRIC, "value": None},
    {"step": 6, "split": "dev", "name": METRIC, "value": 50.0},
    {"step": 6, "split": "test", "name": "toy_test/spearman", "value": 99.0},
]
RESULTS = {"scores": {"toy_test/spearman": 99.0, METRIC: 50.0, f"{METRIC}_clean": 49.0}}


@pytest.fixture
def child(monkeypatch):
    """Let a shell script be the process of the run."""
    return partial(be_script, monkeypatch)


@pytest.fixture
def lock():
    held = Lock(Path("lock"))
    held.acquire()
    yield held
    held.release()


@pytest.fixture
def ran(lock):
    """Run the trial, and tell `report` its dev scores."""

    def run(report=lambda *_: False, metric: str | None = None) -> Ended:
        config = {"seed": 1, "training": {"lr": 0.1, "resume": "never"}}
        return train(
            config,
            ["seed=1"],
            Path("trial"),
            report,
            metric=metric,
            claim=lock.fileno(),
            choices={"loss": "cosent"},
        )

    return run


def written(rows=METRICS, results=RESULTS) -> str:
    """A script that leaves a finished run."""
    Path("metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("results.json").write_text(json.dumps(results))
    return "mkdir -p trial; mv metrics.jsonl results.json trial; echo '{\"error\": null}' > $OUT"


def test_the_score_is_that_of_the_weights_which_the_dev_split_selected(child, ran):
    child(written())
    seen: list[tuple[int, float]] = []
    assert ran(lambda *row: seen.append(row) or False) == Ended(METRIC, 50.0)
    got = json.loads(Path("got.json").read_text())
    assert got["config"] == {"seed": 1, "training": {"lr": 0.1, "resume": "auto"}}
    assert (got["command"], got["directory"], got["parent"]) == ("train", "trial", None)
    assert got["choices"] == {"loss": "cosent"}
    assert seen == [
        (2, 40.0),
        (6, 50.0),
    ]  # of its own dev split; not of the untrained model, no undefined one


def test_a_run_that_is_not_worth_going_on_with_is_ended_at_once(child, ran):
    row = json.dumps(METRICS[2])
    child(f"mkdir -p trial; trap 'echo saved > saved; exit 143' TERM; echo '{row}' > trial/metrics.jsonl\n"
          "for wait in $(seq 500); do sleep 0.02; done")  # fmt: skip
    began = time.monotonic()
    assert ran(lambda step, value: (step, value) == (2, 40.0)) == Ended(pruned=True)
    assert time.monotonic() - began < 10
    assert Path("saved").read_text() == "saved\n"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("kill -9 $$", "the job's process ended without a result (killed by signal 9)"),
        ('echo \'{"error": "loss is not finite"}\' > $OUT; exit 4', "loss is not finite"),
    ],
)
def test_a_run_that_fails_says_why(child, ran, script, reason):
    child(script)
    assert ran() == Ended(reason=reason)


def test_a_run_that_finished_while_nobody_waited_is_only_read(child, ran):
    subprocess.run(["/bin/sh", "-c", f"OUT=ignored; {written()}"], check=True)
    child("exit 1")
    Path("trial/status.json").write_text('{"state": "finished"}')
    assert ran(pytest.fail) == Ended(METRIC, 50.0)


SEARCHED = split(["n=int(1,40)", "loss=choice(angle,cosent)"]).searched


def studied(folder: Path, trials: int, *, lowest: bool = False) -> Study:
    """A study whose scores are the whole numbers that it tried; the trial of an odd first number fails."""

    def run(claim: Claim) -> Ended:
        return Ended(reason="no") if claim.number == 1 else Ended(METRIC, float(claim.values["n"]))

    study = Study(folder, SEARCHED, seed=1, lowest=lowest, prunes=False)
    search(study, trials, run, lambda: None)
    return study


@pytest.mark.parametrize("lowest", [False, True])
def test_the_table_has_the_ten_best_of_all_the_best_first(tmp_path: Path, lowest: bool):
    study = studied(tmp_path / "s", 12, lowest=lowest)
    lines = table(study, SEARCHED).splitlines()
    assert lines[0].split() == ["trial", METRIC, "n", "loss"]
    scores = [float(line.split()[1]) for line in lines[2:12]]
    every = sorted((row.score for row in study.rows() if row.score is not None), reverse=not lowest)
    assert scores == every[:10]
    assert [int(line.split()[2]) for line in lines[2:12]] == scores
    assert "the best 10 of 12; 12 finished, 1 failed" in lines


def test_a_spreadsheet_computes_nothing_of_the_csv_and_numbers_stay_numbers():
    searched = split(["a=choice(=1+1,-x)", "b=uniform(-1,1)"]).searched
    rows = [
        Row(0, "finished", -3.5, {"a": "=1+1", "b": -0.25}, 1.5, None),
        Row(1, "failed", None, {"a": "-x", "b": 0.25}, None, '@x,\x1b"y'),
        Row(2, "waiting", None, {}, None, None),
    ]
    read = list(csv.reader(io.StringIO(to_csv(rows, searched, None))))
    assert read == [
        ["trial", "state", "score", "a", "b", "seconds", "reason"],
        ["0", "finished", "-3.5", "'=1+1", "-0.25", "1.5", ""],
        ["1", "failed", "", "'-x", "0.25", "", "'@x,\ufffd\"y"],
        ["2", "waiting", "", "", "", "", ""],
    ]
