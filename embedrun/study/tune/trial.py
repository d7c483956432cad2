"""One trial in its own process; trials until there are enough; their table and plots."""

import csv
import io
import json
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedrun.child import command, environment
from embedrun.console import aligned, clean, say
from embedrun.errors import RunFailed, Terminated
from embedrun.files import write_atomically
from embedrun.launch.job import in_foreground
from embedrun.runs.directory import to_yaml
from embedrun.study.tune.distributions import Searched
from embedrun.study.tune.plan import TunePlan
from embedrun.study.tune.study import Claim, Ended, Row, Study
from embedrun.table.formats import cell

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


_MOST_FAILURES = 5  # in a row; what fails so often fails always


def search(study: Study, wanted: int, run: Callable[[Claim], Ended], after: Callable[[], None]) -> None:
    """Run trials until the study has as many as are wanted, or all combinations of values have been tried.

    Args:
        study: that is open.
        wanted: finished and pruned trials, in all and of all processes.
        run: runs one trial.
        after: called when one has ended.

    Raises:
        RunFailed: if so many trials in a row failed that the others would, too.
    """
    failures = 0
    while (claim := study.claim(wanted, _say_waiting)) is not None:
        say(f"trial {claim.number} {'goes on' if claim.again else 'begins'}: {shown(claim.values)}")
        ended = study.finish(claim, run(claim))
        say(_line(claim.number, ended, study, wanted))
        after()
        failures = failures + 1 if ended.reason is not None else 0
        if failures == _MOST_FAILURES:
            raise RunFailed(
                f"{failures} trials in a row failed, the last because: {ended.reason}; mend that, and the "
                f"same command goes on. What each printed is in {study.folder}"
            )


def shown(values: Mapping[str, Any]) -> str:
    """Values of searched options on one line."""
    return " ".join(f"{name}={value}" for name, value in values.items())


def score_text(row: Row) -> str:
    """A score as a table shows it."""
    return "" if row.score is None else f"{row.score:.2f}"


def _line(number: int, ended: Ended, study: Study, wanted: int) -> str:
    best = study.best()
    so_far = "none finished yet" if best is None else f"best {score_text(best)} of trial {best.number}"
    if ended.reason is not None:
        return f"trial {number} failed: {' '.join(ended.reason.split())} ({so_far})"
    row = study.rows()[number]
    what = "pruned at" if ended.pruned else study.metric
    return f"trial {number} ({study.done()} of {wanted}): {what} {score_text(row)} ({so_far})"


def _say_waiting(numbers: list[int]) -> None:
    which = f"trial{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
    say(f"waiting for {which}, which another process runs; Ctrl-C leaves it to that")


_SHOWN = 10  # trials in the table


def table(study: Study, searched: Sequence[Searched]) -> str:
    """The best trials, and how many there are of each kind."""
    names = [one.name for one in searched]
    lines = [["trial", study.metric or "score", *names]]
    ranking = study.ranking()
    for row in ranking[:_SHOWN]:
        lines.append([str(row.number), score_text(row), *(str(row.values.get(name, "")) for name in names)])
    states = [row.state for row in study.rows()]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    best = f"the best {_SHOWN} of {len(ranking)}; " if len(ranking) > _SHOWN else ""
    return f"{aligned(lines, right=(0, 1))}\n\n{best}{counts}"


def way_on(overrides: Sequence[str], config_dir: Path | None) -> str:
    """The command line that trains with these overrides."""
    place = [] if config_dir is None else ["--config-dir", str(config_dir)]
    return clean(shlex.join(["embedrun", "train", *overrides, *place]))


def write(study: Study, plan: TunePlan) -> None:
    """Write `study.csv` and `best.yaml`, the overrides of the best trial; what was there is replaced."""
    text = to_csv(study.rows(), plan.searched, study.metric)
    write_atomically(study.folder / "study.csv", text)
    if (best := study.best()) is not None:
        write_atomically(study.folder / "best.yaml", to_yaml(plan.overrides(best.values)))


def to_csv(rows: Sequence[Row], searched: Sequence[Searched], metric: str | None) -> str:
    """All trials as CSV, with raw numbers; a text that a spreadsheet would compute has a `'` before it."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(cell, _heading(searched, metric)))
    for row in rows:
        values = [row.values.get(one.name, "") for one in searched]
        cells = (row.number, row.state, row.score, *values, row.seconds, row.reason)
        writer.writerow(map(cell, cells))
    return out.getvalue()


def draw(study: Study, searched: Sequence[Searched]) -> None:
    """Write the plots: scores by trial, and by the value of each option."""
    from embedrun.plot import against, history

    rows = [row for row in study.rows() if row.score is not None]
    best, metric = study.best(), study.metric
    if best is None or metric is None:
        return
    folder = study.folder / "plots"
    points = [(row.number, row.score or 0.0, row.state == "pruned") for row in rows]
    history(points, metric, f"Study {study.folder.name}", folder / "history.png", lowest=study.lowest)
    for one in searched:
        points = [(row.values[one.name], row.score or 0.0, row.state == "pruned") for row in rows]
        place = folder / f"{one.name.replace('/', '.')}.png"
        order = one.options if one.kind == "choice" else None
        chosen = (best.values[one.name], best.score or 0.0)
        against(points, chosen, (one.name, metric), place, log=one.log, order=order)


def _heading(searched: Sequence[Searched], metric: str | None) -> list[str]:
    return ["trial", "state", metric or "score", *(one.name for one in searched), "seconds", "reason"]
