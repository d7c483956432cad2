"""Several processes train as one: each encodes its share, and all see the loss of the whole batch."""

import contextlib
import hashlib
import re
from collections.abc import Iterable, Iterator
from datetime import timedelta

import torch
from torch import Tensor, distributed

from embedrun.config import GpuConfig, TrainingConfig
from embedrun.errors import OUT_OF_MEMORY, ConfigError, RunFailed, is_out_of_memory

_ENDPOINT = re.compile(r"(?P<host>[^\s:/]+|\[[0-9A-Fa-f:.]+\]):(?P<port>\d{1,5})")


def options_problems(gpu: GpuConfig, training: TrainingConfig | None = None) -> list[str]:
    """Options that several processes cannot train with, or score without `training`, on any machine."""
    faults = []
    size = gpu.processes * gpu.nodes
    if gpu.nodes > 1 and gpu.rendezvous is None:
        faults.append(
            f"gpu.rendezvous: no value for gpu.nodes={gpu.nodes}; name host:port of one of the machines, as "
            "all of them reach it"
        )
    if gpu.rendezvous is not None:
        parts = _ENDPOINT.fullmatch(gpu.rendezvous)
        if parts is None or int(parts["port"]) > 65535:
            faults.append(f"gpu.rendezvous: expected host:port, such as node1:29500, got {gpu.rendezvous!r}")
        elif gpu.nodes == 1:
            faults.append(
                "gpu.rendezvous: is where several machines meet, and gpu.nodes is 1; leave it null, or raise "
                "gpu.nodes"
            )
    if training is not None and size > training.batch_size:
        faults.append(
            f"training.batch_size: {training.batch_size} rows for {size} processes leave one without any; "
            "raise it, or lower gpu.processes"
        )
    return faults


_BUCKET = 2**25  # bytes of gradients in a message
# A process that died is noticed by the launcher, in a second; one that waits may wait for hours of scoring.
_PATIENCE = timedelta(days=30)


class LostContact(RunFailed):
    """Another process of the run has ended or cannot be reached; the cause is for that one to report."""


