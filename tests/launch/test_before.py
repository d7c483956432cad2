"""What earlier attempts have left, and what the same sweep does the next time.

Which earlier runs of a job count: those on the rows of now, with the models of now.
"""

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_jobs import KILLED, MadeJobs, record

from embedrun.config.compose import composed
from embedrun.config.request import Request
from embedrun.experiment.data import Fingerprints, digest
from embedrun.launch import launcher
from embedrun.launch.before import before
from embedrun.runs.directory import Run
from embedrun.runs.search import settled_for

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")

ROWS = {"toy/test": "of other rows"}


@pytest.fixture
def model() -> Path:
    """A folder that passes for a model."""
    folder = Path("m")
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_text("weights")
    (folder / "vocab.txt").write_text("[UNK]\nword\n")
    return folder


@pytest.fixture
def config(model: Path) -> dict[str, Any]:
    wanted = (f"model={model}", "evaluation=heldout", "dataset=toy", "dataset.test_rows=4")
    return composed(Request("evaluate", wanted)).config


def begun(config: dict[str, Any], data: dict[str, str], *, directory: str | None = None) -> Run:
    run = Run.create(config["name"], config, directory=directory)
    run.start(config, [], {"data": data})
    return run


def test_a_score_of_other_weights_does_not_count(config, model):
    run = begun(config, {"model m": digest(model)})
    run.end("finished")
    assert before("evaluate", config, None, Fingerprints()).finished == run.path
    (model / "model.safetensors").write_text("trained further")
    assert before("evaluate", config, None, Fingerprints()).finished is None


def test_a_run_that_has_not_noted_its_model_counts(config):
    run = begun(config, {})
    run.end("finished")
    assert before("evaluate", config, None, Fingerprints()).finished == run.path


def test_an_unfinished_run_on_other_rows_is_not_gone_on_with(config):
    begun(config, ROWS).release()
    assert before("evaluate", config, None, Fingerprints()).unfinished is None
    own = begun(config, {})
    own.release()
    assert before("evaluate", config, None, Fingerprints()).unfinished == own.path


def test_in_a_named_directory_what_has_changed_is_said(config):
    begun(config, ROWS | {"model m": "of another"}, directory="a").release()
    fault = before("evaluate", config, "a", Fingerprints()).fault
    changed = "the rows of toy/test have changed and the files of m have changed"
    assert fault == f"{changed} since a began; name another directory"


def test_a_named_directory_that_a_killed_run_left_makes_room_unless_other_files_are_in_it(config):
    run = Run.create(config["name"], config, directory="named")
    run.release()
    (run.path / "notes.txt").write_text("mine")
    fault = before("evaluate", config, "named", Fingerprints()).fault
    assert fault == "named holds files of no run; name another directory"
    (run.path / "notes.txt").unlink()
    assert before("evaluate", config, "named", Fingerprints()).fault is None
    assert not run.path.exists()


SWEEP = ("train", "-m", "+experiment=quickstart", "dataset.train_rows=20")
THREE = (*SWEEP, "seed=3,4,5")


@pytest.fixture
def jobs(monkeypatch) -> MadeJobs:
    made = MadeJobs(lambda config: {"toy_test/spearman": 10.0 * config["seed"], "toy_dev/spearman": 1.0})
    monkeypatch.setattr(launcher, "run_in_child", made)
    return made


def states(folder: Path) -> list[str]:
    return [job["state"] for job in record(folder)["jobs"]]


def newest() -> Path:
    return max(Path("outputs/quickstart/sweeps").iterdir())


def test_what_has_finished_is_listed_and_not_run_again(embedrun, jobs):
    assert embedrun(*THREE).code == 0
    ended = embedrun(*THREE)
    assert ended.code == 0
    assert jobs.seeds == [3, 4, 5]
    assert "toy_test/spearman 40.00" in ended.out
    assert "0 finished, 3 finished before, 0 failed" in ended.out
    assert embedrun(*SWEEP, "seed=5,6").code == 0  # by its configuration, whatever it was started by
    assert jobs.seeds == [3, 4, 5, 6]


def test_a_killed_job_is_listed_and_goes_on_the_next_time(embedrun, jobs):
    jobs.killed = lambda config: config["seed"] == 4
    ended = embedrun(*THREE)
    assert ended.code == 1
    assert f"job 1: {KILLED}" in ended.out
    (began,) = [path for path in Path("outputs/quickstart").glob("2*") if "running" in status(path)]
    assert str(began) in ended.out
    jobs.killed = lambda _: False
    ended = embedrun(*THREE)
    assert ended.code == 0
    assert jobs.seeds == [3, 4, 5, 4]
    assert jobs.started[3].resumed == str(began)
    assert "1 finished, 2 finished before, 0 failed" in ended.out


def status(path: Path) -> str:
    return (path / "status.json").read_text(encoding="utf-8")


