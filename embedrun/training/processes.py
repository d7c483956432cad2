"""Several processes train as one: each encodes its share, and all see the loss of the whole batch."""

from collections.abc import Iterable

import torch
from torch import Tensor, distributed

from embedrun.errors import ConfigError

_BUCKET = 2**24  # numbers summed in one call, so that no copy of all gradients is made


class Processes:
    """The processes of a run, one unless `torch.distributed` has been started.

    Every process computes the loss of all rows from vectors gathered from all. Only its own rows' vectors
    carry a gradient there, so that the sum of the processes' gradients is the gradient that one process
    would have: nothing is averaged. A weight of the loss sees all rows everywhere and has that gradient on
    every process already.

    Attributes:
        rank: of this process.
        size: how many there are.
    """

    def __init__(self) -> None:
        started = distributed.is_available() and distributed.is_initialized()
        self.rank = distributed.get_rank() if started else 0
        self.size = distributed.get_world_size() if started else 1

    def own(self, rows: int) -> slice:
        """Which of the rows of a batch this process encodes: neighbours, as many as any other or one less.

        Raises:
            ConfigError: if there are fewer rows than processes.
        """
        if rows < self.size:
            raise ConfigError(
                f"training.batch_size: {rows} rows for {self.size} processes leave one without any; raise "
                "training.batch_size or lower gpu.processes"
            )
        return self._share(self.rank, rows)

    def gather(self, vectors: dict[str, Tensor], rows: int) -> dict[str, Tensor]:
        """The vectors of all rows, in their order, from those of every process.

        Args:
            vectors: of the own rows, ``(own, ...)`` each, of one type.
            rows: how many there are in all.

        Returns:
            ``(rows, ...)`` each. The own rows are the tensors given, with their gradient; others have none.
        """
        if self.size == 1 or not vectors:
            return vectors
        shares = [self._share(rank, rows) for rank in range(self.size)]
        counts = [share.stop - share.start for share in shares]
        flat = torch.cat([one.detach().flatten(1) for one in vectors.values()], dim=1)  # (own, numbers)
        # Equal shapes are what all_gather takes: a share that is one row short gets a row of zeros.
        sent = flat.new_zeros(max(counts), flat.shape[1])
        sent[: len(flat)] = flat
        received = [torch.empty_like(sent) for _ in range(self.size)]
        distributed.all_gather(received, sent)
        widths = [one.flatten(1).shape[1] for one in vectors.values()]
        columns = [part[:count].split(widths, dim=1) for part, count in zip(received, counts, strict=True)]
        found = {}
        for place, (key, mine) in enumerate(vectors.items()):
            parts = [column[place].reshape(-1, *mine.shape[1:]) for column in columns]
            parts[self.rank] = mine
            found[key] = torch.cat(parts)  # (rows, ...)
        return found

    def add_up(self, summed: Iterable[Tensor], equal: Iterable[Tensor]) -> None:
        """Make the gradients those of one process, in place.

        Args:
            summed: weights whose gradient comes from the own rows alone.
            equal: weights whose gradient is that of all rows already. Their mean is taken, because two
                processors may round it differently.
        """
        if self.size == 1:
            return
        for weights, share in ((summed, 1), (equal, self.size)):
            for bucket in _buckets([weight.grad for weight in weights if weight.grad is not None]):
                flat = torch.cat([gradient.flatten() for gradient in bucket])  # (numbers,)
                distributed.all_reduce(flat)
                parts = flat.div_(share).split([gradient.numel() for gradient in bucket])
                for gradient, part in zip(bucket, parts, strict=True):
                    gradient.copy_(part.view_as(gradient))

    def _share(self, rank: int, rows: int) -> slice:
        least, more = divmod(rows, self.size)
        begin = rank * least + min(rank, more)
        return slice(begin, begin + least + (rank < more))


def _buckets(gradients: list[Tensor]) -> Iterable[list[Tensor]]:
    """Neighbours of one type that together have `_BUCKET` numbers, unless one alone has more."""
    bucket: list[Tensor] = []
    for gradient in gradients:
        full = sum(one.numel() for one in bucket) + gradient.numel() > _BUCKET
        if bucket and (full or gradient.dtype != bucket[0].dtype):
            yield bucket
            bucket = []
        bucket.append(gradient)
    if bucket:
        yield bucket
