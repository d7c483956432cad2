import json
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest
from job_scripts import be_script

from embedrun.files import Lock
from embedrun.study.tune.study import Ended
from embedrun.study.tune.trial import _DevScores, train

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
    assert seen == [
        (2, 40.0),
        (6, 50.0),
    ]  # of its own dev split; not of the untrained model, no undefined one


def test_the_run_gets_its_configuration_a_directory_and_may_go_on(child, ran):
    child(written())
    ran()
    got = json.loads(Path("got.json").read_text())
    assert got["config"] == {"seed": 1, "training": {"lr": 0.1, "resume": "auto"}}
    assert (got["command"], got["overrides"], got["directory"]) == ("train", ["seed=1"], "trial")
    assert got["choices"] == {"loss": "cosent"}


def test_the_option_that_selects_says_which_score_counts(child, ran):
    child(written())
    seen: list[tuple[int, float]] = []
    assert ran(lambda *row: seen.append(row) or False, f"{METRIC}_clean") == Ended(f"{METRIC}_clean", 49.0)
    assert seen == [(2, 39.0)]


def test_a_run_that_is_not_worth_going_on_with_is_ended_at_once(child, ran):
    row = json.dumps(METRICS[2])
    child(f"mkdir -p trial; trap 'echo saved > saved; exit 143' TERM; echo '{row}' > trial/metrics.jsonl\n"
          "for wait in $(seq 500); do sleep 0.02; done")  # fmt: skip
    began = time.monotonic()
    assert ran(lambda step, value: (step, value) == (2, 40.0)) == Ended(pruned=True)
    assert time.monotonic() - began < 10
    assert Path("saved").read_text() == "saved\n"


def test_a_line_that_is_being_written_is_read_when_it_is_whole(child, ran):
    row = json.dumps(METRICS[2])
    child(f"mkdir -p trial; printf '%s' '{row[:20]}' > trial/metrics.jsonl; sleep 0.7\n"
          f"printf '%s\\n' '{row[20:]}' >> trial/metrics.jsonl; sleep 0.1; exit 1")  # fmt: skip
    seen: list[tuple[int, float]] = []
    ran(lambda *one: seen.append(one) or False)
    assert seen == [(2, 40.0)]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("kill -9 $$", "its process ended without a result (killed by signal 9)"),
        (
            "echo hm >&2; echo no torch >&2; exit 1",
            "its process ended without a result (exit code 1): no torch",
        ),
        ('echo \'{"error": "loss is not finite"}\' > $OUT; exit 4', "loss is not finite"),
    ],
)
def test_a_run_that_fails_says_why(child, ran, script, reason):
    child(script)
    assert ran() == Ended(reason=reason)


def test_what_a_run_prints_goes_to_its_log(child, ran, capfd):
    child(f"echo out; echo err >&2; {written()}")
    ran()
    assert Path("trial.log").read_text() == "out\nerr\n"
    assert capfd.readouterr() == ("", "")


def test_a_run_that_finished_while_nobody_waited_is_only_read(child, ran):
    subprocess.run(["/bin/sh", "-c", f"OUT=ignored; {written()}"], check=True)
    child("exit 1")
    Path("trial/status.json").write_text('{"state": "finished"}')
    assert ran(pytest.fail) == Ended(METRIC, 50.0)


def test_a_finished_run_without_its_score_has_none(child, ran):
    child(written(results={"scores": {"toy_test/spearman": 99.0}}))
    assert ran() == Ended(METRIC, None)
    child(written(results={}))
    assert "trial/results.json holds no scores" in (ran().reason or "")


def test_the_run_keeps_its_trial_claimed_when_the_process_that_started_it_dies(child, ran, lock):
    child(f"{written()}; (sleep 1) &")  # what still runs has the lock, too
    ran()
    lock.release()
    assert not Lock(Path("lock")).acquire(wait=False)


@pytest.mark.parametrize(
    "row", ["[]", "5", '{"split": "dev", "name": "a", "step": [], "value": 1}', "[" * 99_999]
)
def test_a_line_of_metrics_of_another_form_is_passed_over(row):
    sound = json.dumps({"step": 2, "split": "dev", "name": METRIC, "value": 40.0})
    Path("metrics.jsonl").write_text(f"{row}\n{sound}\n")
    assert list(_DevScores(Path("metrics.jsonl"), METRIC).new()) == [(2, 40.0)]
