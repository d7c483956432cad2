"""A multirun: its jobs and their places, what earlier attempts have left, what is refused and reported."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from made_jobs import KILLED, MadeJobs, record

from embedrun.config.compose import composed
from embedrun.config.request import Request
from embedrun.experiment.data import Fingerprints, digest
from embedrun.files import only_writer
from embedrun.launch import launcher, sweep
from embedrun.launch.job import before
from embedrun.runs.directory import Outcome, Run

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")

QUICK = "+experiment=quickstart"
SWEEP = ("train", "-m", QUICK, "dataset.train_rows=20")
THREE = (*SWEEP, "seed=3,4,5")


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


def test_a_score_of_other_weights_and_an_unfinished_run_on_other_rows_do_not_count(config, model):
    run = begun(config, {"model m": digest(model)})
    run.end("finished")
    assert before("evaluate", config, None, Fingerprints()).finished == run.path
    (model / "model.safetensors").write_text("trained further")
    begun(config, {"toy/test": "of other rows"}).release()
    earlier = before("evaluate", config, None, Fingerprints())
    assert (earlier.finished, earlier.unfinished) == (None, None)
    latest = begun(config, {})
    latest.release()
    assert before("evaluate", config, None, Fingerprints()).unfinished == latest.path


def test_a_named_directory_that_a_killed_run_left_makes_room_unless_other_files_are_in_it(config):
    run = Run.create(config["name"], config, directory="named")
    run.release()
    (run.path / "notes.txt").write_text("mine")
    fault = before("evaluate", config, "named", Fingerprints()).fault
    assert fault == "named exists and is no run of this configuration; name another directory"
    (run.path / "notes.txt").unlink()
    assert before("evaluate", config, "named", Fingerprints()).fault is None
    assert not run.path.exists()


@pytest.fixture
def jobs(monkeypatch) -> MadeJobs:
    made = MadeJobs(lambda config: {"toy_test/spearman": 10.0 * config["seed"], "toy_dev/spearman": 1.0})
    monkeypatch.setattr(launcher, "run_in_child", made)
    return made


@pytest.fixture
def started(monkeypatch) -> list[dict[str, Any]]:
    """Record what each job would do instead of starting a process; a job whose seed is 2 fails."""
    jobs = []

    def run(job, *_):
        jobs.append(vars(job))
        if job.config.get("seed") == 2:
            return Outcome(error="no luck", code=4)
        seed = job.config.get("seed", 0)
        return Outcome(f"outputs/{seed}", {"name": "toy_test/spearman", "value": float(seed)})

    monkeypatch.setattr(launcher, "run_in_child", run)
    return jobs


def states(folder: Path) -> list[str]:
    return [job["state"] for job in record(folder)["jobs"]]


def newest() -> Path:
    return max(Path("outputs/quickstart/sweeps").iterdir())


def test_what_has_finished_is_not_run_again_and_what_was_killed_resumes(embedrun, jobs):
    jobs.killed = lambda config: config["seed"] == 4
    ended = embedrun(*THREE)
    assert ended.code == 1
    assert f"job 1: {KILLED}" in ended.out
    statuses = Path("outputs/quickstart").glob("2*/status.json")
    (began,) = [path.parent for path in statuses if "running" in path.read_text()]
    assert str(began) in ended.out
    jobs.killed = lambda _: False
    ended = embedrun(*THREE)
    assert ended.code == 0
    assert (jobs.seeds, jobs.started[3].resumed) == ([3, 4, 5, 4], str(began))
    assert "1 finished, 2 finished before, 0 failed" in ended.out
    assert embedrun(*SWEEP, "seed=5,5", "--again").code == 0  # whatever it was started by
    assert jobs.seeds == [3, 4, 5, 4, 5, 5]


def test_what_has_finished_with_other_code_or_rows_stays_and_is_run_again_with_the_reason(embedrun, jobs):
    jobs.data = {"code loss angle": "of then"}
    assert embedrun(*SWEEP, "seed=3").code == 0
    old = sorted(Path("outputs/quickstart").glob("*/results.json"))
    jobs.data = {"toy/train": "of other rows"}
    ended = embedrun(*SWEEP, "seed=3")
    assert "job 0 is run again: the code of angle has changed since outputs/quickstart/" in ended.err
    assert embedrun(*SWEEP, "seed=3").code == 0
    assert jobs.seeds == [3, 3, 3]
    assert {*old} < {*Path("outputs/quickstart").glob("*/results.json")}


def test_a_run_is_resumed_by_one_job_and_not_while_another_process_writes_it(embedrun, jobs):
    jobs.killed = lambda _: True
    assert embedrun(*SWEEP, "seed=3").code == 1
    jobs.killed = lambda _: False
    (began,) = Path("outputs/quickstart").glob("2*")
    held = Run.claim(began)
    ended = embedrun(*SWEEP, "seed=3,4")
    held.release()
    assert (ended.code, "in use by another process" in ended.out) == (1, True)
    assert embedrun(*SWEEP, "seed=3,3").code == 0
    assert [job.resumed is None for job in jobs.started] == [True, True, False, True]


def test_a_sweep_directory_goes_on_with_the_same_jobs_alone(embedrun, jobs):
    place = "hydra.sweep.dir=a"
    jobs.killed = lambda config: config["seed"] == 4
    assert embedrun(*THREE, place).code == 1
    jobs.killed = lambda _: False
    for path in Path("a/0").iterdir():
        path.rmdir() if path.is_dir() else path.unlink()
    (Path("a/0") / ".lock").touch()  # its run was killed at once
    assert embedrun(*THREE, place).code == 0
    assert jobs.seeds == [3, 4, 5, 3, 4]
    assert states(Path("a")) == ["finished", "finished", "finished before"]
    ended = embedrun(*SWEEP, "seed=3,4", place)
    assert ended.code == 2
    assert "hydra.sweep.dir: a exists and is not of these jobs; name one that does not" in ended.err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGUSR1, 143)])
def test_after_a_signal_no_other_job_is_started_and_there_is_a_summary(
    embedrun, jobs, monkeypatch, number, code
):
    def run(job, *rest):
        if job.config["seed"] == 4:
            os.kill(os.getpid(), number)
            time.sleep(10)
        return jobs(job, *rest)

    monkeypatch.setattr(launcher, "run_in_child", run)
    ended = embedrun(*THREE)
    assert ended.code == code
    assert states(newest()) == ["finished", "interrupted", "not started"]
    assert "1 finished, 0 failed, 1 interrupted, 1 not started" in ended.out
    assert "runs what is left" in ended.err


def test_each_combination_is_a_job_with_its_own_configuration(embedrun, started, monkeypatch):
    typed = ["embedrun", "train", "-m", QUICK, "seed=3,4", "training.lr=0.1,0.2"]
    monkeypatch.setattr(sys, "argv", typed)
    ended = embedrun(*typed[1:])
    assert ended.code == 0
    configs = [job["config"] for job in started]
    found = [(config["seed"], config["training"]["lr"]) for config in configs]
    assert found == [(3, 0.1), (3, 0.2), (4, 0.1), (4, 0.2)]
    assert started[3]["overrides"] == [QUICK, "seed=4", "training.lr=0.2"]
    assert (started[3]["choices"]["experiment"], started[3]["argv"]) == ("quickstart", typed)
    assert "4 finished, 0 failed" in ended.out
    assert "toy_test/spearman 3.00  outputs/3" in ended.out
    assert ended.out.splitlines()[-2] == "report  embedrun report outputs"
    assert ended.out.splitlines()[-1].startswith("next    embedrun runs --diff outputs/")


def test_a_failed_or_faulty_job_is_listed_and_the_others_run(embedrun, started):
    sets = "dataset=toy,pairs,toy"
    ended = embedrun("train", "-m", QUICK, "seed=1,2", sets, "dataset.train_rows=48", "evaluation=none")
    assert ended.code == 1
    assert [job["config"]["dataset"]["name"] for job in started] == ["toy"] * 4
    assert "job 1 (seed=1 dataset=pairs) will not run" in ended.err
    assert "dataset.train_rows: Pairs has no such option" in ended.err
    assert "\njob 3: no luck\n" in ended.out
    assert "2 finished, 4 failed" in ended.out
    assert "Traceback" not in ended.out + ended.err


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("train", QUICK, "--again"), "--again: is for several jobs; add -m"),
        (("train", "-m", QUICK, "training.lr=-1,-2"), "training.lr: must be above 0, got -2.0"),
        (("train", "-m", QUICK, "seed=3,4", "hydra.run.dir=a"), "with -m, give hydra.sweep.dir"),
        (
            ("train", "-m", QUICK, "seed=3,4", "hydra.sweep.subdir=same"),
            "same; use ${hydra:job.num} in it",
        ),
    ],
)
def test_what_a_multirun_cannot_do_is_refused(refused, typed, said):
    assert said in refused(*typed)


def test_a_sweep_directory_of_others_or_in_use_is_refused(refused, embedrun, started):
    Path("a").mkdir()
    Path("a/thesis.tex").touch()
    named = ("train", "-m", QUICK, "seed=3,4", "hydra.sweep.dir=a")
    assert "hydra.sweep.dir: a exists and is not of these jobs" in refused(*named)
    Path("a/thesis.tex").unlink()
    with only_writer(Path("a")):
        ended = embedrun(*named)
    assert (ended.code, "a: in use by another process" in ended.err) == (8, True)
    assert embedrun(*named).code == 0


@pytest.mark.slow
def test_jobs_are_processes_and_one_that_fails_ends_only_itself(embedrun, counted, monkeypatch, options):
    monkeypatch.setenv("PYTHONPATH", str(Path(sweep.__file__).parents[2]))
    small = ("training.max_steps=2", "training.batch_size=16", *options[:4])
    ended = embedrun("train", "-m", *small, "backbone=tiny,minilm,tiny", "hydra.sweep.dir=runs")
    assert ended.code == 1
    assert "2 finished, 1 failed" in ended.out
    assert "model 'sentence-transformers/all-MiniLM-L6-v2': no run or folder here has this name" in ended.out
    results = [json.loads(Path(f"runs/{number}/results.json").read_text()) for number in (0, 2)]
    assert results[0]["scores"] == results[1]["scores"]
    # No plots: what has finished is one group, with nothing beside it.
    files = ["0", "2", "summary.csv", "summary.md", "sweep.json"]
    assert sorted(path.name for path in Path("runs").iterdir()) == files
