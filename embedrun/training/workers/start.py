"""Start several training processes from the one that composed the configuration: `gpu.processes`.

The parent starts them by torch's elastic launcher. Each gets the path of a temporary folder as its argument
and reads the resolved configuration there; `embedrun.training.workers.child` is their side. Where one dies,
the parent ends the others and records in the run directory what died, how, and its traceback.

On a signal, torch's agent would kill what has not ended within 30 seconds. A worker that saves may take
longer, so the handlers here replace the agent's: a signal goes to one worker, which tells the others at the
end of the step, and the agent waits for all of them.
"""

import contextlib
import fcntl
import json
import logging
import os
import signal
import socket
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any

from torch.distributed.elastic.agent.server.api import RunResult, WorkerGroup, WorkerSpec, WorkerState
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
from torch.distributed.elastic.rendezvous import RendezvousParameters
from torch.distributed.elastic.rendezvous.registry import get_rendezvous_handler

from embedrun.child import command, started_by_others
from embedrun.config import GpuConfig
from embedrun.errors import TERMINATED, RunFailed
from embedrun.files import Plain, write_atomically
from embedrun.runs.directory import Outcome, config_hash
from embedrun.signals import fault, heard, put_back
from embedrun.training.workers.end import (
    JOB,
    PLACE,
    End,
    Machines,
    Verdict,
    first_said,
    of_all,
    settle,
    verdict,
)

_SIOCGIFADDR = 0x8915  # Linux: the address of a network interface


def host(gpu: GpuConfig) -> str:
    """The host of `gpu.rendezvous`; `localhost` where none is given."""
    return (gpu.rendezvous or "localhost:0").rpartition(":")[0].strip("[]")


def address(host: str) -> str | None:
    """The address of this machine from which it reaches `host`, IPv4 if possible; None where it cannot."""
    try:
        found = socket.getaddrinfo(host, 1, type=socket.SOCK_DGRAM)
    except OSError:
        return None
    for family, kind, protocol, _, where in sorted(found, key=lambda one: one[0] != socket.AF_INET):
        # Connecting a datagram socket sends nothing; it only picks the route.
        with contextlib.suppress(OSError), socket.socket(family, kind, protocol) as probe:
            probe.connect(where)
            return probe.getsockname()[0]
    return None


def interface(address: str) -> str | None:
    """The name of the network interface with this IPv4 address, or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                found = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", name.encode()))
                if socket.inet_ntoa(found[20:24]) == address:
                    return name
    return None


_RUN = "run"  # file of the temporary folder that holds the path of the run directory


def wanted(gpu: GpuConfig) -> bool:
    """Whether this process must start workers, and is none itself."""
    return gpu.processes * gpu.nodes > 1 and PLACE not in os.environ


def made(run: Path) -> None:
    """Called by process 0 to tell the parent its run directory, where that may have to record the end."""
    if PLACE in os.environ:
        write_atomically(Path(os.environ[PLACE]) / _RUN, str(run))


def launch(
    gpu: GpuConfig,
    plain: Plain,
    overrides: list[str],
    directory: str | None,
    resumed: Path | None,
    asked: str | None = None,
    *,
    run: str,
    choices: Plain | None = None,
) -> Outcome:
    """Train in `gpu.processes` processes on each of `gpu.nodes` machines; returns how the run ended on all.

    Args:
        plain: the resolved configuration; it never holds a secret.
        directory: the run directory, where the user named one.
        resumed: the run directory to resume.
        asked: hash of the configuration before it was settled; None: settling changed nothing.
        run: what each process calls to train, as `module:function`.
        choices: the presets behind the configuration.

    Raises:
        RunFailed: if a process failed, with its exit code; if it was killed, or the machines did not meet, 1.
        KeyboardInterrupt: on a signal, once the processes have saved and ended.
    """
    with tempfile.TemporaryDirectory(prefix="embedrun-") as name:
        folder, relay = Path(name), Relay()
        own = address(host(gpu))
        job = {
            "config": plain,
            "overrides": overrides,
            "directory": directory,
            "resumed": None if resumed is None else str(resumed),
            "asked": asked,
            "choices": choices,
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
    """Run torch's agent to its end; the verdict on all machines."""
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.rendezvous import RendezvousError

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
    """Keep torch's own log lines from the terminal: the parent reports what happened."""
    logger = logging.getLogger("torch.distributed.elastic")
    before, silent = logger.propagate, logging.NullHandler()
    logger.propagate = False
    logger.addHandler(silent)
    try:
        yield
    finally:
        logger.propagate = before
        logger.removeHandler(silent)


