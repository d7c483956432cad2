"""Several processes that train as one: `gpu.processes` on each of `gpu.nodes` machines.

`launch` starts them by torch's elastic launcher and forwards signals to them; each is this module, run with
the folder of its job. `torchrun -m embedrun train ...` starts the same processes without a parent of ours.
Where one of them dies, torch ends the others, and the parent records in the run directory what died and how.
"""

import contextlib
import faulthandler
import json
import logging
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from types import FrameType

from embedrun import signals
from embedrun.child import command, end_with, started_by_others
from embedrun.config import GpuConfig
from embedrun.console import ignore_broken_pipes, masked
from embedrun.errors import (
    INTERRUPTED,
    TERMINATED,
    UNEXPECTED,
    ConfigError,
    EmbedrunError,
    RunFailed,
    exit_code,
    explain,
)
from embedrun.files import Plain, write_atomically
from embedrun.runs.directory import Outcome, Run, config_hash

FOLDER = "EMBEDRUN_WORKERS"  # in the environment of the processes that `launch` has started
JOB = "job.json"
_RUN = "run"  # the file that holds the run directory
_LOST = 75  # exit code of a process that failed only because another one has ended
_STOPPED = {INTERRUPTED: signal.SIGINT, TERMINATED: signal.SIGTERM}  # exit codes, and what asks for them
_DELAY = 5.0  # seconds in which process 0 may record a failure that all processes have
_TAIL = 20_000  # characters of a process's output that go into the log of the run


def wanted(gpu: GpuConfig) -> bool:
    """Whether this process is to start others that train, as `gpu.processes` and `gpu.nodes` say."""
    return gpu.processes * gpu.nodes > 1 and not _is_worker()


def join(gpu: GpuConfig, job: str) -> None:
    """Meet the other processes, if this is one of several; all must have the same `job`."""
    if not _is_worker():
        return
    size = int(os.environ["WORLD_SIZE"])
    if size != gpu.processes * gpu.nodes:
        raise ConfigError(
            f"gpu.processes, gpu.nodes: {gpu.processes} x {gpu.nodes} processes, and torchrun has started "
            f"{size}; give it the same numbers as --nproc-per-node and --nnodes"
        )
    if size == 1:
        return
    import torch

    from embedrun.training.processes import Processes, meet

    cuda = gpu.device != "cpu" and torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if os.environ["RANK"] != "0":
        os.environ["EMBEDRUN_QUIET"] = "1"
    meet(cuda=cuda)
    if Processes().differ(job):
        raise ConfigError(
            "gpu.nodes: the machines were started with different configurations, or resume different "
            "runs; start the same command on each"
        )


def made(run: Path) -> None:
    """Called by process 0: tell the parent its run directory, where that may have to record the end."""
    if FOLDER in os.environ:
        write_atomically(Path(os.environ[FOLDER]) / _RUN, str(run))


def _is_worker() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ


