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
from job_scripts import SESSION, be_script, have_terminal, saving

from embedrun import signals
from embedrun.curation.annotation import annotate
from embedrun.errors import DataError, Terminated
from embedrun.launch import job
from embedrun.launch.job import Beside, Job, run_in_child
from embedrun.runs.directory import Outcome

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")


@pytest.fixture
def child(monkeypatch):
    """Let a shell script be the job's process."""
    return partial(be_script, monkeypatch)


def nothing_ends_it() -> bool:
    return False


WAITED_FOR = "sleep 0.5"  # a signal before this process waits for the job is no matter of these tests
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
            "outcome": "outcome.json",
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
    child('printf \'{"directory": "run", "code": 0}\' > $OUT')
    assert ran() == Outcome(directory="run")
    assert json.loads(Path("got.json").read_text()) == {
        "command": "train",
        "config": {"seed": 1},
        "overrides": ["seed=1"],
        "directory": None,
        "resumed": None,
        "choices": None,
        "outcome": "outcome.json",
        "argv": ["embedrun", "train", "-m", "seed=1,2"],
        "parent": os.getpid(),
    }


def test_a_killed_job_has_failed_and_says_by_which_signal(child):
    child("kill -9 $$")
    assert ran() == Outcome(error="the job's process ended without a result (killed by signal 9)", code=-9)


@pytest.mark.parametrize("status", [0, 3])
def test_a_job_that_ends_without_a_word_has_failed(child, status):
    child(f"exit {status}")
    outcome = ran()
    assert outcome.error == f"the job's process ended without a result (exit code {status})"
    assert outcome.code != 0


def test_a_job_that_dies_before_it_reads_is_a_failed_job(child):
    child("kill -9 $$", reads=False)
    big = {"texts": "x" * 1_000_000}  # more than a pipe holds
    outcome = run_in_child(Job("train", big), Path("outcome.json"))
    assert "killed by signal 9" in (outcome.error or "")


