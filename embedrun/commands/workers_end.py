"""How several training processes ended, as one verdict, and what the run directory says of it."""

import contextlib
import json
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedrun.errors import INTERRUPTED, TERMINATED, UNEXPECTED, EmbedrunError, RunFailed, Terminated
from embedrun.runs.directory import Outcome, Run

_STOPPED = (INTERRUPTED, TERMINATED)
_TAIL = 20_000  # characters of what a silent process printed that are kept


@dataclass(frozen=True)
class End:
    """How one process ended that did not end well.

    Args:
        rank: of the process.
        code: its exit code; -9 where signal 9 killed it.
        time: of its end, seconds since the epoch.
        error: what it said itself; None where it had no time to.
        said: the exit code that it said.
        lost: it failed only because another process had gone.
        trace: its traceback, else what it printed at last.
    """

    rank: int
    code: int
    time: float
    error: str | None = None
    said: int = 0
    lost: bool = False
    trace: str = ""

    @classmethod
    def read(cls, folder: Path, rank: int, code: int, time: float) -> "End":
        """From what the process left in the folder of its job."""
        log = folder / f"{rank}.log"
        printed = log.read_text(encoding="utf-8", errors="replace")[-_TAIL:] if log.is_file() else ""
        try:
            report = json.loads((folder / f"{rank}.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return cls(rank, code, time, trace=printed)
        outcome = report["outcome"]
        return cls(
            rank, code, report["time"], outcome["error"], outcome["code"], report["lost"],
            report["traceback"] or printed,
        )  # fmt: skip

    @property
    def stopped(self) -> bool:
        """A signal ended it that somebody meant: a person, a batch system, or the launcher after a death."""
        return self.said in _STOPPED or (self.error is None and self.code == -signal.SIGTERM)


@dataclass(frozen=True)
class Verdict:
    """How the processes of one machine, or of all, ended.

    Args:
        kind: `finished`, `stopped` by a signal, `lost` because another machine's had gone, or `died`.
        error: the message, or None.
        code: exit code.
        directory: the run directory, where process 0 said it.
        main: the main score, likewise.
        trace: the traceback behind the error, or what the process printed at last.
        told: process 0 has written all this into the run directory itself.
    """

    kind: str
    error: str | None = None
    code: int = 0
    directory: str | None = None
    main: dict[str, Any] | None = None
    trace: str = ""
    told: bool = False


def first_said(folder: Path) -> Outcome | None:
    """What process 0 said at its end, where it ran on this machine and had time to."""
    report = folder / "0.json"
    return Outcome(**json.loads(report.read_text(encoding="utf-8"))["outcome"]) if report.is_file() else None


def verdict(
    ends: Sequence[End],
    *,
    size: int,
    first: Outcome | None = None,
    asked: int | None = None,
    at_once: bool = False,
    reason: str | None = None,
) -> Verdict:
    """Of one machine.

    Args:
        ends: of its processes that did not end well.
        size: how many processes there are on all machines.
        first: what process 0 said, where it ran here.
        asked: the first signal that this machine's launcher got.
        at_once: a second Ctrl-C killed the processes.
        reason: why the launcher ended them, where another machine was it.
    """
    if first is not None and first.error is None:
        return Verdict("finished", directory=first.directory, main=first.main)
    died = [end for end in ends if not end.stopped and not end.lost and end.code != -(asked or 0)]
    if died and not at_once:
        return _of_death(_culprit(died), size)
    if asked is not None or (first is not None and first.code in _STOPPED):
        code = first.code if first is not None and first.code in _STOPPED else _code(asked)
        return Verdict("stopped", "interrupted", code, told=not at_once and first is not None)
    if reason is not None or ends:
        lost = next((end.error for end in ends if end.lost), None)
        return Verdict("lost", reason or lost or "another process of this run has ended", UNEXPECTED)
    return Verdict("finished")


def of_all(own: Verdict, others: Sequence[Verdict]) -> Verdict:
    """Of all machines, from that of this one and of the others in their order: what died says why."""
    everyone = [own, *others]
    for kind in ("died", "stopped", "lost"):
        for one in everyone:
            if one.kind == kind:
                return one
    return next((one for one in everyone if one.directory is not None), own)


def settle(found: Verdict, run: Path | None) -> Outcome:
    """Have the last word in the run directory, and return or raise how the run ended.

    Args:
        found: of all machines.
        run: the run directory, where it is known on this machine.

    Raises:
        RunFailed: if a process failed or was killed.
        KeyboardInterrupt: if the processes were stopped.
    """
    if found.kind == "finished":
        return Outcome(found.directory, found.main)
    if run is not None and not found.told:
        _write(run, found)
    if found.kind == "stopped":
        raise KeyboardInterrupt if found.code == INTERRUPTED else Terminated
    error = found.error or ""
    if run is not None and not found.told:
        error += f"; {run / 'run.log'} has more, and embedrun resume {run} goes on from the last checkpoint"
    fault = RunFailed(error, exit_code=found.code)
    fault.add_note(found.trace)
    raise fault


def _write(path: Path, found: Verdict) -> None:
    # A run that finished, or that somebody goes on with already, is left alone.
    with contextlib.suppress(EmbedrunError, OSError):
        run = Run.claim(path)
        log = run.open_log()
        log.error("%s", "\n".join([found.error or "", found.trace]).rstrip())
        run.end("interrupted" if found.kind == "stopped" else "failed", found.error)


def _culprit(died: Sequence[End]) -> End:
    """The first; process 0 where it failed alike, because it has written that down."""
    first = min(died, key=lambda end: end.time)
    alike = [end for end in died if end.rank == 0 and end.error is not None and end.said == first.said]
    return alike[0] if alike else first


def _of_death(end: End, size: int) -> Verdict:
    if end.rank == 0 and end.error is not None:
        return Verdict("died", end.error, end.said, trace=end.trace, told=True)
    what = f"process {end.rank + 1} of {size} (rank {end.rank})"
    if end.error is not None:
        return Verdict("died", f"{what}: {end.error}", end.said, trace=end.trace)
    if end.code >= 0:
        how = f"ended with exit code {end.code}"
    else:
        how = f"was killed by signal {-end.code} ({signal.Signals(-end.code).name})"
        how += ", as the kernel does where memory runs out" if end.code == -signal.SIGKILL else ""
    return Verdict("died", f"{what} {how}", UNEXPECTED, trace=end.trace)


def _code(asked: int | None) -> int:
    return INTERRUPTED if asked == signal.SIGINT else TERMINATED
