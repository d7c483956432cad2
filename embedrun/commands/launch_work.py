"""What a launcher starts for each job, in whatever process, on whatever machine: it waits for the job's own.

The launcher pickles :class:`Work`, so it is a plain class of a module; the job itself stands in a file.
"""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

from embedrun.commands.job import Beside, Job, run_in_child
from embedrun.commands.launch_claim import claimed
from embedrun.console import say
from embedrun.errors import RunFailed, exit_code
from embedrun.files import write_atomically
from embedrun.runs.directory import Outcome

OUTCOME, _JOB, _BEGUN = "{}.outcome.json", "{}.json", "{}.begun"
STOP = "stop"  # the file that tells jobs to end


@dataclass(frozen=True)
class Work:
    """Called by Hydra for each job; never exits, so that no job can end the others.

    Args:
        folder: with the jobs, one file each.
        total: how many there are.
        logs: folder for what jobs print that run at the same time; None: one runs after the other.
        where: the folder that the user stands in.
        numbers: of the jobs of this launch, in the launcher's order.
        alone: whether a job is not run that another process is at, or has finished meanwhile.
        parent: process whose workers run the jobs, which start none once it has died; None: a cluster does,
            where a job goes on by itself.
    """

    folder: str
    total: int
    logs: str | None
    where: str
    numbers: tuple[int, ...]
    alone: bool = False
    parent: int | None = None

    def __call__(self, _: object) -> None:
        """Do one job.

        Raises:
            RunFailed: if it failed.
        """
        from hydra.core.hydra_config import HydraConfig

        outcome = self._run(self.numbers[int(HydraConfig.get().job.num)])
        if outcome.error:
            raise RunFailed(outcome.error, exit_code=outcome.code)

    def _run(self, number: int) -> Outcome:
        folder = Path(self.folder)
        file = folder / OUTCOME.format(number)
        if (folder / STOP).exists() or self._is_orphan():
            return Outcome(error="not started", code=1)
        job = Job(**json.loads(job_file(folder, number).read_text(encoding="utf-8")))
        write_atomically(folder / _BEGUN.format(number), f"{os.getpid()} {socket.gethostname()}")
        say(f"{number + 1} of {self.total}: {job.label}")
        beside = None
        if self.logs is not None:
            beside = Beside(Path(self.logs) / f"{number}.log", folder / STOP, self.where)
        try:
            with claimed(job) if self.alone else nullcontext() as known:
                outcome = run_in_child(job, file, beside) if known is None else known
        except KeyboardInterrupt as stop:
            if beside is None:
                raise
            outcome = Outcome(error="interrupted", code=exit_code(stop))
        write_atomically(file, json.dumps(asdict(outcome)))
        return outcome

    def _is_orphan(self) -> bool:
        # Of a worker that outlives its parent, since the parent's number may be another process's by now.
        return self.parent not in (None, os.getpid(), os.getppid())


def job_file(folder: Path, number: int) -> Path:
    """Where a job stands."""
    return folder / _JOB.format(number)


def begun(folder: Path, number: int) -> tuple[int, str] | None:
    """Process and machine that have begun a job, or None."""
    try:
        process, host = (folder / _BEGUN.format(number)).read_text(encoding="utf-8").split()
    except FileNotFoundError:
        return None
    return int(process), host


def alive(folder: Path) -> Iterator[int]:
    """The jobs without an outcome whose process on this machine still lives."""
    for file in folder.glob(_BEGUN.format("*")):
        number = int(file.name.partition(".")[0])
        known = begun(folder, number)
        if (folder / OUTCOME.format(number)).exists() or known is None or known[1] != socket.gethostname():
            continue
        if known[0] != os.getpid() and Path(f"/proc/{known[0]}").exists():
            yield number