def launch(gpu: GpuConfig, plain: Plain, *, run: str, resumed: Path | None, **others: object) -> Outcome:
    """Train in `gpu.processes` processes on each of `gpu.nodes` machines; returns the outcome of process 0.

    `run` is what each process calls to train, as `module:function`; the rest is for that. `plain` never holds
    a secret.
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous import RendezvousError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    meeting = gpu.rendezvous or "localhost:0"
    host = meeting.rpartition(":")[0]
    with tempfile.TemporaryDirectory(prefix="embedrun-") as name:
        folder, relay = Path(name), Relay(Path(name))
        job = {
            "run": run,
            "arguments": {"plain": plain, **others},
            "resumed": resumed and str(resumed),
            "argv": sys.argv,
            "parent": os.getpid(),
        }
        write_atomically(folder / JOB, json.dumps(job))
        config = LaunchConfig(
            min_nodes=gpu.nodes,
            max_nodes=gpu.nodes,
            nproc_per_node=gpu.processes,
            logs_specs=DefaultLogsSpecs(str(folder / "torch")),
            run_id=config_hash(plain)[:12],  # only machines with the same one meet
            rdzv_backend="c10d",
            rdzv_endpoint=meeting,
            max_restarts=0,
            local_addr=host if host in ("localhost", "127.0.0.1") else None,
            signals_to_handle="SIGQUIT",  # the others are forwarded: torch would kill what saves for long
        )
        python, *arguments = command(__name__, name)
        codes: dict[int, int] = {}
        lost = "another process of this run has ended"
        # The parent reports what happened.
        logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
        with relay.listening(), started_by_others():
            try:
                elastic_launch(config, python)(*arguments)
            except ChildFailedError as fault:
                codes = {rank: failure.exitcode for rank, failure in fault.failures.items()}
            except (RendezvousError, RuntimeError) as fault:
                lost = (
                    f"gpu.rendezvous: the {gpu.nodes} machines did not meet at {meeting}, or lost contact "
                    f"({str(fault).partition(chr(10))[0]}); start the same command on each of them, on that "
                    "of gpu.rendezvous first"
                )
        known = folder / _RUN
        place = Path(known.read_text(encoding="utf-8")) if known.is_file() else resumed
        return settle(folder, codes, relay, place, size=gpu.processes * gpu.nodes, lost=lost)


def settle(
    folder: Path, codes: Mapping[int, int], relay: "Relay", run: Path | None, *, size: int, lost: str
) -> Outcome:
    """How the run ended, from the exit `codes` of failed ranks and the outcomes in the folder of the job."""
    # A killed process has said nothing.
    outcomes = {
        int(file.stem): Outcome(**json.loads(file.read_text(encoding="utf-8")))
        for file in folder.glob("[0-9]*.json")
    }
    first = outcomes[min(outcomes)] if outcomes else Outcome(error=lost, code=UNEXPECTED)
    if first.error is None:
        return first
    # A process that was ended because another has died, or stopped by the signal that this one got, too.
    ended = (*_STOPPED, _LOST, -signal.SIGTERM, -(relay.asked or 0))
    died = [rank for rank in sorted(codes) if codes[rank] not in ended]
    if died and not relay.at_once:
        raise _failure(died[0], codes[died[0]], outcomes, folder, run, size)
    stopped_by = _STOPPED.get(first.code, relay.asked)
    if stopped_by is None:
        raise RunFailed(first.error)
    if run is not None and 0 not in outcomes:
        _record(run, "interrupted", "interrupted")
    raise signals.fault(stopped_by)


def _failure(
    rank: int, code: int, outcomes: Mapping[int, Outcome], folder: Path, run: Path | None, size: int
) -> RunFailed:
    outcome = outcomes.get(rank)
    if rank == 0 and outcome is not None:  # which has recorded it
        return RunFailed(outcome.error or "", exit_code=outcome.code)
    error = f"process {rank + 1} of {size} (rank {rank})"
    if outcome is not None:
        error += f": {outcome.error}"
    elif code < 0:
        error += f" was killed by signal {-code} ({signal.Signals(-code).name})"
    else:
        error += f" ended with exit code {code}"
    if run is not None:
        _record(run, "failed", error, folder / f"{rank}.log")
        log = run / "run.log"
        error += f"; {log} has more, and embedrun resume {run} continues from the last checkpoint"
    return RunFailed(error, exit_code=UNEXPECTED if outcome is None else outcome.code)


def _record(path: Path, state: str, error: str, printed: Path | None = None) -> None:
    """Write the end into a run directory, unless the run has finished or has been resumed already."""
    with contextlib.suppress(EmbedrunError, OSError):
        run = Run.claim(path)
        text = ""
        if printed is not None and printed.is_file():
            text = "\n" + printed.read_text(encoding="utf-8", errors="replace")[-_TAIL:].rstrip()
        run.open_log().error("%s%s", error, text)
        run.end(state, error)


class Relay:
    """Forwards the first signal to the processes; a second Ctrl-C kills them, but not their last checkpoint.

    Other later signals are ignored: batch systems and process groups send several. `asked` is the first
    signal, or None; `at_once` is whether a second Ctrl-C has killed the processes.
    """

    def __init__(self, folder: Path) -> None:
        self.asked: int | None = None
        self.at_once = False
        self._folder = folder

    def listening(self) -> contextlib.AbstractContextManager[None]:
        """Inside, a signal is forwarded, or raised if no process can take it yet."""
        return signals.handling(self._handle)

    def _handle(self, number: int, _: FrameType | None) -> None:
        again = self.asked is not None
        self.asked = self.asked or number
        workers = [int(file.read_text()) for file in self._folder.glob("[0-9]*.pid")]
        if not workers:
            raise signals.fault(self.asked)
        if again and number != signal.SIGINT:
            return
        self.at_once = again
        for worker in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL if self.at_once else number)


def main() -> int:
    """Do this process's share of the job in the folder; returns the exit code.

    Process 0 prints for the user; what the others print goes into a file of the folder.
    """
    folder, rank = Path(sys.argv[1]), int(os.environ["RANK"])
    if rank > 0:
        _silence(folder / f"{rank}.log")
    job = json.loads((folder / JOB).read_text(encoding="utf-8"))
    end_with(job["parent"], signal.SIGKILL)  # nobody else would notice when a process of this run dies
    with signals.raised():
        process = folder / f"{rank}.pid"
        write_atomically(process, str(os.getpid()))
        outcome = _outcome(job, folder, rank)
        write_atomically(folder / f"{rank}.json", json.dumps(asdict(outcome)))
        process.unlink()
    if rank > 0 and outcome.code in _STOPPED:
        return 0  # all stop at one step, and a process that fails would cut short how process 0 saves
    # Where all have failed alike, process 0 is recording it, and one that ends would cut that short.
    until = time.monotonic() + _DELAY
    while outcome.error and not (folder / "0.json").exists() and time.monotonic() < until:
        time.sleep(0.01)
    return outcome.code


def _outcome(job: Plain, folder: Path, rank: int) -> Outcome:
    gpu = job["arguments"]["plain"]["gpu"]
    sys.argv = job["argv"]  # the run records the command that the user typed
    os.environ[FOLDER] = str(folder)
    cores = max(1, len(os.sched_getaffinity(0)) // gpu["processes"])
    os.environ.setdefault("OMP_NUM_THREADS", str(gpu["threads"] or cores))  # read by torch's import
    module, _, name = job["run"].partition(":")
    try:
        train = getattr(import_module(module), name)
        return train(**job["arguments"], resumed=job["resumed"] and Path(job["resumed"]))
    except KeyboardInterrupt as stop:
        return Outcome(error="interrupted", code=exit_code(stop))
    except Exception as fault:
        from embedrun.training.processes import LostContact

        if rank > 0 or not isinstance(fault, EmbedrunError):
            print(masked(traceback.format_exc()), file=sys.stderr)
        code = _LOST if isinstance(fault, LostContact) else exit_code(fault)
        return Outcome(error=masked(explain(fault)), code=code)


def _silence(log: Path) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    faulthandler.enable()


if __name__ == "__main__":
    ignore_broken_pipes()
    sys.exit(main())