_STORE_TIMEOUT = timedelta(seconds=10)  # for an answer of the machine that hosts the store


class Relay:
    """Forwards the first signal to the workers; a second Ctrl-C kills them, but not their last checkpoint.

    Other later signals are ignored: batch systems and process groups send several. `asked` is the first
    signal, or None; `at_once` is whether a second Ctrl-C has killed the workers.
    """

    def __init__(self) -> None:
        self.asked: int | None = None
        self.at_once = False
        self._workers: list[int] = []
        self._heard: list[int] = []

    def fault(self) -> KeyboardInterrupt:
        """The exception that the first signal raises in this process."""
        return fault(signal.SIGTERM if self.asked is None else self.asked)

    def to(self, workers: list[int]) -> None:
        """From now on, forward signals to these processes; replaces the handlers that torch has just set."""
        self._workers = workers
        self._listen()

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Inside, a signal is forwarded, or raised if there are no workers; restores all handlers after."""
        self._heard = heard()
        with put_back(signal.SIGQUIT):
            self._listen()
            yield

    def _listen(self) -> None:
        for number in self._heard:
            signal.signal(number, self._handle)
        if signal.SIGHUP not in self._heard:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def _handle(self, number: int, _: FrameType | None) -> None:
        again = self.asked is not None
        self.asked = self.asked or number
        if not self._workers:
            raise self.fault()
        if not again:
            _kill(self._workers[:1], number)
        elif number == signal.SIGINT:
            self.at_once = True
            _kill(self._workers, signal.SIGKILL)


class Agent(LocalElasticAgent):
    """The agent that ends a run when any worker of any machine dies, and restarts none.

    `relay` gets the process ids of the workers. `machines` is called with the store and the number of this
    machine, from 0, once all have met.
    """

    def __init__(
        self, spec: WorkerSpec, logs: DefaultLogsSpecs, relay: Relay, machines: Callable[[Any, int], Machines]
    ) -> None:
        super().__init__(spec, logs)
        self._relay, self._make = relay, machines
        self.machines: Machines | None = None

    # Torch documents these two for subclasses to override; its decorators hide their types.
    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]:  # type: ignore[override]
        assert worker_group.group_rank is not None
        assert worker_group.store is not None
        worker_group.store.set_timeout(_STORE_TIMEOUT)
        self.machines = self._make(worker_group.store, worker_group.group_rank)
        with started_by_others():
            started = super()._start_workers(worker_group)  # type: ignore[call-arg]
        self._relay.to([started[local_rank] for local_rank in sorted(started)])
        return started

    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:  # type: ignore[override]
        result = super()._monitor_workers(worker_group)  # type: ignore[call-arg]
        assert self.machines is not None
        if result.state == WorkerState.HEALTHY and self.machines.look():
            return RunResult(state=WorkerState.FAILED)
        return result

    def _exit_barrier(self) -> None:
        """Do nothing: `Machines.end` waits instead, and can be interrupted."""


@contextlib.contextmanager
def run(
    gpu: GpuConfig, meeting: str, folder: Path, relay: Relay
) -> Iterator[tuple[dict[int, Any], Machines]]:
    """Run the agent of this machine to its end; inside, the rendezvous is still open.

    Yields torch's record of each failed worker, by rank, and the other machines. `meeting` is the id of the
    run: only machines with the same one meet. `folder` holds the job for
    `python -m embedrun.training.workers.child`.
    """
    own = address(host(gpu))
    parameters = RendezvousParameters(
        backend="c10d",
        endpoint=gpu.rendezvous or "localhost:0",
        run_id=meeting,
        min_nodes=gpu.nodes,
        max_nodes=gpu.nodes,
        local_addr=own,
    )
    handler = get_rendezvous_handler(parameters)
    # A surplus machine would make the agent restart all workers.
    handler.num_nodes_waiting = lambda: 0  # type: ignore[method-assign]
    python, *arguments = command("embedrun.training.workers.child", str(folder))
    spec = WorkerSpec(
        role="embedrun",
        local_world_size=gpu.processes,
        entrypoint=python,
        args=tuple(arguments),
        rdzv_handler=handler,
        max_restarts=0,
        local_addr=own,
    )
    logs = DefaultLogsSpecs(str(folder / "torch"))
    agent = Agent(spec, logs, relay, lambda store, number: Machines(store, number, gpu.nodes, folder / _RUN))
    try:
        result: Any = agent.run()
        assert agent.machines is not None
        yield result.failures, agent.machines
    finally:
        handler.shutdown()


def _kill(workers: list[int], number: int) -> None:
    for worker in workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, number)
