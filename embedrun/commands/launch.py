"""Jobs through one of Hydra's launchers, each in a process of its own; none can end the others."""

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from embedrun import signals
from embedrun.commands.job import Job
from embedrun.commands.launch_hydra import launcher
from embedrun.commands.launch_plugins import plugin
from embedrun.commands.launch_scratch import scratch
from embedrun.commands.launch_work import OUTCOME, STOP, Work, alive, begun, job_file
from embedrun.config.compose import Request
from embedrun.console import say
from embedrun.errors import INTERRUPTED, Terminated
from embedrun.files import write_atomically
from embedrun.runs.directory import Outcome
from embedrun.signals import stopping

_POLL = 0.5  # seconds between looks at jobs whose launcher has died


class Interrupted(KeyboardInterrupt):
    """A signal ended the jobs; the outcomes are those until then.

    Args:
        outcomes: by job.
        stop: what the signal raises.
    """

    def __init__(self, outcomes: list[Outcome], stop: KeyboardInterrupt) -> None:
        super().__init__()
        self.outcomes, self.stop = outcomes, stop


def launch(request: Request, jobs: Sequence[Job], folder: Path, *, alone: bool = False) -> list[Outcome]:
    """Run jobs, and say how each has ended.

    Args:
        request: its `hydra...` overrides choose and set up the launcher; one of the command of all jobs.
        jobs: at least one.
        folder: for what the processes tell each other and, of jobs that run at the same time, for what they
            print; every machine that runs one has to see it. Its part `.jobs` is removed at the end.
        alone: whether a job is not run that another process is at, or has finished meanwhile.

    Raises:
        Interrupted: on a signal, once the running jobs have saved and ended; no other is started.
    """
    name = plugin(request.overrides)
    logs = None if name == "basic" else (folder / "logs").resolve()
    fault: Exception | None = None
    stop: KeyboardInterrupt | None = None
    with scratch(folder) as place:
        for number, job in enumerate(jobs):
            typed = replace(job, argv=job.argv or sys.argv)
            write_atomically(job_file(place, number), json.dumps(asdict(typed)))
        if logs is not None:
            say(f"{len(jobs)} jobs by hydra/launcher={name}; what they print goes to {logs}")
        parent = None if name.startswith("submitit") else os.getpid()
        said = None if logs is None else str(logs)
        work = Work(str(place), len(jobs), said, os.getcwd(), (), alone, parent)
        try:
            # Alone, a job gets Ctrl-C from the terminal itself; others at a time are told by a file.
            with signals.raised() if logs is None else stopping(place / STOP):
                fault = _launch(request, jobs, work, place)
        except KeyboardInterrupt as signal:
            stop = signal
        outcomes = _outcomes(place, len(jobs), fault, stop)
    if stop is not None:
        raise Interrupted(outcomes, stop)
    return outcomes


def _launch(request: Request, jobs: Sequence[Job], work: Work, scratch: Path) -> Exception | None:
    """Run them all; returns what has broken the launcher itself, which is no job's fault."""
    fault: Exception | None = None
    waiting = list(range(len(jobs)))
    while waiting:
        batch = replace(work, numbers=tuple(waiting))
        try:
            with launcher(request, scratch, batch, [jobs[number].config for number in waiting]) as start:
                start.launch([jobs[number].launched for number in waiting], initial_job_idx=0)
            return None
        except Exception as broken:  # a plugin's own
            fault = broken
            _wait(scratch)
        left = [number for number in waiting if begun(scratch, number) is None]
        # A killed worker of joblib takes its pool with it; what had not begun gets a new one.
        if plugin(request.overrides) != "joblib" or len(left) == len(waiting):
            return fault
        waiting = left
    return fault


def _wait(scratch: Path) -> None:
    """Wait for the jobs that go on although their launcher has died."""
    while any(alive(scratch)):
        time.sleep(_POLL)


def _outcomes(
    scratch: Path, count: int, fault: Exception | None, stop: KeyboardInterrupt | None
) -> list[Outcome]:
    outcomes = []
    for number in range(count):
        file = scratch / OUTCOME.format(number)
        if file.is_file():
            outcomes.append(Outcome(**json.loads(file.read_text(encoding="utf-8"))))
        elif stop is not None:
            said = "not started" if begun(scratch, number) is None else "interrupted"
            outcomes.append(Outcome(error=said, code=143 if isinstance(stop, Terminated) else INTERRUPTED))
        elif fault is not None:
            said = " ".join(str(fault).split()) or type(fault).__name__
            outcomes.append(Outcome(error=f"the launcher has lost it ({said})", code=1))
        else:
            outcomes.append(Outcome(error="the launcher did not start it", code=1))
    return outcomes
