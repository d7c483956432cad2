"""Several data sets in one run: which part each batch is of, a pure function of (seed, epoch, step)."""

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from embedrun.config import TrainingConfig
from embedrun.dataset.mix import Mix
from embedrun.errors import ConfigError
from embedrun.training.order import Draw, Order, Schedule

_STREAM = 2  # beside seed and epoch: the order of the rows has no such number, that of groups of batches 1


def weights(mix: Mix, rows: Mapping[str, int]) -> dict[str, float]:
    """How often each part comes, relative to the others, where `proportional` is to its `rows`."""
    if mix.mixing == "share":
        return {name: float(mix.parts[name].share or 0) for name in rows}
    if mix.mixing == "round_robin":
        return dict.fromkeys(rows, 1.0)
    power = 1 / mix.temperature if mix.mixing == "temperature" else 1.0
    return {name: count**power for name, count in rows.items()}


def divided(total: int, shares: Mapping[str, float]) -> dict[str, int]:
    """`total` by shares in whole numbers of at least 1, by the largest remainders."""
    whole = sum(shares.values())
    exact = {name: total * share / whole for name, share in shares.items()}
    counts = {name: max(1, int(value)) for name, value in exact.items()}
    by_remainder = sorted(exact, key=lambda name: counts[name] - exact[name])
    for name in by_remainder[: max(0, total - sum(counts.values()))]:
        counts[name] += 1
    return counts


def counts(mix: Mix, rows: Mapping[str, int], batches: Mapping[str, int]) -> dict[str, int]:
    """Batches of each part in an epoch of the mixture; `batches` are those of an epoch of the part itself."""
    if mix.mixing == "proportional":
        return dict(batches)
    shares = weights(mix, rows)
    last = max if mix.ends == "longest" else min
    turns = last(batches[name] / shares[name] for name in batches)
    return divided(round(turns * sum(shares.values())), shares)


class _Epoch(NamedTuple):
    """The part of each batch of an epoch, as a number, and how often it came before, ``(batches,)`` each."""

    part: np.ndarray
    before: np.ndarray


class Mixture(Schedule):
    """The batches of a run on several data sets, one part after the other.

    Args:
        orders: of the rows of each part.
        rows: of each part.
    """

    def __init__(self, mix: Mix, orders: Mapping[str, Order], *, seed: int, accumulate: int) -> None:
        self.accumulate, self._seed, self._orders, self._mix = accumulate, seed, dict(orders), mix
        rows = {name: order.rows for name, order in orders.items()}
        self.counts = counts(mix, rows, {name: order.in_first_epoch for name, order in orders.items()})
        self._epoch = lru_cache(maxsize=2)(self._made)

    def draw(self, number: int) -> Draw:
        """The batch of this number: the next one of a part, whatever epoch of its own that is in."""
        epoch, place = divmod(number, self._per_epoch)
        parts = self._epoch(epoch)
        name = list(self._orders)[parts.part[place]]
        drawn = self._orders[name].draw(epoch * self.counts[name] + int(parts.before[place]))
        return Draw(number, drawn.epoch, drawn.rows, name)

    def of_part(self, name: str, steps: int) -> tuple[int, float, float]:
        """Of so many steps: the batches of a part, about, their share of all, and its own epochs in them."""
        share = self.counts[name] / self._per_epoch
        count = round(steps * self.accumulate * share)
        return count, share, count / self._orders[name].in_first_epoch

    def left_out(self, epoch: int) -> int:
        """Rows of all parts that are in no batch of this epoch of theirs."""
        return sum(order.left_out(epoch) for order in self._orders.values())

    @property
    def _per_epoch(self) -> int:
        return sum(self.counts.values())

    def _made(self, epoch: int) -> _Epoch:
        each = [np.full(count, place) for place, count in enumerate(self.counts.values())]
        if self._mix.mixing == "round_robin":
            part = np.stack(each, axis=1).ravel()  # (batches,)
        else:
            random = np.random.default_rng(np.random.SeedSequence([self._seed, epoch, _STREAM]))
            part = random.permutation(np.concatenate(each))  # (batches,)
        before = np.empty_like(part)  # (batches,)
        for place, numbers in enumerate(each):
            before[part == place] = np.arange(len(numbers))
        return _Epoch(part, before)


class MixedBatches(Schedule):
    """Batches that have rows of all parts, of each the same number.

    `orders` are of batches of these numbers; `starts` is where the rows of each part begin in the joined
    rows.
    """

    def __init__(
        self, mix: Mix, orders: Mapping[str, Order], starts: Mapping[str, int], *, accumulate: int
    ) -> None:
        self.accumulate, self._orders, self._starts = accumulate, dict(orders), dict(starts)
        last = max if mix.ends == "longest" else min
        self._count = last(order.in_first_epoch for order in orders.values())

    def draw(self, number: int) -> Draw:
        """The batch of this number; masked copies follow the epoch of the mixture."""
        rows = [order.draw(number).rows + self._starts[name] for name, order in self._orders.items()]
        return Draw(number, number // self._count, np.concatenate(rows))

    def left_out(self, epoch: int) -> int:
        """Rows of all parts that are in no batch of this epoch of theirs."""
        return sum(order.left_out(epoch) for order in self._orders.values())

    @property
    def _per_epoch(self) -> int:
        return self._count


def mixed_batches(mix: Mix, sizes: Mapping[str, int], training: TrainingConfig, seed: int) -> MixedBatches:
    """The batches of a run whose batches have rows of all parts; `sizes` are the rows of each."""
    if training.batch_size < len(sizes):
        raise ConfigError(
            f"training.batch_size: {training.batch_size} rows are fewer than the {len(sizes)} parts of a "
            f"mixed batch; give at least {len(sizes)}"
        )
    quotas = divided(training.batch_size, weights(mix, sizes))
    orders = {name: Order(count, quotas[name], training.accumulate, seed) for name, count in sizes.items()}
    starts = np.cumsum([0, *sizes.values()])[:-1].tolist()
    return MixedBatches(mix, orders, dict(zip(sizes, starts, strict=True)), accumulate=training.accumulate)
