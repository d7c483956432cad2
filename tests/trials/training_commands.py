"""`embedrun` commands in processes of their own, whose workers a test can find and kill."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_LONG = 600.0  # seconds


@dataclass
class Command:
    """A command that runs.

    Args:
        process: the parent of the workers, if it trains in several.
        folder: where it runs.
    """

    process: subprocess.Popen[str]
    folder: Path

    def reach_checkpoint(self, run: str) -> None:
        """Wait until this run directory has one, while there are steps left to do."""
        until = time.monotonic() + _LONG
        while not list((self.folder / run).glob("checkpoints/step-*")):
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < until
            time.sleep(0.02)

    def workers(self) -> dict[int, int]:
        """Their process ids, by rank."""
        found: dict[int, int] = {}
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal() and self._is_parent_of(folder):
                environment = (folder / "environ").read_bytes().split(b"\0")
                ranks = [int(one[5:]) for one in environment if one.startswith(b"RANK=")]
                found |= {rank: int(folder.name) for rank in ranks}
        return found

    def end(self, *, seconds: float = _LONG) -> tuple[int, str, str]:
        """Wait for it; gives its exit code, and what it printed on standard output and error."""
        out, err = self.process.communicate(timeout=seconds)
        return self.process.returncode, out, err

    def _is_parent_of(self, folder: Path) -> bool:
        try:
            return int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == self.process.pid
        except OSError:  # it has just ended
            return False


class Commands:
    """Starts commands in one folder.

    Args:
        folder: where they run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str) -> Command:
        """Start `embedrun` with these arguments."""
        path = os.pathsep.join(part for part in (str(_ROOT), os.environ.get("PYTHONPATH")) if part)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "embedrun", *arguments],  # as the console script
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(self.folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return Command(process, self.folder)

    def done(self, *arguments: str) -> str:
        """Run a command to its good end; returns what it printed on standard error."""
        code, _, err = self.start(*arguments).end()
        assert code == 0, err
        return err

    def kill(self) -> None:
        """Kill what still runs; workers die with their parent."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()
