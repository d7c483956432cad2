"""Several training processes from the one that composed and checked the configuration: `gpu.processes`.

The parent starts them by torch's elastic launcher and hands them the resolved configuration in a file of
a folder of its own, which each finds in its arguments; `embedrun.commands.worker` is their side. Where
one dies, the parent ends the others and has the last word in the run directory: what died, how, and its
traceback.
"""

import contextlib
import json
import logging
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedrun.commands.workers_end import End, Verdict, first_said, of_all, settle, verdict
from embedrun.commands.workers_network import address, host, interface
from embedrun.config import GpuConfig, TrainingConfig
from embedrun.errors import TERMINATED, ConfigError, RunFailed
from embedrun.files import write_atomically
from embedrun.runs.directory import Outcome, config_hash

if TYPE_CHECKING:
    from embedrun.commands.workers_agent import Relay

PLACE = "EMBEDRUN_WORKERS"  # the folder of a worker's job, in its environment
JOB = "job.json"
_RUN = "run"  # in that folder: which run directory there is
_ENDPOINT = re.compile(r"(?P<host>[^\s:/]+|\[[0-9A-Fa-f:.]+\]):(?P<port>\d{1,5})")


def problems(gpu: GpuConfig, training: TrainingConfig) -> list[str]:
    """What of the configuration cannot be trained by several processes, on whatever machine."""
    found = []
    size = gpu.processes * gpu.nodes
    if gpu.nodes > 1 and gpu.rendezvous is None:
        found.append(
            f"gpu.rendezvous: no value for gpu.nodes={gpu.nodes}; name host:port of one of the machines, as "
            "all of them reach it"
        )
    if gpu.rendezvous is not None:
        parts = _ENDPOINT.fullmatch(gpu.rendezvous)
        if parts is None or int(parts["port"]) > 65535:
            found.append(f"gpu.rendezvous: expected host:port, such as node1:29500, got {gpu.rendezvous!r}")
        elif gpu.nodes == 1:
            found.append(
                "gpu.rendezvous: is where several machines meet, and gpu.nodes is 1; leave it null, or raise "
                "gpu.nodes"
            )
    if size > training.batch_size:
        found.append(
            f"training.batch_size: {training.batch_size} rows for {size} processes leave one without any; "
            "raise it, or lower gpu.processes"
        )
    if size > 1 and training.seeded_dropout is False:
        found.append("training.seeded_dropout: several processes need it; leave it null")
    return found


def lacking(gpu: GpuConfig) -> list[str]:
    """What this machine has too little of."""
    import torch

    devices = torch.cuda.device_count() if gpu.device != "cpu" and torch.cuda.is_available() else None
    if devices is None or gpu.processes <= devices:
        return []
    have = f"{devices} CUDA device{'s' if devices > 1 else ''}"
    return [
        f"gpu.processes: {gpu.processes} asked for, one a device, and this machine has {have}; lower it, or "
        "choose gpu=cpu"
    ]


def wanted(gpu: GpuConfig) -> bool:
    """Whether this process is to start workers, and is none itself."""
    return gpu.processes * gpu.nodes > 1 and PLACE not in os.environ


def made(run: Path) -> None:
    """Called by process 0 once it has its run directory; the parent may have to write there how it ended."""
    if PLACE in os.environ:
        write_atomically(Path(os.environ[PLACE]) / _RUN, str(run))


def launch(
    gpu: GpuConfig,
    plain: Mapping[str, Any],
    overrides: list[str],
    directory: str | None,
    resumed: Path | None,
    asked: str | None = None,
    *,
    run: str,
) -> Outcome:
    """Train in `gpu.processes` processes on each of `gpu.nodes` machines, and wait for their end.

    Args:
        gpu: of the configuration.
        plain: resolved plain data; no secret is ever in it.
        overrides: what the user changed.
        directory: the run directory, where the user named one.
        resumed: the run directory to go on with, where there is one.
        asked: hash of the configuration before it was settled; None: it was as it is.
        run: what each process calls to train, as `module:function`.

    Returns:
        How the run ended, on every machine.

    Raises:
        ConfigError: if this machine has too few devices.
        RunFailed: if a process failed, with its exit code; if it was killed, or the machines did not meet, 1.
        KeyboardInterrupt: on a signal, once the processes have saved and ended.
    """
    if found := lacking(gpu):
        raise ConfigError(found)
    from embedrun.commands.workers_agent import Relay

    with tempfile.TemporaryDirectory(prefix="embedrun-") as name:
        folder, relay = Path(name), Relay()
        own = address(host(gpu))
        job = {
            "config": plain,
            "overrides": overrides,
            "directory": directory,
            "resumed": None if resumed is None else str(resumed),
            "asked": asked,
            "run": run,
            "argv": sys.argv,
            "folder": name,
            "parent": os.getpid(),
            "interface": None if own is None else interface(own),
        }
        write_atomically(folder / JOB, json.dumps(job))
        with relay.listening(), _quiet():
            found = _run(gpu, config_hash(plain)[:12], folder, relay)
        known = folder / _RUN
        return settle(found, Path(known.read_text(encoding="utf-8")) if known.is_file() else resumed)


def _run(gpu: GpuConfig, meeting: str, folder: Path, relay: "Relay") -> Verdict:
    """Run torch's agent to its end, and hear of the other machines."""
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.rendezvous import RendezvousError

    from embedrun.commands.workers_agent import run

    try:
        with run(gpu, meeting, folder, relay) as (failures, machines):
            relay.to([])
            own = verdict(
                [End.read(folder, rank, one.exitcode, one.timestamp) for rank, one in failures.items()],
                size=gpu.processes * gpu.nodes,
                first=first_said(folder),
                asked=relay.asked,
                at_once=relay.at_once,
                reason=machines.reason,
            )
            return of_all(own, machines.end(own))
    except RendezvousError as fault:
        raise RunFailed(
            f"gpu.rendezvous: the {gpu.nodes} machines did not meet at {gpu.rendezvous} ({fault}); start the "
            "same command on each of them, on that of gpu.rendezvous first"
        ) from fault
    except SignalException:  # SIGQUIT, for which torch ends the workers
        return Verdict("stopped", "interrupted", TERMINATED)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch's own log lines from the terminal: the parent says what happened."""
    logger = logging.getLogger("torch.distributed.elastic")
    before, silent = logger.propagate, logging.NullHandler()
    logger.propagate = False
    logger.addHandler(silent)
    try:
        yield
    finally:
        logger.propagate = before
        logger.removeHandler(silent)