@pytest.fixture
def _ctrl_c_is_heard():
    """A shell starts what it puts in the background with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_ctrl_c_is_heard")
@pytest.mark.parametrize("beside", [ALONE, BESIDE])
def test_ctrl_c_of_a_terminal_waits_for_the_job_which_has_it_too(child, monkeypatch, beside):
    have_terminal(monkeypatch, True)
    child(f"trap 'touch told' TERM; {WAITED_FOR}; kill -2 $PPID; sleep 0.3; touch done; exit 130")
    with pytest.raises(KeyboardInterrupt):
        ran(beside)
    assert Path("done").exists()  # the job had time to save and end
    assert not Path("told").exists()


@pytest.mark.usefixtures("_ctrl_c_is_heard")
@pytest.mark.parametrize("apart", [0.05, 0.5])
def test_a_second_ctrl_c_leaves_a_job_that_does_not_end_a_moment_and_kills_it(child, monkeypatch, apart):
    have_terminal(monkeypatch, False)
    monkeypatch.setattr(job, "_MOMENT", 0.1)
    twice = f"(kill -2 $PPID; sleep {apart}; kill -2 $PPID)"
    child(f"trap '' TERM INT; echo $$ > pid; {twice} & exec sleep 60")
    began = time.monotonic()
    with signals.raised(), pytest.raises(KeyboardInterrupt):
        ran()
    assert time.monotonic() - began < 5
    assert not Path(f"/proc/{Path('pid').read_text().strip()}").exists()


@pytest.mark.usefixtures("_ctrl_c_is_heard")
@pytest.mark.parametrize("beside", [ALONE, BESIDE])
def test_sigint_that_no_terminal_sent_is_handed_on(child, monkeypatch, beside):
    have_terminal(monkeypatch, False)
    child(saving(f"{WAITED_FOR}; kill -2 $PPID"))
    with pytest.raises(KeyboardInterrupt):
        ran(beside)
    assert Path("saved").exists()


@pytest.mark.parametrize(
    ("number", "beside", "has_terminal"),
    [
        (signal.SIGTERM, ALONE, True),
        (signal.SIGTERM, BESIDE, False),
        (signal.SIGHUP, ALONE, False),
        (signal.SIGHUP, BESIDE, True),
        (signal.SIGUSR1, ALONE, True),
        (signal.SIGUSR1, BESIDE, False),
    ],
)
def test_a_signal_that_asks_for_an_end_is_handed_on_to_the_job_which_has_time_to_save(
    child, monkeypatch, number, beside, has_terminal
):
    have_terminal(monkeypatch, has_terminal)
    child(saving(f"{WAITED_FOR}; kill -{int(number)} $PPID"))
    with pytest.raises(Terminated), signals.raised():
        ran(beside)
    assert Path("saved").exists()


def test_a_job_is_ended_as_soon_as_it_is_said_and_its_outcome_still_counts(child):
    saves = "saves() { printf '{\"code\": 143}' > $OUT; exit 143; }; trap saves TERM; touch begun"
    child(f"{saves}; for turn in $(seq 200); do sleep 0.05; done")
    began = time.monotonic()
    assert ran(Beside(Path("job.log"), Path("begun").exists)) == Outcome(code=143)
    assert time.monotonic() - began < 5


def test_what_a_job_prints_goes_behind_what_its_log_has(child, capfd):
    log = Path("logs/job.log")
    for word in ("one", "two"):
        child(f"echo {word}; echo {word} >&2")
        ran(Beside(log, nothing_ends_it))
    assert log.read_text() == "one\none\ntwo\ntwo\n"
    assert capfd.readouterr() == ("", "")


def test_a_job_runs_in_a_folder_and_hears_no_key_where_it_is_to(child, tmp_path):
    child(SESSION)
    own = os.getsid(0)
    for apart in (True, False):
        ran(Beside(Path("job.log"), nothing_ends_it, str(tmp_path), apart=apart))
        assert (int((tmp_path / "session").read_text()) != own) is apart


def test_a_job_that_keeps_its_claim_outlives_the_process_that_started_it(child):
    child("(sleep 1) &")  # what still runs has the lock, too
    with open("lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        ran(Beside(Path("job.log"), nothing_ends_it, claim=file.fileno()))
    with open("lock") as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert json.loads(Path("got.json").read_text())["parent"] is None


def test_the_child_does_the_job_and_writes_its_outcome(described):
    def work(config, overrides, directory):
        assert (config, overrides, directory) == ({"seed": 3}, ["seed=3"], "run")
        assert sys.argv[1:] == ["annotate", "-m", "seed=3,4"]  # what environment.json records
        return Outcome("run", {"name": "x", "value": 1.0})

    assert described(work) == 0
    assert written() == {"directory": "run", "main": {"name": "x", "value": 1.0}, "error": None, "code": 0}


def test_a_fault_in_the_child_is_its_outcome(described, capsys):
    def work(*_):
        raise DataError("x.csv, line 3: empty")

    assert described(work) == 3
    assert (written()["code"], "x.csv, line 3: empty" in written()["error"]) == (3, True)
    assert "Traceback" not in capsys.readouterr().err


def test_a_job_that_was_asked_to_end_says_so_by_its_code(described):
    def work(*_):
        raise Terminated

    assert described(work) == 143
    assert (written()["error"], written()["code"]) == ("interrupted", 143)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_while_the_job_is_loaded_is_its_outcome_and_the_next_one_cuts_nothing_short(
    described, monkeypatch, number
):
    write = job.write_atomically

    def signalled(*given) -> None:
        os.kill(os.getpid(), signal.SIGTERM)  # as the parent hands it on
        time.sleep(0.1)
        write(*given)

    def work(*_):
        os.kill(os.getpid(), number)
        time.sleep(10)

    monkeypatch.setattr(job, "write_atomically", signalled)
    assert described(work) == 143
    assert (written()["error"], written()["code"]) == ("interrupted", 143)


def test_ctrl_c_in_the_child_is_its_outcome(described):
    def work(*_):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(10)  # the signal may reach another thread first

    assert described(work) == 130
    assert written()["error"] == "interrupted"


def test_the_child_goes_on_with_the_run_that_it_is_told(described):
    def work(config, overrides, directory, *, resumed):
        return Outcome(str(resumed))

    assert described(work, resumed="outputs/a") == 0
    assert written()["directory"] == "outputs/a"


def test_a_child_whose_parent_has_died_does_nothing(described):
    with pytest.raises(SystemExit, match="1"):
        described(lambda *_: pytest.fail("began"), parent=os.getpid())  # which is not its parent
