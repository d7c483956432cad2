import json
import os
import signal
from pathlib import Path

import pytest

from embedrun.errors import RunFailed, Terminated
from embedrun.experiment.outcome import next_steps, open_run_directory
from embedrun.runs.directory import Run

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")


def make() -> Run:
    return Run.create("toy", {"seed": 1}, directory="run")


def status() -> dict:
    with open("run/status.json", encoding="utf-8") as file:
        return json.load(file)


def log() -> str:
    with open("run/run.log", encoding="utf-8") as file:
        return file.read()


def test_a_block_that_ends_is_a_finished_run():
    with open_run_directory(make) as run:
        assert run.path.is_dir()
    assert (status()["state"], status()["error"]) == ("finished", None)


def test_a_fault_is_a_failed_run_with_its_message_and_the_traceback_in_the_log():
    with pytest.raises(RunFailed), open_run_directory(make):
        raise RunFailed("loss is nan at step 3", exit_code=4)
    assert (status()["state"], status()["error"]) == ("failed", "loss is nan at step 3")
    assert "Traceback" in log()
    assert "loss is nan at step 3" in log()


def test_an_unexpected_failure_says_where_its_traceback_is():
    said = r"unexpected failure: KeyError: 'x'; the traceback is in .*run\.log"
    with pytest.raises(RunFailed, match=said), open_run_directory(make):
        raise KeyError("x")
    assert "Traceback (most recent call last)" in log()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_that_asks_for_an_end_leaves_an_interrupted_run(number):
    def ask() -> None:
        os.kill(os.getpid(), number)
        for _ in range(100):
            pass
        pytest.fail("went on")

    with pytest.raises(Terminated), open_run_directory(make):
        ask()
    assert status()["state"] == "interrupted"


def begun() -> Run:
    run = make()
    run.start({"seed": 1}, [], {})
    return run


HINT = "embedrun resume run continues from what is done"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (KeyboardInterrupt(), True),
        (OSError(28, "No space left on device"), True),
        (RuntimeError("surprise"), True),
        (RunFailed("loss is nan", exit_code=4), False),  # it would be so again
        (RunFailed("full; resume with 'embedrun resume run'", exit_code=5), False),  # said already
    ],
)
def test_a_run_that_can_go_on_says_how(fault, said, capsys):
    with pytest.raises(BaseException), open_run_directory(begun):  # noqa: B017, PT011 - each of its own
        raise fault
    assert (HINT in capsys.readouterr().err) is said


def a_run(name: str, *folders: str, state: str = "running", config: str = "{}") -> Path:
    folder = Path("outputs/toy", name)
    for one in ("", *folders):
        (folder / one).mkdir(parents=True)
    (folder / "status.json").write_text(json.dumps({"state": state, "ended": name}))
    (folder / "config.yaml").write_text(config)
    return folder


def test_a_finished_run_ends_with_model_page_and_what_to_type_next(capsys):
    folder = a_run("b", "model")
    (folder / "report.html").touch()
    assert next_steps(folder) == [
        "model   outputs/toy/b/model",
        f"report  file://{Path.cwd()}/outputs/toy/b/report.html",
        "next    embedrun export outputs/toy/b my-model",
    ]
    with open_run_directory(make):
        pass
    assert capsys.readouterr().out.splitlines()[0] == "model   -"
