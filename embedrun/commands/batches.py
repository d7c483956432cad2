"""The batches of a run before it begins: how many rows they have, and in which order they come."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from embedrun.batch import TokenTable
from embedrun.commands.row_tokens import RowTokens
from embedrun.config import TrainConfig, TrainingConfig
from embedrun.errors import ConfigError
from embedrun.experiment.plan import TrainPlan
from embedrun.rows import Rows
from embedrun.training.feed import Feed
from embedrun.training.order import Order, order_of


@dataclass(frozen=True)
class Known:
    """The training rows in batches.

    Args:
        rows: of the training split.
        tokens: of these rows.
        order: that of the run, or one of batches of the usual size.
        exact: whether it is that of the run.
        whole: whether no row can be too long for `training.batch_tokens`.
    """

    rows: int
    tokens: RowTokens
    order: Order
    exact: bool = True
    whole: bool = True

    def steps(self, training: TrainingConfig) -> tuple[int, bool]:
        """Optimizer steps of a run, and whether they are exactly these."""
        count = self.order.steps(training.epochs, training.max_steps)
        if self.exact or training.distinct_texts:
            return count, self.exact
        # A budget of tokens closes batches sooner, never later: these steps there are at least.
        least = Order(self.rows, training.batch_size, training.accumulate, self.order.seed)
        return count, least.steps(training.epochs, training.max_steps) == training.max_steps


@dataclass(frozen=True)
class Batches:
    """What is known of the batches of a run.

    Args:
        most: rows of one, at most.
        usual: rows of one, about.
        even: whether each has `most`.
        known: None: nothing without the data.
    """

    most: int
    usual: int
    even: bool
    known: Known | None = None


def batches(plan: TrainPlan, rows: Rows | None, tokens: RowTokens | None) -> Batches:
    """The batches of a run, as far as they are known.

    Args:
        plan: the checked configuration.
        rows: of the training split; None: they are not here.
        tokens: of these rows; None likewise.

    Raises:
        ConfigError: if `training.batch_tokens` or `training.distinct_texts` cannot be had with these rows.
    """
    training = plan.config.training
    if rows is None or tokens is None:
        return Batches(training.batch_size, training.batch_size, training.batch_tokens is None)
    if training.batch_tokens is not None:
        return _budgeted(plan.config, training.batch_tokens, len(rows), tokens)
    most = min(training.batch_size, len(rows))
    if training.distinct_texts:
        even = training.batch_size <= len(rows)  # a batch of all rows is without those that share a text
        return Batches(most, most, even, _distinct(plan, rows, tokens))
    order = Order(len(rows), training.batch_size, training.accumulate, plan.config.seed)
    return Batches(most, most, True, Known(len(rows), tokens, order))


def _distinct(plan: TrainPlan, rows: Rows, tokens: RowTokens) -> Known:
    config = plan.config
    feed = Feed(rows, _no_tokens, plan.losses.passes, [], seed=config.seed)
    # Sorted by length the rows come in another order, which shows only once all are tokenised.
    training = replace(config.training, batching="random")
    order = order_of(feed, rows, training, config.seed, processes=processes_of(config))
    return Known(len(rows), tokens, order, exact=config.training.batching == "random")


def _no_tokens(texts: Sequence[str], *_: object) -> TokenTable:
    """Texts without tokens, for a feed of which only the identities of the texts are asked."""
    return TokenTable(np.zeros(0, dtype=np.int32), np.zeros(len(texts) + 1, dtype=np.int64))


def _budgeted(config: TrainConfig, budget: int, rows: int, tokens: RowTokens) -> Batches:
    training = config.training
    most = min(training.batch_size, rows)
    least = min(max(2, processes_of(config)), most)
    together = int(np.sort(tokens.each)[-least:].sum())
    if tokens.measured and together > budget:
        raise ConfigError(
            f"training.batch_tokens: a batch may have to hold the longest {least} of {tokens.sample:,} rows "
            f"that were looked at, and these have {together:,} tokens over all views, more than {budget:,}; "
            f"raise training.batch_tokens to {together:,} or more, or lower backbone.max_length"
        )
    # Rounded down: the row that would take a batch above its budget is in the next one.
    usual = max(1, min(most, int(budget / tokens.mean)))
    order = Order(rows, usual, training.accumulate, config.seed)
    whole = tokens.measured and tokens.sample == rows
    return Batches(most, usual, False, Known(rows, tokens, order, exact=False, whole=whole))


def processes_of(config: TrainConfig) -> int:
    """How many processes share a batch."""
    return config.gpu.processes * config.gpu.nodes


def own_rows(config: TrainConfig, batch: int) -> int:
    """Rows of a batch that a process encodes, at most."""
    return -(-batch // processes_of(config))


def at_a_time(config: TrainConfig, batch: int) -> int:
    """Rows of a batch that a process encodes at a time, at most."""
    own = own_rows(config, batch)
    return min(config.training.micro_batch_size or own, own)
