"""One job or several: their places, what is refused, what is reported."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from embedrun.config.request import Request
from embedrun.errors import ConfigError
from embedrun.files import only_writer
from embedrun.launch import launcher, sweep
from embedrun.launch.start import start
from embedrun.launch.sweep import new_folder
from embedrun.runs.directory import Outcome

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")

QUICK = "+experiment=quickstart"


@pytest.fixture
def jobs(monkeypatch):
    """Record what each job would do instead of starting a process; a job whose seed is 2 fails."""
    started = []

    def run(job, *_):
        seed = job.config.get("seed", 0)
        started.append(vars(job))
        if seed == 2:
            return Outcome(error="no luck", code=4)
        return Outcome(f"outputs/{seed}", {"name": "toy_test/spearman", "value": float(seed)})

    monkeypatch.setattr(launcher, "run_in_child", run)
    return started


def rows(summary: str) -> list[list[str]]:
    """The cells of the summary table, without its heading."""
    lines = summary.strip().splitlines()
    return [line.split("  ") for line in lines[2 : lines.index("")]]


@pytest.mark.parametrize("sign", ["", "+", "++"])
def test_each_combination_is_a_job_with_its_own_configuration(embedrun, jobs, sign):
    ended = embedrun("train", "-m", f"{sign}experiment=quickstart", "seed=3,4", "training.lr=0.1,0.2")
    assert ended.code == 0
    found = [(job["config"]["seed"], job["config"]["training"]["lr"]) for job in jobs]
    assert found == [(3, 0.1), (3, 0.2), (4, 0.1), (4, 0.2)]
    assert {(job["config"]["name"], job["command"], job["directory"]) for job in jobs} == {
        ("quickstart", "train", None)
    }
    assert jobs[3]["overrides"] == [QUICK, "seed=4", "training.lr=0.2"]
    assert {job["choices"]["experiment"] for job in jobs} == {"quickstart"}
    assert "4 finished, 0 failed" in ended.out
    assert "toy_test/spearman 3.00  outputs/3" in ended.out
    assert ended.out.splitlines()[-2] == "report  embedrun report outputs"
    assert ended.out.splitlines()[-1].startswith("next    embedrun runs --diff outputs/")


def test_a_failed_job_leaves_the_others_running_and_is_listed(embedrun, jobs):
    ended = embedrun("train", "-m", QUICK, "seed=1,2,3")
    assert ended.code == 1
    assert [job["config"]["seed"] for job in jobs] == [1, 2, 3]
    states = [" ".join(cell for cell in row if cell.strip()) for row in rows(ended.out)]
    assert states[1].split() == ["1", "2", "failed", "-", "-", "-"]
    assert "\njob 1: no luck\n" in ended.out
    assert "finished" in states[0]
    assert "finished" in states[2]
    assert "2 finished, 1 failed" in ended.out
    assert "Traceback" not in ended.out + ended.err


def test_a_job_whose_configuration_is_wrong_is_listed_and_the_others_run(embedrun, jobs):
    ended = embedrun("train", "-m", QUICK, "seed=1", "training.lr=0.1,-1,0.3")
    assert ended.code == 1
    assert [job["config"]["training"]["lr"] for job in jobs] == [0.1, 0.3]
    assert "job 1" in ended.err
    assert "training.lr: must be above 0, got -1" in ended.err
    assert "2 finished, 1 failed" in ended.out


def test_a_key_that_one_job_lacks_stops_only_that_job(embedrun, jobs):
    sets = "dataset=toy,pairs,toy"
    ended = embedrun("train", "-m", QUICK, "seed=1", sets, "dataset.train_rows=48", "evaluation=none")
    assert ended.code == 1
    assert [job["config"]["dataset"]["name"] for job in jobs] == ["toy", "toy"]
    assert "dataset.train_rows: Pairs has no such option" in ended.err
    assert "dataset.path: no value given" in ended.err


def test_a_job_records_the_command_that_the_user_typed(embedrun, monkeypatch):
    seen = []
    monkeypatch.setattr(launcher, "run_in_child", lambda *_: seen.append(list(sys.argv)) or Outcome("run"))
    monkeypatch.setattr(sys, "argv", typed := ["embedrun", "train", "-m", QUICK, "seed=3"])
    assert embedrun(*typed[1:]).code == 0
    assert seen == [typed]
    assert sys.argv == typed


def test_again_is_for_a_multirun(refused):
    assert "--again: is for several jobs; add -m" in refused("train", QUICK, "--again")


def test_if_no_job_can_run_none_is_started(refused):
    said = refused("train", "-m", QUICK, "training.lr=-1,-2")
    assert "training.lr: must be above 0, got -1.0" in said
    assert "training.lr: must be above 0, got -2.0" in said


def test_a_sweep_preset_needs_no_flag(embedrun, jobs, own):
    hydra = "hydra:\n  mode: MULTIRUN\n  sweeper:\n    params:\n      seed: 3,4\n"
    folder = own("experiment/seeds.yaml", f"# @package _global_\ndefaults: [quickstart]\n{hydra}")
    assert embedrun("train", "experiment=seeds", "--config-dir", folder).code == 0
    assert [job["config"]["seed"] for job in jobs] == [3, 4]


def test_evaluate_and_annotate_have_multiruns_too(embedrun, jobs):
    assert embedrun("evaluate", "-m", "model=a,b", "seed=3").code == 0
    assert [job["config"]["model"] for job in jobs] == ["a", "b"]
    assert embedrun("annotate", "-m", "teachers=[{name: x}]", "output=c,d").code == 0
    assert [job["command"] for job in jobs] == ["evaluate", "evaluate", "annotate", "annotate"]
    assert [path.name for path in Path("outputs").iterdir()] == ["evaluate"]  # annotate leaves no summary


def test_a_command_of_one_run_has_no_multirun_however_it_is_asked_for():
    with pytest.raises(ConfigError, match="embedrun collect: one at a time; leave out -m"):
        start(Request("collect", ("output=x",), multirun=True), None)


def test_the_directory_of_one_run_is_not_for_several(refused):
    assert "with -m, give hydra.sweep.dir" in refused("train", "-m", QUICK, "seed=3,4", "hydra.run.dir=a")


def test_a_sweep_directory_of_the_users_is_used_as_it_is(embedrun, jobs):
    assert embedrun("train", "-m", QUICK, "seed=3,4", "hydra.sweep.dir=a/b").code == 0
    assert [job["directory"] for job in jobs] == ["a/b/0", "a/b/1"]
    subdir = "hydra.sweep.subdir=seed${seed}"
    assert embedrun("train", "-m", QUICK, "seed=3,4", "hydra.sweep.dir=a/c", subdir).code == 0
    assert [job["directory"] for job in jobs[2:]] == ["a/c/seed3", "a/c/seed4"]
    # Hydra leaves nothing of its own; a run makes its directory itself.
    own = {"sweep.json", "summary.md", "summary.csv", "plots"}
    assert {path.name for path in Path("a/b").iterdir()} <= own


@pytest.mark.parametrize(
    "given", [("hydra.sweep.dir=a", "hydra.sweep.subdir=same"), ("hydra.sweep.subdir=same",)]
)
def test_two_jobs_may_not_share_a_directory(refused, given):
    said = refused("train", "-m", QUICK, "seed=3,4", *given)
    assert "hydra.sweep.subdir: several jobs would share" in said
    assert "same; use ${hydra:job.num} in it" in said


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGUSR1, 143)])
def test_a_signal_starts_no_other_job(embedrun, monkeypatch, number, code):
    started = []

    def run(*_):
        started.append(1)
        os.kill(os.getpid(), number)
        time.sleep(10)

    monkeypatch.setattr(launcher, "run_in_child", run)
    assert embedrun("train", "-m", QUICK, "seed=3,4").code == code
    assert len(started) == 1


def test_a_sweep_directory_that_exists_is_taken_up_where_runs_go_on_by_themselves(embedrun, jobs):
    Path("a/0").mkdir(parents=True)
    again = ("train", "-m", QUICK, "seed=3,4", "hydra.sweep.dir=a")
    assert embedrun(*again, "training.resume=auto").code == 0
    assert [job["directory"] for job in jobs] == ["a/0", "a/1"]


@pytest.mark.slow
def test_jobs_are_processes_and_one_that_fails_ends_only_itself(embedrun, counted, monkeypatch, options):
    monkeypatch.setenv("PYTHONPATH", str(Path(sweep.__file__).parents[2]))
    small = ("training.max_steps=2", "training.batch_size=16", *options[:4])
    ended = embedrun("train", "-m", *small, "backbone=tiny,minilm,tiny", "hydra.sweep.dir=runs")
    assert ended.code == 1
    assert "2 finished, 1 failed" in ended.out
    assert "model 'sentence-transformers/all-MiniLM-L6-v2': not in the hub's cache" in ended.out
    results = [json.loads(Path(f"runs/{number}/results.json").read_text()) for number in (0, 2)]
    assert results[0]["scores"] == results[1]["scores"]
    # No plots: what has finished is one group, with nothing beside it.
    files = ["0", "2", "summary.csv", "summary.md", "sweep.json"]
    assert sorted(path.name for path in Path("runs").iterdir()) == files


def test_a_sweep_directory_of_others_or_in_use_is_refused(refused, embedrun, jobs):
    Path("a").mkdir()
    Path("a/thesis.tex").touch()
    named = ("train", "-m", QUICK, "seed=3,4", "hydra.sweep.dir=a")
    assert "hydra.sweep.dir: a exists and is not of these jobs" in refused(*named)
    Path("a/thesis.tex").unlink()
    with only_writer(Path("a")):
        ended = embedrun(*named)
    assert (ended.code, "a: in use by another process" in ended.err) == (8, True)
    assert embedrun(*named).code == 0


def test_each_multirun_has_a_folder_of_its_own():
    folders = [new_folder(Path("outputs"), "now") for _ in range(3)]
    assert [folder.name for folder in folders] == ["now", "now.2", "now.3"]
