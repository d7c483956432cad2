import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from embedrun.errors import Terminated
from embedrun.files import Lock
from embedrun.study.tune import trial
from embedrun.study.tune.study import Ended
from embedrun.study.tune.trial import Job, train

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


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(trial, "_POLL", 0.01)


@pytest.fixture
def child(monkeypatch):
    """Replace the process of the run by a shell script; `$OUT` is the file of its outcome."""
    start = subprocess.Popen

    def replace(script: str) -> None:
        def popen(command, **options):
            assert command == [sys.executable, "-P", "-m", "embedrun.launch.job"]
            read = 'cat > got.json; OUT=$(sed \'s/.*"outcome": "\\([^"]*\\)".*/\\1/\' got.json)'
            return start(["/bin/sh", "-c", f"{read}\n{script}"], **options)

        monkeypatch.setattr(trial.subprocess, "Popen", popen)

    return replace


@pytest.fixture
def lock():
    held = Lock(Path("lock"))
    held.acquire()
    yield held
    held.release()


@pytest.fixture
def job(lock):
    config = {"seed": 1, "training": {"lr": 0.1, "resume": "never"}}
    return Job(config, ["seed=1"], Path("trial"), Path("trial.log"), None, lock.fileno())


def written(rows=METRICS, results=RESULTS) -> str:
    """A script that leaves a finished run."""
    Path("metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("results.json").write_text(json.dumps(results))
    return "mkdir -p trial; mv metrics.jsonl results.json trial; echo '{\"error\": null}' > $OUT"


def test_the_score_is_that_of_the_weights_which_the_dev_split_selected(child, job):
    child(written())
    seen: list[tuple[int, float]] = []
    assert train(job, lambda *row: seen.append(row) or False) == Ended(METRIC, 50.0)
    assert seen == [
        (2, 40.0),
        (6, 50.0),
    ]  # of its own dev split; not of the untrained model, no undefined one


def test_the_run_gets_its_configuration_a_directory_and_may_go_on(child, job):
    child(written())
    train(job, lambda *_: False)
    got = json.loads(Path("got.json").read_text())
    assert got["config"] == {"seed": 1, "training": {"lr": 0.1, "resume": "auto"}}
    assert (got["command"], got["overrides"], got["directory"]) == ("train", ["seed=1"], "trial")


def test_the_option_that_selects_says_which_score_counts(child, job):
    child(written())
    named = Job(**{**vars(job), "metric": f"{METRIC}_clean"})
    seen: list[tuple[int, float]] = []
    assert train(named, lambda *row: seen.append(row) or False) == Ended(f"{METRIC}_clean", 49.0)
    assert seen == [(2, 39.0)]


def test_a_run_that_is_not_worth_going_on_with_is_ended_at_once(child, job):
    row = json.dumps(METRICS[2])
    child(f"mkdir -p trial; trap 'echo saved > saved; exit 143' TERM; echo '{row}' > trial/metrics.jsonl\n"
          "for wait in $(seq 500); do sleep 0.02; done")  # fmt: skip
    began = time.monotonic()
    assert train(job, lambda step, value: (step, value) == (2, 40.0)) == Ended(pruned=True)
    assert time.monotonic() - began < 10
    assert Path("saved").read_text() == "saved\n"


def test_a_line_that_is_being_written_is_read_when_it_is_whole(child, job):
    row = json.dumps(METRICS[2])
    child(f"mkdir -p trial; printf '%s' '{row[:20]}' > trial/metrics.jsonl; sleep 0.2\n"
          f"printf '%s\\n' '{row[20:]}' >> trial/metrics.jsonl; sleep 0.1; exit 1")  # fmt: skip
    seen: list[tuple[int, float]] = []
    train(job, lambda *one: seen.append(one) or False)
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
def test_a_run_that_fails_says_why(child, job, script, reason):
    child(script)
    assert train(job, lambda *_: False) == Ended(reason=reason)


def test_what_a_run_prints_goes_to_its_log(child, job, capfd):
    child(f"echo out; echo err >&2; {written()}")
    train(job, lambda *_: False)
    assert Path("trial.log").read_text() == "out\nerr\n"
    assert capfd.readouterr() == ("", "")


def test_a_run_that_finished_while_nobody_waited_is_only_read(child, job):
    subprocess.run(["/bin/sh", "-c", f"OUT=ignored; {written()}"], check=True)
    child("exit 1")
    Path("trial/status.json").write_text('{"state": "finished"}')
    assert train(job, pytest.fail) == Ended(METRIC, 50.0)


def test_a_finished_run_without_its_score_has_none(child, job):
    child(written(results={"scores": {"toy_test/spearman": 99.0}}))
    assert train(job, lambda *_: False) == Ended(METRIC, None)
    child(written(results={}))
    assert "trial/results.json cannot be read" in (train(job, lambda *_: False).reason or "")


def test_the_run_keeps_its_trial_claimed_when_the_process_that_started_it_dies(child, job, lock):
    child(f"{written()}; (sleep 1) &")  # what still runs has the lock, too
    train(job, lambda *_: False)
    lock.release()
    assert not Lock(Path("lock")).acquire(wait=False)


def test_ctrl_c_waits_for_the_run_and_goes_on_up(child, job, monkeypatch):
    monkeypatch.setattr(trial, "in_foreground", lambda: True)
    child(
        "mkdir -p trial; echo '" + json.dumps(METRICS[2]) + "' > trial/metrics.jsonl; sleep 0.3; touch saved"
    )

    def interrupted(*_: object) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(job, interrupted)
    assert Path("saved").exists()


@pytest.mark.parametrize(
    ("fault", "has_terminal"), [(Terminated, True), (Terminated, False), (KeyboardInterrupt, False)]
)
def test_a_signal_that_no_terminal_sent_is_handed_on_to_the_run(child, job, monkeypatch, fault, has_terminal):
    monkeypatch.setattr(trial, "in_foreground", lambda: has_terminal)
    child("mkdir -p trial; trap 'touch saved; exit 143' TERM; echo '" + json.dumps(METRICS[2])
          + "' > trial/metrics.jsonl\nfor wait in $(seq 500); do sleep 0.02; done")  # fmt: skip

    def asked(*_: object) -> bool:
        raise fault

    with pytest.raises(fault):
        train(job, asked)
    assert Path("saved").exists()
