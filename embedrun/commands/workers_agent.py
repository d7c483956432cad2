"""torch's elastic agent on one machine: starts the workers, hands signals on, and sees who has gone.

The agent's own way with a signal is to kill what has not ended within 30 seconds. A worker that saves may
take longer, so the handlers here stand in for the agent's: a signal goes to one worker, which tells the
others at the end of the step, and the agent waits for all of them.
"""

import contextlib
import os
import signal
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
from embedrun.commands.workers_machines import Machines
from embedrun.commands.workers_network import address, host
from embedrun.config import GpuConfig
from embedrun.signals import fault, heard

_STORE_TIMEOUT = timedelta(seconds=10)  # for an answer of the machine that has the store


class Relay:
    """What this process does with signals while workers train.

    The first is handed on; a second Ctrl-C kills the workers, whose last checkpoint stands. Others after the
    first are those that batch systems and process groups send beside it.

    Attributes:
        asked: the first signal, or None.
        at_once: a second Ctrl-C has killed the workers.
    """

    def __init__(self) -> None:
        self.asked: int | None = None
        self.at_once = False
        self._workers: list[int] = []
        self._heard: list[int] = []

    def fault(self) -> KeyboardInterrupt:
        """What the first signal raises in this process."""
        return fault(signal.SIGTERM if self.asked is None else self.asked)

    def to(self, workers: list[int]) -> None:
        """From now on hand signals to these processes; torch has just put its own handlers in."""
        self._workers = workers
        self._listen()

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Inside, a signal is handed on, or raises where there are no workers; torch's handlers go, too."""
        self._heard = heard()
        numbers = (*self._heard, signal.SIGHUP, signal.SIGQUIT)
        before = {number: signal.getsignal(number) for number in numbers}
        self._listen()
        try:
            yield
        finally:
            for number, former in before.items():
                signal.signal(number, signal.SIG_DFL if former is None else former)

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
    """The agent that ends a run when any worker of any machine dies, and starts none again.

    Args:
        spec: what to start.
        logs: where torch keeps its own files.
        relay: gets the process ids of the workers.
        machines: is made from the store and the number of this machine, once all have met.
    """

    def __init__(
        self, spec: WorkerSpec, logs: DefaultLogsSpecs, relay: Relay, machines: Callable[[Any, int], Machines]
    ) -> None:
        super().__init__(spec, logs)
        self._relay, self._make = relay, machines
        self.machines: Machines | None = None

    # Torch names these two as what a subclass may replace; its decorators hide their types.
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
        """Nothing: `Machines.end` waits, and can be interrupted."""


@contextlib.contextmanager
def run(
    gpu: GpuConfig, meeting: str, folder: Path, relay: Relay
) -> Iterator[tuple[dict[int, Any], Machines]]:
    """Run the agent of this machine to its end; inside, the place where the machines met is still there.

    Args:
        gpu: how many processes and machines, and where they meet.
        meeting: the name of the run; machines of another do not meet this one.
        folder: for `python -m embedrun.commands.worker`, which finds there what to do.
        relay: of signals.

    Returns:
        What torch says of the workers that failed, by rank, and the other machines.
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
    # A machine too many would make the agent start all workers anew.
    handler.num_nodes_waiting = lambda: 0  # type: ignore[method-assign]
    python, *arguments = command("embedrun.commands.worker", str(folder))
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
    agent = Agent(spec, logs, relay, lambda store, number: Machines(store, number, gpu.nodes))
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
