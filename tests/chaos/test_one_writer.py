"""One process at a time writes into a run directory, and every run makes one of its own."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

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