class Processes:
    """The processes of a run, one unless `torch.distributed` has been started.

    Every process computes the loss of all rows from vectors gathered from all. Only its own rows' vectors
    carry a gradient there, so that the sum of the processes' gradients is the gradient that one process
    would have: nothing is averaged. A weight of the loss sees all rows everywhere and has that gradient on
    every process already.

    What they exchange beside tensors of the device (`any`, `share`, `differ`) goes over the CPU: it
    waits for no kernel, and a process that waits for another, for hours where that one scores, sleeps.
    """

    def __init__(self) -> None:
        started = distributed.is_available() and distributed.is_initialized()
        self.rank = distributed.get_rank() if started else 0
        self.size = distributed.get_world_size() if started else 1

    def own(self, rows: int) -> slice:
        """Which of the rows of a batch this process encodes: neighbours, as many as any other or one less."""
        if rows < self.size:
            raise ConfigError(
                f"training.batch_size: {rows} rows for {self.size} processes leave one without any; raise "
                "training.batch_size or lower gpu.processes"
            )
        return self._share(self.rank, rows)

    def gather(self, vectors: dict[str, Tensor], rows: int) -> dict[str, Tensor]:
        """The vectors of all rows, in their order, ``(rows, ...)`` each.

        `vectors`, of one type, are those of the own rows, ``(own, ...)`` each. These keep their gradient;
        others have none.
        """
        if self.size == 1 or not vectors:
            return vectors
        shares = [self._share(rank, rows) for rank in range(self.size)]
        counts = [share.stop - share.start for share in shares]
        flat = torch.cat([tensor.detach().flatten(1) for tensor in vectors.values()], dim=1)  # (own, numbers)
        # Equal shapes are what all_gather takes: a share that is one row short gets a row of zeros.
        sent = flat.new_zeros(max(counts), flat.shape[1])
        sent[: len(flat)] = flat
        received = [torch.empty_like(sent) for _ in range(self.size)]
        with _together():
            distributed.all_gather(received, sent)
        widths = [tensor.flatten(1).shape[1] for tensor in vectors.values()]
        columns = [part[:count].split(widths, dim=1) for part, count in zip(received, counts, strict=True)]
        gathered = {}
        for place, (key, mine) in enumerate(vectors.items()):
            parts = [column[place].reshape(-1, *mine.shape[1:]) for column in columns]
            parts[self.rank] = mine
            gathered[key] = torch.cat(parts)  # (rows, ...)
        return gathered

    def add_up(self, summed: Iterable[Tensor], equal: Iterable[Tensor]) -> None:
        """Make the gradients those of one process, in place.

        The gradient of the `equal` weights is that of all rows already. Their mean is taken, because two
        processors may round it differently.
        """
        if self.size == 1:
            return
        for weights, share in ((summed, 1), (equal, self.size)):
            gradients = [weight.grad for weight in weights if weight.grad is not None]
            for bucket in _buckets(gradients):
                flat = torch.cat([gradient.flatten() for gradient in bucket])  # (numbers,)
                with _together():
                    distributed.all_reduce(flat)
                parts = (flat / share).split([gradient.numel() for gradient in bucket])
                for gradient, part in zip(bucket, parts, strict=True):
                    gradient.copy_(part.view_as(gradient))

    def sum(self, value: Tensor) -> Tensor:
        """The sum of a number on the device over all processes; collective."""
        if self.size == 1:
            return value
        total = value.clone()
        with _together():
            distributed.all_reduce(total)
        return total

    def any(self, flag: bool) -> bool:
        """Whether it is true on any process; collective, with the same answer on all."""
        if self.size == 1:
            return flag
        value = torch.tensor([int(flag)])  # (1,)
        with _together():
            distributed.all_reduce(value, op=distributed.ReduceOp.MAX)
        return bool(value)

    def total(self, number: int) -> int:
        """The sum over all processes; collective."""
        if self.size == 1:
            return number
        value = torch.tensor([number])  # (1,)
        with _together():
            distributed.all_reduce(value)
        return int(value)

    def share(self, numbers: list[float]) -> list[float]:
        """The numbers of process 0 on all, which the others have as many of."""
        if self.size == 1:
            return numbers
        sent = torch.tensor(numbers, dtype=torch.float64)  # (numbers,)
        with _together():
            distributed.broadcast(sent, src=0)
        return sent.tolist()

    def send(self, message: bytes) -> bytes:
        """The message of process 0, on all; what another gives does not matter. Collective."""
        (length,) = self.share([float(len(message))])
        sent = torch.frombuffer(bytearray(message or b"\0"), dtype=torch.uint8)  # (bytes,)
        if self.size == 1 or not length:
            return message if self.size == 1 else b""
        sent = sent if self.rank == 0 else torch.empty(int(length), dtype=torch.uint8)
        with _together():
            distributed.broadcast(sent, src=0)
        return sent.numpy().tobytes()

    def copy(self, tensors: Iterable[Tensor]) -> None:
        """Make the tensors, in place, those of process 0; collective."""
        for tensor in tensors if self.size > 1 else ():
            sent = tensor.detach().contiguous()
            with _together():
                distributed.broadcast(sent, src=0)
            tensor.detach().copy_(sent)

    def differ(self, text: str) -> bool:
        """Whether the processes have different texts; collective, with the same answer on all."""
        if self.size == 1:
            return False
        mine = torch.tensor(list(hashlib.sha256(text.encode()).digest()))  # (32,)
        first = mine.clone()
        with _together():
            distributed.broadcast(first, src=0)
        return self.any(not torch.equal(mine, first))

    def part(self) -> None:
        """Dissolve the process group; collective, and then each continues alone."""
        if self.size > 1:
            with _together():
                distributed.destroy_process_group()
            self.size = 1

    def _share(self, rank: int, rows: int) -> slice:
        least, more = divmod(rows, self.size)
        begin = rank * least + min(rank, more)
        return slice(begin, begin + least + (rank < more))


def _buckets(tensors: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    """Neighbours of one type that are sent together, about 32 MB each: a message has a price of its own."""
    bucket: list[Tensor] = []
    for tensor in tensors:
        alike = not bucket or (bucket[0].dtype, bucket[0].device) == (tensor.dtype, tensor.device)
        if bucket and (not alike or sum(one.nbytes for one in bucket) + tensor.nbytes > _BUCKET):
            yield bucket
            bucket = []
        bucket.append(tensor)
    if bucket:
        yield bucket


def meet(*, cuda: bool) -> None:
    """Join the process group that the environment names, as torch's launcher sets it.

    With `cuda`, where this process has one device of its own, tensors of CUDA devices go by NCCL; all else
    goes by gloo.
    """
    with _together():
        distributed.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", timeout=_PATIENCE)


@contextlib.contextmanager
def _together() -> Iterator[None]:
    """Distinguish the loss of another process from a failure of this one."""
    try:
        yield
    except torch.OutOfMemoryError:  # our own, and a RuntimeError, too
        raise
    except RuntimeError as fault:
        # gloo says "[/where/it/was/built/pair.cc:553] Connection closed by peer [127.0.0.1]:2039." and more
        # sentences, advice to whoever wrote the program.
        what = re.sub(r"^\[\S*\] ", "", str(fault).partition("\n")[0]).partition(". ")[0]
        if is_out_of_memory(fault):
            raise RunFailed(
                f"out of memory between the processes ({what}); lower training.batch_size",
                exit_code=OUT_OF_MEMORY,
            ) from fault
        raise LostContact(f"another process of this run has ended or cannot be reached ({what})") from fault
