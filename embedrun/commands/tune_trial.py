"""One trial: a training run in a process of its own, watched by its dev scores as they come."""

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedrun.child import command, environment
from embedrun.commands.tune_claim import Ended
from embedrun.errors import Terminated
from embedrun.launch.job import in_foreground

_MODULE = "embedrun.launch.job"
_POLL = 0.5  # seconds between looks at the metrics of the child
_TAIL = 2000  # bytes at the end of the log that may say why a process died

Report = Callable[[int, float], bool]


@dataclass(frozen=True)
class Job:
    """What one trial trains.

    Args:
        config: resolved plain data.
        overrides: that made it.
        directory: of the run.
        log: what the process prints.
        metric: key of the dev score; None: the first that the run writes, which is that of its own dev split.
        lock: number of the open file that keeps the trial claimed while the process lives.
    """

    config: Mapping[str, Any]
    overrides: list[str]
    directory: Path
    log: Path
    metric: str | None
    lock: int


def train(job: Job, report: Report) -> Ended:
    """Train, from where an earlier attempt stopped; one that finished unseen is only read.

    Args:
        job: what to train.
        report: called with step and value of each dev score; true ends the run.

    Raises:
        KeyboardInterrupt: on a signal, once the run has saved and ended.
    """
    if _state(job.directory) != "finished":
        with tempfile.TemporaryDirectory(prefix="embedrun-") as scratch:
            outcome = Path(scratch) / "outcome.json"
            with job.log.open("ab") as log:
                child = _start(job, outcome, log.fileno())
            pruned = _watch(child, _DevScores(job), report)
            if pruned:
                return Ended(pruned=True)
            if reason := _failure(child, outcome, job.log):
                return Ended(reason=reason)
    return _scored(job)


def _start(job: Job, outcome: Path, log: int) -> subprocess.Popen[bytes]:
    training = {**job.config["training"], "resume": "auto"}
    payload = {
        "command": "train",
        "config": {**job.config, "training": training},
        "overrides": job.overrides,
        "directory": str(job.directory),
        "outcome": str(outcome),
        "argv": sys.argv,
    }
    child = subprocess.Popen(
        command(_MODULE),
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=log,
        pass_fds=(job.lock,),
        env=environment(),
    )
    assert child.stdin is not None
    with suppress(BrokenPipeError), child.stdin as pipe:  # a child that died already says so by its end
        pipe.write(json.dumps(payload).encode())
    return child


def _watch(child: subprocess.Popen[bytes], scores: "_DevScores", report: Report) -> bool:
    """Wait for the end of the child; true where it was ended because of its dev scores."""
    try:
        while True:
            running = child.poll() is None
            if any(report(step, value) for step, value in scores.new()) and running:
                child.send_signal(signal.SIGTERM)
                child.wait()
                return True
            if not running:
                return False
            with suppress(subprocess.TimeoutExpired):
                child.wait(_POLL)
    except KeyboardInterrupt as stop:
        # A terminal sends Ctrl-C to the child, too; what comes from elsewhere is handed on to it.
        if isinstance(stop, Terminated) or not in_foreground():
            child.send_signal(signal.SIGTERM)
        child.wait()
        raise


class _DevScores:
    """The dev scores that a run writes, each given once.

    Args:
        job: the run.
    """

    def __init__(self, job: Job) -> None:
        self._path, self._metric = job.directory / "metrics.jsonl", job.metric
        self._place = 0

    def new(self) -> Iterator[tuple[int, float]]:
        """Step and value of the scores since the last call; not of the untrained model."""
        with suppress(FileNotFoundError), self._path.open("rb") as file:
            file.seek(self._place)
            for line in file:
                if not line.endswith(b"\n"):
                    return  # still being written
                self._place += len(line)
                with suppress(ValueError, KeyError):
                    row = json.loads(line)
                    if row["split"] != "dev":
                        continue
                    self._metric = self._metric or row["name"]
                    if row["name"] == self._metric and row["step"] > 0 and row["value"] is not None:
                        yield row["step"], row["value"]

    def metric(self) -> str | None:
        """Key of the score."""
        for _ in self.new():
            pass
        return self._metric


def _failure(child: subprocess.Popen[bytes], outcome: Path, log: Path) -> str | None:
    """Why the child failed, or None where it has not."""
    if outcome.is_file():
        return json.loads(outcome.read_text(encoding="utf-8"))["error"]
    code = child.returncode
    how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
    last = log.read_bytes()[-_TAIL:].decode(errors="replace").strip().splitlines()[-1:]
    said = f": {last[0]}" if last and code > 0 else ""
    return f"its process ended without a result ({how}){said}"


def _scored(job: Job) -> Ended:
    """The dev score of a finished run, that of the weights it has kept."""
    metric = _DevScores(job).metric()
    try:
        results = json.loads((job.directory / "results.json").read_text(encoding="utf-8"))
        score = results["scores"].get(metric)
    except (OSError, ValueError, KeyError) as fault:
        return Ended(reason=f"{job.directory / 'results.json'} cannot be read ({fault})")
    return Ended(metric, score)


def _state(directory: Path) -> str | None:
    try:
        return json.loads((directory / "status.json").read_text(encoding="utf-8")).get("state")
    except (OSError, ValueError, AttributeError):
        return None
