import fcntl
import io
import json
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from job_scripts import SESSION, be_script, saving

from embedrun import signals
from embedrun.curation import annotate
from embedrun.errors import DataError, Terminated
from embedrun.launch import job
from embedrun.launch.job import Beside, Job, claimed, run_in_child
from embedrun.runs.directory import Outcome

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")


@pytest.fixture
def child(monkeypatch):
    """Let a shell script be the job's process."""
    return partial(be_script, monkeypatch)


def nothing_ends_it() -> bool:
    return False


WAITED_FOR = "sleep 0.3"  # a signal before this process waits for the job is no matter of these tests
ALONE = None
BESIDE = Beside(Path("logs/job.log"), nothing_ends_it)


def ran(beside: Beside | None = None) -> Outcome:
    return run_in_child(Job("train", {"seed": 1}, ["seed=1"]), Path("outcome.json"), beside)


@pytest.fixture
def described(monkeypatch):
    """Run the child's `main` here on a description of an `annotate` job."""

    def run(work, **more) -> int:
        payload = {
            "command": "annotate",
            "config": {"seed": 3},
            "overrides": ["seed=3"],
            "directory": "run",
            "resumed": None,
            "choices": None,
            "outcome": "outcome.json",
            "parent": None,
            "argv": ["embedrun", "annotate", "-m", "seed=3,4"],
            **more,
        }
        monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(payload)))
        monkeypatch.setattr(sys, "argv", ["job.py"])
        monkeypatch.setattr(annotate, "run", work)
        return job.main()

    return run


def written() -> dict:
    return json.loads(Path("outcome.json").read_text(encoding="utf-8"))


def test_the_job_gets_its_configuration_and_its_outcome_comes_back(child, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["embedrun", "train", "-m", "seed=1,2"])
    child(f'{SESSION}; printf \'{{"directory": "run", "code": 0}}\' > $OUT')
    assert ran() == Outcome(directory="run")
    payload = json.loads(Path("got.json").read_text())
    assert (payload["command"], payload["config"], payload["overrides"]) == ("train", {"seed": 1}, ["seed=1"])
    assert payload["argv"] == ["embedrun", "train", "-m", "seed=1,2"]
    assert payload["parent"] == os.getpid()
    assert int(Path("session").read_text()) != os.getsid(0)  # it hears no key of the terminal


@pytest.mark.parametrize(
    ("script", "how"), [("kill -9 $$", "killed by signal 9"), ("exit 3", "exit code 3"), ("", "exit code 0")]
)
def test_a_job_that_ends_without_an_outcome_has_failed(child, script, how):
    child(script)
    outcome = ran()
    assert outcome.error == f"the job's process ended without a result ({how})"
    assert outcome.code != 0


@pytest.mark.parametrize(
    ("number", "beside"), [(signal.SIGINT, ALONE), (signal.SIGTERM, BESIDE), (signal.SIGHUP, ALONE)]
)
def test_a_signal_is_forwarded_to_the_job_which_has_time_to_save(child, number, beside):
    child(saving(f"{WAITED_FOR}; kill -{int(number)} $PPID"))
    with pytest.raises(KeyboardInterrupt) as caught, signals.raised():
        ran(beside)
    assert isinstance(caught.value, Terminated) is (number != signal.SIGINT)
    assert Path("saved").exists()


def test_a_job_is_ended_as_soon_as_it_is_said_and_its_outcome_still_counts(child):
    saves = "saves() { printf '{\"code\": 143}' > $OUT; exit 143; }; trap saves TERM; touch begun"
    child(f"{saves}; for turn in $(seq 200); do sleep 0.05; done")
    began = time.monotonic()
    assert ran(Beside(Path("job.log"), Path("begun").exists)) == Outcome(code=143)
    assert time.monotonic() - began < 5


def test_a_claimed_job_is_run_by_one_process():
    mine = Job("train", {"name": "x", "seed": 1})
    with claimed(mine) as outcome:
        assert outcome is None
        with claimed(mine) as other:
            assert other is not None
            assert (other.code, "in use by another process" in (other.error or "")) == (8, True)
    with claimed(mine) as again:
        assert again is None


def test_the_child_does_the_job_and_writes_its_outcome(described):
    def work(config, overrides, directory, *, resumed):
        assert (config, overrides, directory) == ({"seed": 3}, ["seed=3"], "run")
        assert sys.argv[1:] == ["annotate", "-m", "seed=3,4"]  # what environment.json records
        return Outcome(str(resumed), {"name": "x", "value": 1.0})

    assert described(work, resumed="outputs/a") == 0
    assert written() == {
        "directory": "outputs/a",
        "main": {"name": "x", "value": 1.0},
        "error": None,
        "code": 0,
    }


def test_a_fault_in_the_child_is_its_outcome(described, capsys):
    def work(*_):
        raise DataError("x.csv, line 3: empty")

    assert described(work) == 3
    assert (written()["code"], "x.csv, line 3: empty" in written()["error"]) == (3, True)
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGUSR1, 143)])
def test_a_signal_is_an_outcome_and_the_next_one_does_not_cut_short_its_writing(
    described, monkeypatch, number, code
):
    write = job.write_atomically

    def signalled(*given) -> None:
        os.kill(os.getpid(), signal.SIGTERM)  # as the parent forwards it
        time.sleep(0.05)
        write(*given)

    def work(*_):
        os.kill(os.getpid(), number)
        time.sleep(10)

    monkeypatch.setattr(job, "write_atomically", signalled)
    assert described(work) == code
    assert (written()["error"], written()["code"]) == ("interrupted", code)


def test_a_second_ctrl_c_leaves_a_job_that_does_not_end_a_moment_and_kills_it(child, monkeypatch):
    monkeypatch.setattr(job, "MOMENT", 0.1)
    twice = "(sleep 0.3; kill -2 $PPID; sleep 0.5; kill -2 $PPID)"  # not before the job is waited for
    child(f"trap '' TERM INT; echo $$ > pid; {twice} & exec sleep 60")
    began = time.monotonic()
    with signals.raised(), pytest.raises(KeyboardInterrupt):
        ran()
    assert time.monotonic() - began < 5
    assert not Path(f"/proc/{Path('pid').read_text().strip()}").exists()


def test_a_job_that_keeps_its_claim_outlives_the_process_that_started_it(child):
    child("(sleep 1) &")  # what still runs has the lock, too
    with open("lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        ran(Beside(Path("job.log"), nothing_ends_it, claim=file.fileno()))
    with open("lock") as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert json.loads(Path("got.json").read_text())["parent"] is None
