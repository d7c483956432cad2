import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from embedrun.errors import RunFailed, Terminated
from embedrun.runs.directory import Outcome
from embedrun.training.processes import LostContact
from embedrun.training.workers import child
from embedrun.training.workers import end as workers

GPU = {"processes": 3, "threads": None}
Work = Callable[[BaseException | Outcome, int], int]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a job that this process is a worker of."""
    job = {
        "config": {"gpu": GPU}, "overrides": [], "directory": None, "resumed": None, "asked": None,
        "argv": ["embedrun", "train", "gpu.processes=3"], "parent": os.getppid(), "interface": None,
        "folder": str(tmp_path),
    }  # fmt: skip
    (tmp_path / workers.JOB).write_text(json.dumps(job))
    monkeypatch.setattr(child, "_silence", lambda log: log.write_text("silent"))
    monkeypatch.setattr(child, "end_with", lambda parent, number: None)
    monkeypatch.setattr(child, "_DELAY", 0.3)
    for name in (workers.PLACE, "GLOO_SOCKET_IFNAME"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    before = signal.getsignal(signal.SIGTERM)
    yield tmp_path
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def work(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Work:
    """Be the worker of a rank whose work ends in this way; returns its exit code."""

    def run(end: BaseException | Outcome, rank: int) -> int:
        def ending(job: dict) -> Outcome:
            assert sys.argv == ["embedrun", "train", "gpu.processes=3"]  # what environment.json records
            assert os.environ[workers.PLACE] == str(folder)
            if isinstance(end, Outcome):
                return end
            raise end

        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setattr(sys, "argv", ["worker.py", str(folder)])
        monkeypatch.setattr(child, "_work", ending)
        return child.main()

    return run


def said(folder: Path, rank: int) -> dict:
    return json.loads((folder / f"{rank}.json").read_text())


def test_the_outcome_of_the_first_process_reaches_the_parent(folder: Path, work: Work):
    assert work(Outcome("run", {"name": "x", "value": 1.0}), 0) == 0
    assert said(folder, 0)["outcome"] == {
        "directory": "run", "main": {"name": "x", "value": 1.0}, "error": None, "code": 0,
    }  # fmt: skip
    assert not (folder / "0.log").exists()  # it speaks to the person


def test_a_failure_is_reported_with_its_code_and_traceback(folder: Path, work: Work):
    assert work(RunFailed("loss is nan", exit_code=4), 0) == 4
    report = said(folder, 0)
    assert (report["outcome"]["error"], report["outcome"]["code"]) == ("loss is nan", 4)
    assert report["traceback"].splitlines()[-1] == "embedrun.errors.RunFailed: loss is nan"
    assert report["lost"] is False


def test_who_only_misses_another_says_so(folder: Path, work: Work):
    assert work(LostContact("gone"), 1) == 1
    assert said(folder, 1)["lost"] is True


@pytest.mark.parametrize(("stop", "code"), [(KeyboardInterrupt(), 130), (Terminated(), 143)])
def test_a_stop_ends_the_first_process_with_its_code_and_the_others_with_none(
    stop: BaseException, code: int, folder: Path, work: Work
):
    assert work(stop, 1) == 0  # the launcher kills the others soon after one has failed
    assert work(stop, 0) == code
    assert said(folder, 0)["outcome"]["error"] == said(folder, 1)["outcome"]["error"] == "interrupted"


def test_others_that_failed_wait_for_the_word_of_the_first(folder: Path, work: Work):
    started = time.monotonic()
    work(RunFailed("loss is nan", exit_code=4), 1)
    assert time.monotonic() - started >= 0.3
    (folder / "0.json").write_text("{}")
    started = time.monotonic()
    work(RunFailed("loss is nan", exit_code=4), 1)
    assert time.monotonic() - started < 0.3


def test_after_its_work_a_worker_does_not_withstand_its_launcher(folder: Path, work: Work):
    signal.signal(signal.SIGTERM, lambda *_: None)
    work(Outcome(), 1)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


@pytest.mark.parametrize(("threads", "wanted"), [(None, "2"), (5, "5")])
def test_the_cores_are_shared_out(threads: int | None, wanted: str, monkeypatch: pytest.MonkeyPatch):
    job = {"argv": [], "folder": "f", "interface": "lo", "config": {"gpu": {**GPU, "threads": threads}}}
    for name in (workers.PLACE, "GLOO_SOCKET_IFNAME", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "")  # so that it is as before afterwards
        monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(child.os, "sched_getaffinity", lambda _: set(range(8)))
    child._environment(job)
    assert (os.environ["OMP_NUM_THREADS"], os.environ["GLOO_SOCKET_IFNAME"]) == (wanted, "lo")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    child._environment(job)
    assert os.environ["OMP_NUM_THREADS"] == "7"  # what the user says counts
