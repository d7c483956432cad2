"""One of several training processes: what torch's launcher starts, with the folder of its job.

Nothing is composed here: the folder holds the resolved configuration. Process 0 makes the run directory and
prints for the user; the others are silent, and their output goes into a file of that folder.
"""

import faulthandler
import json
import os
import signal
import sys
import time
import traceback
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from embedrun.child import end_with
from embedrun.console import ignore_broken_pipes, masked
from embedrun.errors import INTERRUPTED, TERMINATED, ConfigError, exit_code, explain
from embedrun.files import Plain, write_atomically
from embedrun.runs.directory import Outcome, config_hash
from embedrun.training.workers import end

_DELAY = 5.0  # seconds in which process 0 may write down a failure that all have


def main() -> int:
    """Do this process's share of the job; returns the exit code."""
    folder = Path(sys.argv[1])
    rank = int(os.environ["RANK"])
    if rank > 0:
        _silence(folder / f"{rank}.log")
    job = json.loads((folder / end.JOB).read_text(encoding="utf-8"))
    end_with(job["parent"], signal.SIGKILL)  # nobody else would notice when a process of this run dies
    _environment(job)
    try:
        outcome, lost, trace = _work(job), False, ""
    except KeyboardInterrupt as stop:
        outcome, lost, trace = Outcome(error="interrupted", code=exit_code(stop)), False, ""
    except BaseException as fault:
        from embedrun.training.processes import LostContact

        outcome = Outcome(error=masked(explain(fault)), code=exit_code(fault))
        lost, trace = isinstance(fault, LostContact), masked("".join(traceback.format_exception(fault)))
    report = {"outcome": asdict(outcome), "lost": lost, "time": time.time(), "traceback": trace}
    write_atomically(folder / f"{rank}.json", json.dumps(report))
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # nothing is left to do but end
    if rank > 0 and outcome.code in (INTERRUPTED, TERMINATED):
        return 0  # all stop at one step, and a process that fails would cut short how process 0 saves
    # Where all have failed alike, process 0 is writing it down, and one that ends would cut that short.
    until = time.monotonic() + _DELAY
    while outcome.error and not (folder / "0.json").exists() and time.monotonic() < until:
        time.sleep(0.05)
    return outcome.code


def _work(job: Plain) -> Outcome:
    import torch

    from embedrun.training.processes import Processes, meet

    cuda = job["config"]["gpu"]["device"] != "cpu" and torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    meet(cuda=cuda)
    processes = Processes()
    if processes.differ(f"{config_hash(job['config'])} {job['resumed']}"):
        raise ConfigError(
            "gpu.nodes: the machines were started with different configurations, or resume different "
            "runs; start the same command on each"
        )
    resumed = None if job["resumed"] is None else Path(job["resumed"])
    module, _, name = job["run"].partition(":")
    outcome = getattr(import_module(module), name)(
        job["config"],
        job["overrides"],
        job["directory"],
        resumed=resumed,
        asked=job["asked"],
        choices=job["choices"],
    )
    return Outcome() if processes.rank > 0 else outcome


def _silence(log: Path) -> None:
    """Redirect all that this process prints, C and C++ included, into a file."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    faulthandler.enable()


def _environment(job: Plain) -> None:
    """Variables that torch and gloo read when they are imported or started."""
    sys.argv = job["argv"]  # the run records the command that the user typed
    os.environ[end.PLACE] = job["folder"]
    cores = len(os.sched_getaffinity(0)) // job["config"]["gpu"]["processes"]
    os.environ.setdefault("OMP_NUM_THREADS", str(job["config"]["gpu"]["threads"] or max(1, cores)))
    if job["interface"] is not None:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", job["interface"])


if __name__ == "__main__":
    ignore_broken_pipes()
    sys.exit(main())
