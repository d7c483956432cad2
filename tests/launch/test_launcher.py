"""Jobs through each launcher: what reaches them, what breaks them, and what a signal does."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml
from job_scripts import SESSION, be_script, saving

from embedrun.config import safety
from embedrun.config.request import Request
from embedrun.files import write_atomically
from embedrun.launch import launcher
from embedrun.launch.job import Job
from embedrun.launch.launcher import OUTCOME, STOP, Work
from embedrun.runs.directory import Outcome

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")

JOINT = ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2")
PACKAGE = Path(launcher.__file__).parents[2]


def job_of(number: int, **options: Any) -> Job:
    return Job("train", {"seed": number, "gpu": {"device": "cpu"}}, **options)


@pytest.fixture
def here(monkeypatch) -> None:
    """Workers import the package from where this test has it."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(PACKAGE), str(Path(__file__).parent)]))


def work(folder: Path, **options: Any) -> Work:
    """Of one job, number 0, whose file is there."""
    folder.mkdir(exist_ok=True)
    write_atomically(folder / "0.json", json.dumps(asdict(job_of(1))))
    return Work(**{"folder": str(folder), "total": 1, "logs": None, "where": ".", **options})


def test_a_launcher_that_is_not_installed_names_the_extra(refused, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        safety, "find_spec", lambda name: None if name.startswith("hydra_plugins") else find(name)
    )
    for name, extra, flag in (("joblib", "sweep", ()), ("submitit_slurm", "slurm", ("-m",))):
        said = refused("train", *flag, "+experiment=quickstart", f"hydra/launcher={name}")
        assert f"hydra/launcher={name}: its plugin is not installed; pip install '.[{extra}]'" in said


def test_each_job_gets_its_own_file_and_outcomes_come_back_in_order(monkeypatch):
    def run(job, file, beside):
        assert beside is None
        return Outcome(f"outputs/{job.config['seed']}", code=0 if job.config["seed"] != 4 else 4)

    monkeypatch.setattr(launcher, "run_in_child", run)
    jobs = [job_of(number) for number in (3, 4, 5)]
    outcomes = launcher.launch(Request("train", ()), jobs, Path("a b'c"))
    assert [outcome.directory for outcome in outcomes] == ["outputs/3", "outputs/4", "outputs/5"]
    assert [outcome.code for outcome in outcomes] == [0, 4, 0]
    assert list(Path("a b'c").iterdir()) == []


@pytest.mark.parametrize(
    ("options", "device", "cuda", "jobs"),
    [((), "auto", True, "1"), ((), "cpu", True, None), (("hydra.launcher.n_jobs=3",), "cuda", True, "3")],
)
def test_joblib_runs_one_job_at_a_time_on_a_gpu_unless_told(monkeypatch, options, device, cuda, jobs):
    from hydra.core.plugins import Plugins

    monkeypatch.setattr("torch.cuda.is_available", lambda: cuda)
    taken = []

    def sweeper(*, config, **_):
        taken.append(config.hydra.launcher.n_jobs)
        raise OSError("seen")

    monkeypatch.setattr(Plugins.instance(), "instantiate_sweeper", sweeper)
    job = Job("train", {"gpu": {"device": device}})
    request = Request("train", ("hydra/launcher=joblib", *options))
    (outcome,) = launcher.launch(request, [job], Path("a"))
    assert taken == [-1 if jobs is None else int(jobs)]
    assert outcome.error == "the launcher has lost it (seen)"


def test_a_job_beside_others_ends_by_the_file_and_prints_into_its_log(monkeypatch, tmp_path):
    be_script(monkeypatch, saving(f"echo began; {SESSION}; touch {tmp_path / STOP}"))
    Path("user").mkdir()
    work(tmp_path, logs=str(tmp_path / "logs"), where="user")({"job": 0})
    outcome = json.loads((tmp_path / OUTCOME.format(0)).read_text())
    assert outcome["error"] == "the job's process ended without a result (exit code 143)"
    assert (tmp_path / "logs" / "0.log").read_text() == "began\n"
    assert Path("user/saved").exists()


# One job took a minute; one that runs beside counts half.
@pytest.mark.parametrize(("beside", "left"), [(False, 2), (True, 1)])
def test_the_start_of_a_job_says_how_long_the_rest_takes(monkeypatch, tmp_path, capsys, beside, left):
    monkeypatch.setattr(launcher, "run_in_child", lambda job, file, beside: Outcome())
    if beside:
        (tmp_path / "2.begun").touch()
    (tmp_path / "1.begun").touch()
    minute_ago = time.time() - 60
    os.utime(tmp_path / "1.begun", (minute_ago, minute_ago))
    (tmp_path / OUTCOME.format(1)).write_text("{}")
    work(tmp_path, total=3)({"job": 0})
    assert f"1 of 3: ; about {left} min " in capsys.readouterr().err


def process_of(lr: float) -> int | None:
    """The process of the run with a learning rate, once it trains."""
    for folder in Path("outputs/quickstart").glob("2*"):
        try:
            status = json.loads((folder / "status.json").read_text(encoding="utf-8"))
            config = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue  # it has only begun
        if status.get("state") == "running" and config["training"]["lr"] == lr:
            return int(status["pid"])
    return None


@pytest.mark.slow
@pytest.mark.parametrize(
    "launcher",
    [
        (),
        JOINT,
        ("hydra/launcher=submitit_local",),
        ("hydra/launcher=ray", "+hydra.launcher.ray.init.num_cpus=2"),
    ],
    ids=["basic", "joblib", "submitit", "ray"],
)
def test_of_six_jobs_one_crashes_and_one_is_killed_and_the_next_time_does_those_two(
    embedrun, here, options, launcher
):
    small = [one for one in options if "max_steps" not in one]
    rates = "training.lr=1e-3,2e-3,3e-3,4e-3,5e-3,1e38"
    sweep = ["train", "-m", *small, "training.epochs=200", "training.max_steps=300", rates, *launcher]
    process = subprocess.Popen(
        [sys.executable, "-m", "embedrun", *sweep], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while (child := process_of(4e-3)) is None:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    out, err = process.communicate(timeout=900)
    assert process.returncode == 1, err
    assert "4 finished, 2 failed" in out, out + err
    assert "job 3: the job's process ended without a result (killed by signal 9)" in out
    assert "job 5: loss is nan" in out
    ended = embedrun(*sweep)
    assert ended.code == 1, ended.err
    assert "1 finished, 4 finished before, 1 failed" in ended.out
    assert "job 5: loss is nan" in ended.out
    assert not list(Path("outputs").rglob(".jobs*"))