def test_a_job_goes_on_with_the_model_that_it_was_found_by(embedrun, jobs, monkeypatch):
    first = Path("outputs/first/a")
    (first / "model").mkdir(parents=True)
    (first / "status.json").write_text('{"state": "finished", "ended": "2026-01-01"}')
    given = []

    def run(job, *rest):
        given.append(job.config["backbone"]["name"])
        return jobs(
            replace(job, config=settled_for(job.config, None)), *rest
        )  # as the job's own process does

    monkeypatch.setattr(launcher, "run_in_child", run)
    named = (*SWEEP, "seed=3", "backbone.name=run:first", "backbone.scratch=null")
    jobs.killed = lambda _: True
    assert embedrun(*named).code == 1
    jobs.killed = lambda _: False
    assert embedrun(*named).code == 0
    assert given == ["run:first", str(first.resolve())]


def test_what_has_finished_with_other_code_stays_and_is_run_again_with_the_reason(embedrun, jobs):
    jobs.data = {"code loss angle": "of then"}
    assert embedrun(*SWEEP, "seed=3,4").code == 0
    old = sorted(Path("outputs/quickstart").glob("*/results.json"))
    jobs.data = {}
    ended = embedrun(*SWEEP, "seed=3,4")
    assert "job 0 (seed=3) is run again: the code of angle has changed since outputs/quickstart/" in ended.err
    assert jobs.seeds == [3, 4, 3, 4]
    assert {*old} < {*Path("outputs/quickstart").glob("*/results.json")}


def test_again_runs_everything_anew(embedrun, jobs):
    assert embedrun(*THREE).code == 0
    assert embedrun(*THREE, "--again").code == 0
    assert jobs.seeds == [3, 4, 5, 3, 4, 5]


def test_a_run_on_other_rows_does_not_count(embedrun, jobs):
    jobs.data = {"toy/train": "of other rows"}
    assert embedrun(*SWEEP, "seed=3").code == 0
    jobs.data = {}
    assert embedrun(*SWEEP, "seed=3").code == 0
    assert embedrun(*SWEEP, "seed=3").code == 0
    assert jobs.seeds == [3, 3]


def test_two_jobs_of_one_configuration_do_not_go_on_with_one_run(embedrun, jobs):
    jobs.killed = lambda _: True
    assert embedrun(*SWEEP, "seed=3").code == 1
    jobs.killed = lambda _: False
    assert embedrun(*SWEEP, "seed=3,3").code == 0
    assert [job.resumed is None for job in jobs.started[1:]] == [False, True]


def test_a_run_that_another_process_is_at_is_left_alone(embedrun, jobs):
    jobs.killed = lambda _: True
    assert embedrun(*SWEEP, "seed=3,4").code == 1
    jobs.killed = lambda _: False
    held = Run.claim(Path(str(jobs_place(3))))
    ended = embedrun(*SWEEP, "seed=3,4")
    held.release()
    assert ended.code == 1
    assert jobs.seeds == [3, 4, 4]
    assert "in use by another process" in ended.out


def jobs_place(seed: int) -> Path:
    (found,) = [
        path
        for path in Path("outputs/quickstart").glob("2*")
        if f"\nseed: {seed}\n" in (path / "config.yaml").read_text()
    ]
    return found


def test_a_sweep_directory_goes_on_with_the_same_jobs_alone(embedrun, jobs):
    place = "hydra.sweep.dir=a"
    jobs.killed = lambda config: config["seed"] == 4
    assert embedrun(*THREE, place).code == 1
    jobs.killed = lambda _: False
    assert embedrun(*THREE, place).code == 0
    assert jobs.seeds == [3, 4, 5, 4]
    assert states(Path("a")) == ["finished before", "finished", "finished before"]
    ended = embedrun(*SWEEP, "seed=3,4", place)
    assert ended.code == 2
    assert "hydra.sweep.dir: a exists and is not of these jobs; name one that does not" in ended.err
    assert embedrun(*THREE, place, "--again").code == 2


def test_a_directory_whose_run_never_began_is_used(embedrun, jobs):
    assert embedrun(*SWEEP, "seed=3", "hydra.sweep.dir=a").code == 0
    for path in Path("a/0").iterdir():
        path.rmdir() if path.is_dir() else path.unlink()
    (Path("a/0") / ".lock").touch()  # killed at once
    assert embedrun(*SWEEP, "seed=3", "hydra.sweep.dir=a").code == 0
    assert jobs.seeds == [3, 3]
    assert (Path("a/0") / "results.json").is_file()


def test_a_foreign_directory_is_never_touched():
    folder = Path("a")
    folder.mkdir()
    (folder / "thesis.tex").touch()
    found = before("train", {"name": "x"}, "a", Fingerprints())
    assert "a exists and is not a run of this configuration" in (found.fault or "")
    assert (folder / "thesis.tex").exists()


def test_after_a_signal_there_is_a_summary_of_what_there_is(embedrun, jobs, monkeypatch):
    def run(job, *rest):
        if job.config["seed"] == 4:
            os.kill(os.getpid(), signal.SIGTERM)
        return jobs(job, *rest)

    monkeypatch.setattr(launcher, "run_in_child", run)
    ended = embedrun(*THREE)
    assert ended.code == 143
    assert states(newest()) == ["finished", "interrupted", "not started"]
    assert "1 finished, 0 failed, 1 interrupted, 1 not started" in ended.out
    assert "runs what is left" in ended.err
