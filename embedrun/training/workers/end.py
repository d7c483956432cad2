"""How several processes on several machines ended, as one verdict."""

import contextlib
import json
import math
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from embedrun.console import say
from embedrun.errors import INTERRUPTED, TERMINATED, UNEXPECTED, EmbedrunError, RunFailed, Terminated
from embedrun.files import Plain
from embedrun.runs.directory import Outcome, Run

PLACE = "EMBEDRUN_WORKERS"  # the folder of a worker's job, in its environment
JOB = "job.json"


_STOPPED = (INTERRUPTED, TERMINATED)
_TAIL = 20_000  # characters of what a silent process printed that are kept


@dataclass(frozen=True)
class End:
    """How one process ended that failed or was stopped.

    Args:
        code: its exit code; -9 where signal 9 killed it.
        time: of its end, seconds since the epoch.
        error: its own message; None where it had no time for one.
        said: the exit code that it reported.
        lost: it failed only because another process was lost.
        trace: its traceback, else the last of its output.
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
        """Whether it was meant to end: by a person, a batch system, or the launcher after another's death."""
        return self.said in _STOPPED or (self.error is None and self.code == -signal.SIGTERM)


@dataclass(frozen=True)
class Verdict:
    """How the processes of one machine, or of all, ended.

    Args:
        kind: `finished`, `stopped` by a signal, `lost` because another machine's were lost, or `died`.
        directory: the run directory, where process 0 reported it.
        main: the main score, likewise.
        trace: the traceback behind the error, or the last of the process's output.
        told: process 0 has written all this into the run directory itself.
    """

    kind: str
    error: str | None = None
    code: int = 0
    directory: str | None = None
    main: Plain | None = None
    trace: str = ""
    told: bool = False


def first_said(folder: Path) -> Outcome | None:
    """What process 0 reported at its end, where it ran on this machine and had time to."""
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
    """The verdict on one machine.

    Args:
        ends: of its processes that failed or were stopped.
        size: number of processes on all machines.
        first: what process 0 reported, where it ran here.
        asked: the first signal that this machine's launcher got.
        at_once: a second Ctrl-C killed the processes.
        reason: why the launcher ended them, where another machine was the cause.
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
    """The verdict on all machines, from this one's and the others' in their order; what died is the cause."""
    everyone = [own, *others]
    for kind in ("died", "stopped", "lost"):
        for one in everyone:
            if one.kind == kind:
                return one
    return next((one for one in everyone if one.directory is not None), own)


def settle(found: Verdict, run: Path | None) -> Outcome:
    """Write the final state into the run directory, and return or raise how the run ended.

    The `run` directory is None where it is not known on this machine.

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
        error += f"; {run / 'run.log'} has more, and embedrun resume {run} continues from the last checkpoint"
    fault = RunFailed(error, exit_code=found.code)
    fault.add_note(found.trace)
    raise fault


def _write(path: Path, found: Verdict) -> None:
    # A run that has finished, or has been resumed already, is left alone.
    with contextlib.suppress(EmbedrunError, OSError):
        run = Run.claim(path)
        log = run.open_log()
        log.error("%s", "\n".join([found.error or "", found.trace]).rstrip())
        run.end("interrupted" if found.kind == "stopped" else "failed", found.error)


def _culprit(died: Sequence[End]) -> End:
    """The first to fail; process 0 where it failed alike, because it has recorded that."""
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


_BEAT = 2.0  # seconds between two signs of life
_PATIENCE = 20.0  # seconds without one after which a machine is lost; its processes then end within 30
_GRACE = 600.0  # seconds to finish a step and save once another machine has stopped
_LINGER = 5.0  # seconds in which the last words are read before the store may go


class Store(Protocol):
    """The methods used of torch's key-value store; a call raises RuntimeError where its machine is gone."""

    def set(self, key: str, value: str) -> None:
        """Write a value."""

    def get(self, key: str) -> bytes:
        """Read a value that is there."""
        ...

    def check(self, keys: list[str]) -> bool:
        """Whether all of these are there."""
        ...


