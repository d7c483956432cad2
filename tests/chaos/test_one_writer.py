"""One process at a time writes into a run directory, and every run makes one of its own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import forked
import pytest
import same_run

pytestmark = pytest.mark.chaos
ROOT = Path(__file__).resolve().parents[2]
AT_ONCE = 50
CREATE = """
import sys, time
from pathlib import Path
from embedrun.errors import ConfigError
from embedrun.runs.directory import Run
assert "torch" not in sys.modules
Path(f"ready-{sys.argv[1]}").touch()
while not Path("go").exists():
    pass
run = Run.create("toy", {"seed": 1})
try:
    Run.create("toy", {"seed": 1}, directory="mine")
    given = "mine"
except ConfigError:
    given = "refused"
print(run.path, given)
"""


def interpreter(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    path = os.pathsep.join(part for part in (str(ROOT), os.environ.get("PYTHONPATH")) if part)
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_fifty_interpreters_at_once_get_fifty_directories_and_one_gets_the_one_that_all_name(
    tmp_path: Path, counted
):
    processes = [interpreter(tmp_path, "-c", CREATE, str(number)) for number in range(AT_ONCE)]
    until = time.monotonic() + 120
    while len(list(tmp_path.glob("ready-*"))) < AT_ONCE and time.monotonic() < until:
        time.sleep(0.05)
    (tmp_path / "go").touch()
    ends = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0] * AT_ONCE, ends
    own, given = zip(*(out.split() for out, _ in ends), strict=True)
    assert len(set(own)) == len(list((tmp_path / "outputs" / "toy").iterdir())) == AT_ONCE
    assert sorted(given) == ["mine", *["refused"] * (AT_ONCE - 1)]


@pytest.mark.parametrize("undisturbed", ["AnglE"], indirect=True)
def test_a_second_process_is_refused_within_a_second_and_changes_no_byte(
    undisturbed, tmp_path: Path, report: Callable, counted
):
    first = forked.start(tmp_path, *undisturbed.arguments)
    run = tmp_path / "run"
    while not list(run.glob("checkpoints/step-*")):
        time.sleep(0.01)
        assert first.process.is_alive(), first.end()
    os.kill(first.pid, signal.SIGSTOP)  # it writes nothing meanwhile, and holds the directory
    before = same_run.every_byte(run)
    times = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    seconds = {}
    for name in ("--version", "resume"):  # the first is what a start costs on this machine
        began = time.monotonic()
        second = interpreter(tmp_path, "-m", "embedrun", name, *(["run"] if name == "resume" else []))
        _, said = second.communicate(timeout=60)
        seconds[name] = time.monotonic() - began
    assert (second.returncode, "in use by another process" in said) == (8, True), said
    assert seconds["resume"] - seconds["--version"] < 1, seconds
    auto = forked.run(tmp_path, *undisturbed.arguments)
    assert auto.code == 8, auto.said
    assert same_run.every_byte(run) == before
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == times
    # The lock goes with the process: nothing has to be removed by hand.
    os.kill(first.pid, signal.SIGKILL)
    first.end()
    ended = forked.run(tmp_path, "resume", "run")
    assert ended.code == 0, ended.said
    differences = same_run.differences(run, undisturbed.content)
    resumed = same_run.resumed(run)
    report("two processes", undisturbed.mix.name, 1, resumed, not differences)
    assert differences == []
