"""Jobs through each launcher: what reaches them, what breaks them, and what a signal does."""

import gc
import importlib.util
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from hydra.core.utils import JobReturn
from job_scripts import SESSION, be_script, saving

from embedrun import signals
from embedrun.config import safety
from embedrun.config.request import Request
from embedrun.files import write_atomically
from embedrun.launch import launcher
from embedrun.launch.job import Job
from embedrun.launch.launcher import STOP, Work
from embedrun.runs.directory import Outcome

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")

JOINT = ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2")
PACKAGE = Path(launcher.__file__).parents[2]


def job_of(number: int, **options: Any) -> Job:
    return Job("train", {"seed": number, "gpu": {"device": "cpu"}}, launched=[f"seed={number}"], **options)


@pytest.fixture
def here(monkeypatch) -> None:
    """Workers import the package from where this test has it."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(PACKAGE), str(Path(__file__).parent)]))


def test_a_launcher_that_is_not_installed_names_the_extra(refused, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        safety, "find_spec", lambda name: None if name.startswith("hydra_plugins") else find(name)
    )
    for name, extra in (("joblib", "sweep"), ("submitit_local", "slurm"), ("submitit_slurm", "slurm")):
        for flag in ((), ("-m",)):
            said = refused("train", *flag, "+experiment=quickstart", f"hydra/launcher={name}")
            assert f"hydra/launcher={name}: its plugin is not installed; pip install '.[{extra}]'" in said


def test_what_a_launcher_pickles_needs_no_open_file():
    work = Work("/here/.jobs", 3, None, "/here", (0, 2))
    assert pickle.loads(pickle.dumps(work)) == work


def test_each_job_gets_its_own_file_and_outcomes_come_back_in_order(monkeypatch):
    def run(own, outcome, beside):
        assert beside is None
        return (
            Outcome(f"outputs/{own.config['seed']}")
            if own.config["seed"] != 4
            else Outcome(error="no", code=4)
        )

    monkeypatch.setattr(launcher, "run_in_child", run)
    outcomes = launcher.launch(Request("train", ()), [job_of(3), job_of(4), job_of(5)], Path("a b'c"))
    assert [one.directory for one in outcomes] == ["outputs/3", None, "outputs/5"]
    assert (outcomes[1].error, outcomes[1].code) == ("no", 4)
    assert list(Path("a b'c").iterdir()) == []


@pytest.mark.slow
def test_what_hydra_makes_of_a_job_is_not_held_until_all_have_ended(monkeypatch):
    held = []

    def run(*_: object) -> Outcome:
        gc.collect()
        held.append(sum(isinstance(one, JobReturn) for one in gc.get_objects()))
        return Outcome("outputs/1")

    monkeypatch.setattr(launcher, "run_in_child", run)
    launcher.launch(Request("train", ()), [job_of(number) for number in range(3)], Path("jobs"))
    assert held == [held[0]] * 3


@pytest.mark.parametrize(
    ("options", "devices", "cuda", "jobs"),
    [((), ["auto"], True, 1), ((), ["auto"], False, -1), ((), ["cpu"], True, -1), ((), ["cuda"], False, 1),
     (("hydra.launcher.n_jobs=3",), ["auto"], True, 3)],
)  # fmt: skip
def test_joblib_runs_one_job_at_a_time_on_a_gpu_unless_told(monkeypatch, options, devices, cuda, jobs):
    monkeypatch.setattr("torch.cuda.is_available", lambda: cuda)
    request = Request("train", ("hydra/launcher=joblib", *options))
    configs = [{"gpu": {"device": device}} for device in devices]
    with launcher.launcher(request, Path("a").resolve(), print, configs) as start:
        assert start.joblib["n_jobs"] == jobs


def test_a_job_that_is_told_to_stop_before_it_starts_does_not(monkeypatch):
    monkeypatch.setattr(launcher, "run_in_child", lambda *_: pytest.fail("started"))
    folder = Path("jobs")
    folder.mkdir()
    (folder / STOP).touch()
    assert Work(str(folder), 1, None, ".", (0,))._run(0) == Outcome(error="not started", code=1)


def test_a_worker_whose_launcher_has_died_starts_nothing(monkeypatch):
    monkeypatch.setattr(launcher, "run_in_child", lambda *_: pytest.fail("started"))
    Path("jobs").mkdir()
    dead = os.getpid() + 1
    assert Work("jobs", 1, None, ".", (0,), parent=dead)._run(0) == Outcome(error="not started", code=1)


def test_a_job_that_its_cluster_has_lost_leaves_the_others_to_be_waited_for():
    from submitit import Job

    waited = []

    def job(found: tuple[str, object]) -> Any:
        def wait() -> None:
            waited.append(found[1])

        return SimpleNamespace(
            wait=wait, _sub_jobs=[], exception=lambda: OSError("gone"), _get_outcome_and_result=lambda: found
        )

    before = Job.results
    with pytest.raises(OSError, match="gone"), launcher.patient():
        assert [Job.results(job(one)) for one in (("error", 0), ("success", 1))] == [[None], [1]]
    assert waited == [0, 1]
    assert Job.results is before


def test_a_job_beside_others_ends_by_the_file_and_prints_into_its_log(monkeypatch, tmp_path):
    be_script(monkeypatch, saving(f"echo began; {SESSION}; touch {tmp_path / STOP}"))
    write_atomically(launcher.job_file(tmp_path, 0), json.dumps(asdict(job_of(1))))
    Path("user").mkdir()
    outcome = Work(str(tmp_path), 1, str(tmp_path / "logs"), "user", (0,))._run(0)
    assert outcome.error == "the job's process ended without a result (exit code 143)"
    assert (tmp_path / "logs" / "0.log").read_text() == "began\n"
    assert Path("user/saved").exists()
    assert int(Path("user/session").read_text()) != os.getsid(0)  # it hears no key of the terminal


def test_what_a_dead_launcher_has_lost_is_said(monkeypatch):
    class Broken:
        def launch(self, *_: object, **__: object) -> None:
            raise OSError("no such partition")

    class Opened:
        def __enter__(self) -> Broken:
            return Broken()

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(launcher, "launcher", lambda *_: Opened())
    (outcome,) = launcher.launch(Request("train", ()), [job_of(1)], Path("a"))
    assert outcome.error == "the launcher has lost it (no such partition)"


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
    "launcher", [(), JOINT, ("hydra/launcher=submitit_local",)], ids=["basic", "joblib", "submitit"]
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
        time.sleep(0.05)
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
    assert not list(Path("outputs").rglob(".jobs"))


@pytest.mark.parametrize("nohup", [False, True])
def test_a_closed_terminal_ends_no_worker_of_joblib_and_the_jobs_that_it_starts_hear_it(monkeypatch, nohup):
    monkeypatch.setattr(signals, "ignore_broken_pipes", lambda: None)
    numbers = (signal.SIGINT, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN if nohup else signal.SIG_DFL)
        signals.deaf()
        for number in numbers:
            signal.raise_signal(number)
        # Python's handlers end with a process, and one that it starts has the default again.
        assert (signal.getsignal(signal.SIGHUP) == signal.SIG_IGN) is nohup
    finally:
        for number, former in before.items():
            signal.signal(number, former)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGHUP, 143)])
def test_ctrl_c_and_a_closed_terminal_let_running_jobs_save_and_start_no_other(here, options, number, code):
    small = [one for one in options if "max_steps" not in one]
    sweep = ["train", "-m", *small, "training.epochs=99999", "training.lr=1e-3,2e-3,3e-3", *JOINT]
    process = subprocess.Popen(
        [sys.executable, "-m", "embedrun", *sweep],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while process_of(1e-3) is None or process_of(2e-3) is None:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    os.killpg(process.pid, number)  # as a terminal does
    out, err = process.communicate(timeout=300)
    assert process.returncode == code, err
    assert "0 finished, 0 failed, 2 interrupted, 1 not started" in out
    states = [json.loads(file.read_text())["state"] for file in Path("outputs").glob("*/2*/status.json")]
    assert states == ["interrupted", "interrupted"]
