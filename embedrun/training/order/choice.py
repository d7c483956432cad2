"""The order that the training options ask for, or why these rows cannot have it."""

from typing import TYPE_CHECKING

import numpy as np

from embedrun.config import TrainingConfig
from embedrun.errors import ConfigError
from embedrun.rows import Rows
from embedrun.training.order.steps import Order

if TYPE_CHECKING:  # it takes draws from here
    from embedrun.training.feed import Feed

_SHOWN = 60  # letters of a text


def order_of(feed: "Feed", rows: Rows, training: TrainingConfig, seed: int, *, processes: int = 1) -> Order:
    """The batches of a run.

    Args:
        feed: knows the tokens and texts of the rows.
        rows: of the training split.
        training: the training options.
        seed: of the permutations.
        processes: that share a batch; each needs a row of it.

    Raises:
        ConfigError: if rows are too long for `training.batch_tokens`, or too many share a text for
            `training.distinct_texts`, or for each process to have a row then.
    """
    grouped, budget = training.batching == "length_grouped", training.batch_tokens
    lengths = feed.lengths if grouped or budget is not None else None  # (rows, passes)
    if budget is not None and lengths is not None:
        least = min(max(2, processes), training.batch_size, len(rows))
        _check_lengths(rows, lengths.sum(axis=1), budget, least=least)
    order = Order(
        len(rows),
        training.batch_size,
        training.accumulate,
        seed,
        batching=training.batching,
        grouped_batches=training.grouped_batches,
        batch_tokens=budget,
        distinct=training.distinct_texts,
        lengths=lengths,
        texts=feed.texts_of_rows if training.distinct_texts else None,
    )
    if training.distinct_texts and order.left_out(0) == len(rows):
        raise ConfigError(_no_batch(feed, rows, min(training.batch_size, len(rows))))
    if training.distinct_texts and len(rows) < min(training.batch_size, _fillable(feed, processes)):
        raise ConfigError(
            "training.batch_size: more than the rows there are, and with training.distinct_texts their one "
            "batch may leave a process without any; lower it, or train in one process"
        )
    return order


def _check_lengths(rows: Rows, lengths: np.ndarray, budget: int, *, least: int) -> None:
    """Refuse a budget in which a row, or the longest `least` rows, have no room."""
    longest = np.argsort(-lengths, kind="stable")[:least]  # (least,)
    row, tokens, together = longest[0], lengths[longest[0]], int(lengths[longest].sum())
    way_out = f"raise training.batch_tokens to {together:,} or more, or lower backbone.max_length"
    if tokens > budget:
        raise ConfigError(
            f"training.batch_tokens: {_named(rows, row)} has {tokens:,} tokens over all views, more than the "
            f"{budget:,} of a batch; {way_out}"
        )
    if together > budget:
        raise ConfigError(
            f"training.batch_tokens: a batch has {least} rows or more, and the longest {least} (first "
            f"{_named(rows, row)}) have {together:,} tokens over all views, more than {budget:,}; {way_out}"
        )


def _fillable(feed: "Feed", processes: int) -> int:
    """So many rows fill any batch with one for each process, whatever order they come in."""
    if processes == 1:
        return 0
    texts = feed.texts_of_rows  # (rows, views)
    # A row keeps out those that share a text with it, and it is no longer to come itself.
    kept_out = _rows_with(feed)[texts].sum(axis=1) - texts.shape[1] + 1  # (rows,)
    return int(np.sort(kept_out)[-(processes - 1) :].sum()) + 1


def _rows_with(feed: "Feed") -> np.ndarray:
    """How many rows have each text, ``(texts,)``; one that has it twice counts once."""
    identities = np.sort(feed.texts_of_rows, axis=1)  # (rows, views)
    repeated = np.diff(identities, axis=1, prepend=-1) == 0  # (rows, views)
    return np.bincount(identities[~repeated])


def _no_batch(feed: "Feed", rows: Rows, size: int) -> str:
    counts = _rows_with(feed)  # (texts,)
    commonest = int(counts.argmax())
    return (
        f"training.distinct_texts: no batch of {size:,} of the {len(rows):,} rows can be filled without "
        f"equal texts; {_short(feed.texts[commonest])} alone is in {counts[commonest]:,} of them. Lower "
        "training.batch_size, or leave training.distinct_texts=false"
    )


def _named(rows: Rows, row: int) -> str:
    return f"training row {row:,}, counted from 0, {_short(next(iter(rows.texts.values()))[row])},"


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")