class Machines:
    """The heartbeats of the other machines of a run; its own processes the launcher watches.

    Each machine writes a growing number and, at its end, its verdict into the store at which they met. Only
    the clock of this machine is used; it gives seconds that only grow. Machines are numbered from 0. The
    first, whose process 0 writes its run directory into the file `run`, tells it to the others.

    `reason` is why the run cannot continue here, where a machine is gone or its processes have died.
    """

    def __init__(
        self, store: Store, own: int, count: int, run: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store, self._own, self._count, self._run, self._clock = store, own, count, run, clock
        self._joined = False
        self._others = [number for number in range(count) if number != own]
        self._beats, self._next = 0, clock()
        self._seen = {number: ("", clock()) for number in self._others}
        self._words: dict[int, Verdict] = {}
        self.reason: str | None = None

    def look(self) -> str | None:
        """Write a heartbeat and check those of the others, every other second; returns `reason`."""
        if self._others and self.reason is None and self._clock() >= self._next:
            self._next = self._clock() + _BEAT
            awaited = [number for number in self._others if not self._has_finished(number)]
            try:
                self._beats += 1
                self._store.set(f"embedrun/beat/{self._own}", str(self._beats))
                self._join()
                self.reason = next(filter(None, map(self._fault, awaited)), None)
            except RuntimeError as fault:
                if awaited:  # else nothing more is to be heard there
                    what = str(fault).partition("\n")[0]
                    self.reason = f"the machine at gpu.rendezvous cannot be reached any more ({what})"
        return self.reason

    def _join(self) -> None:
        """Say once, on a machine whose processes are silent, which run they train."""
        if self._own == 0 and self._run.is_file():
            self._store.set("embedrun/run", self._run.read_text(encoding="utf-8"))
        elif self._own and not self._joined and self._store.check(["embedrun/run"]):
            self._joined = True
            where = self._store.get("embedrun/run").decode()
            say(f"joined as machine {self._own + 1} of {self._count}: {where}; machine 1 prints how it goes")

    def end(self, word: Verdict) -> list[Verdict]:
        """Give the verdict of this machine, and wait for the others' for as long as all goes well.

        Returns:
            The verdicts of the others; for one that is gone without, that it is.
        """
        if not self._others:
            return []
        with contextlib.suppress(RuntimeError):  # whom it was for is gone with the store
            self._store.set(_word(self._own), json.dumps(asdict(word)))
        until = math.inf if word.kind == "finished" else self._clock() + 2 * _PATIENCE
        while len(self._words) < len(self._others) and self._clock() < until:
            self._next = self._clock()
            if self.look():
                until = min(until, self._clock() + _LINGER)
            time.sleep(_BEAT / 8)
        self._leave()
        words = [self._words[number] for number in sorted(self._words)]
        gone = self.reason is not None and len(words) < len(self._others)
        return [*words, Verdict("lost", self.reason, UNEXPECTED)] if gone else words

    def _leave(self) -> None:
        """Leave as one of the last, because the store may live in this process."""
        until = self._clock() + _LINGER
        with contextlib.suppress(RuntimeError):
            self._store.set(f"embedrun/left/{self._own}", "1")
            while self._clock() < until:
                if self._store.check([f"embedrun/left/{number}" for number in self._others]):
                    return
                time.sleep(_BEAT / 20)

    def _has_finished(self, number: int) -> bool:
        return number in self._words and self._words[number].kind == "finished"

    def _fault(self, number: int) -> str | None:
        """Why this machine cannot go on without that one, or None."""
        if self._store.check([_word(number)]):
            self._words[number] = Verdict(**json.loads(self._store.get(_word(number))))
        word = self._words.get(number)
        if word is not None and word.kind != "stopped":
            return word.error
        key = f"embedrun/beat/{number}"
        beat = self._store.get(key).decode() if self._store.check([key]) else ""
        before, when = self._seen[number]
        if beat != before:
            self._seen[number] = beat, self._clock()
        elif self._clock() - when > (_PATIENCE if word is None else _GRACE):
            how = "sent no heartbeat" if word is None else "has stopped, and this one did not stop with it"
            return f"machine {number + 1} of {self._count} {how}"
        return None


def _word(number: int) -> str:
    return f"embedrun/word/{number}"
