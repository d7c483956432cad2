"""The cost of a run's steps: batches, tokens, operations, time."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from embedrun.backbone.shape import Shape, Size
from embedrun.batch import TokenTable
from embedrun.config import TrainConfig, TrainingConfig
from embedrun.console import duration
from embedrun.dataset import views_of
from embedrun.errors import ConfigError
from embedrun.estimate.memory import at_a_time, longest, own_rows, precision, processes_of
from embedrun.estimate.scoring import Scored
from embedrun.estimate.tokens import RowTokens, row_tokens
from embedrun.experiment.plan import TrainPlan
from embedrun.prompt import in_training, of
from embedrun.rows import Rows
from embedrun.training.feed import Feed, order_of
from embedrun.training.order import Order


@dataclass(frozen=True)
class Known:
    """The training rows, how many there are, in batches.

    `tokens` is None where the rows are still to be made. `order` is that of the run, or if not `exact` one of
    batches of the usual size. `whole`: whether no row can be too long for `training.batch_tokens`.
    """

    rows: int
    tokens: RowTokens | None
    order: Order
    exact: bool = True
    whole: bool = True

    def steps(self, training: TrainingConfig) -> tuple[int, bool]:
        """Optimizer steps of a run, and whether that number is exact."""
        count = self.order.steps(training.epochs, training.max_steps)
        if self.exact or training.distinct_texts:
            return count, self.exact
        # A budget of tokens closes batches sooner, never later: there are at least this many steps.
        least = Order(self.rows, training.batch_size, training.accumulate, self.order.seed)
        return count, least.steps(training.epochs, training.max_steps) == training.max_steps


@dataclass(frozen=True)
class Batches:
    """What is known of a run's batches: rows of one, at most and usually, and whether all have the most.

    `known` is None where the data is missing.
    """

    most: int
    usual: int
    even: bool
    known: Known | None = None


def batches(
    plan: TrainPlan, rows: Rows | None, tokens: RowTokens | None, *, made: int | None = None
) -> Batches:
    """The batches of a run, as far as they are known; `rows` and `tokens` are None where the data is missing.

    `made` is how many training rows there will be, where they are missing because they are still to be made.

    Raises:
        ConfigError: if `training.batch_tokens` or `training.distinct_texts` is impossible with these rows.
    """
    training = plan.config.training
    count = made if rows is None else len(rows)
    if count is not None and training.batch_tokens is None and not training.distinct_texts:
        most = min(training.batch_size, count)
        order = Order(count, training.batch_size, training.accumulate, plan.config.seed)
        return Batches(most, most, True, Known(count, tokens, order))
    if rows is None or tokens is None:
        return Batches(training.batch_size, training.batch_size, training.batch_tokens is None)
    if training.batch_tokens is not None:
        return _budgeted(plan.config, training.batch_tokens, len(rows), tokens)
    most = min(training.batch_size, len(rows))
    even = training.batch_size <= len(rows)  # a batch of all rows is without those that share a text
    return Batches(most, most, even, _distinct(plan, rows, tokens))


def _distinct(plan: TrainPlan, rows: Rows, tokens: RowTokens) -> Known:
    config = plan.config
    feed = Feed(rows, _no_tokens, plan.losses.passes, [], seed=config.seed)
    # Sorted by length the rows come in another order, which shows only once all are tokenised.
    training = replace(config.training, batching="random")
    order = order_of(feed, rows, training, config.seed, processes=processes_of(config))
    return Known(len(rows), tokens, order, exact=config.training.batching == "random")


def _no_tokens(texts: Sequence[str], *_: object) -> TokenTable:
    """Texts without tokens, for a feed that is asked only which texts are identical."""
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


_SIDE = 1024  # rows and columns of the matrices whose product is timed
_SECONDS, _TIMINGS = 0.02, 5  # of each timing; a busy machine may halve any of them


def tokens(plan: TrainPlan, rows: Rows, shape: Shape | None, size: Size | None) -> RowTokens:
    """The tokens of the training rows, from a sample; a `shape` or `size` of None is not known.

    Raises:
        DataError: if the backbone's tokenizer file is none.
    """
    config = plan.config
    prompt = of(config.backbone.prompt) if config.backbone.prompt else shape.prompt if shape else None
    return row_tokens(
        rows,
        plan.losses.passes,
        tokenizer=shape.tokenizer if shape else None,
        longest=longest(config.backbone, shape, size),
        prompts=in_training(prompt, config.dataset.get("prompts") or {}, views_of(plan.dataset)),
        seed=config.seed,
    )


def cost(
    config: TrainConfig,
    found: Batches,
    shape: Shape | None,
    size: Size | None,
    scored: Scored | None = None,
) -> list[list[str]]:
    """Table rows of what and how much: steps, dev scores, tokens, scoring, time.

    A `shape`, `size` or `scored` of None is not known.
    """
    training, known = config.training, found.known
    if known is None:
        most = "" if training.max_steps is None else f"at most {training.max_steps:,}; else "
        return [["optimizer steps", f"{most}not known without the data"]]
    steps, sure = known.steps(training)
    epochs = f"{_about(known.exact)}{known.order.epoch(steps):.3g} epochs of {known.rows:,} rows"
    lines = [
        ["optimizer steps", f"{_about(sure)}{steps:,}, {epochs}"],
        ["dev scores", _scores(config, known, steps, sure) if scored is None or scored.dev else "none"],
    ]
    if known.tokens is None:
        return [*lines, ["tokens", "not known before the rows are made"]]
    total = steps * training.accumulate * found.usual * known.tokens.mean
    lines += _tokens(total, known.tokens)
    count, _ = dev_scores(config, known, steps)
    if scored is not None:
        lines += scored.lines(count)
    if size is not None and shape is not None:
        work = flops(config, size, shape, total, batch=found.usual)
        also = None
        if scored is not None:
            also = scored.operations(config.backbone, config.evaluation, shape, size, dev_scores=count)
        lines += _time(config, work, also)
    return lines


def _about(exact: bool) -> str:
    return "" if exact else "about "


def dev_scores(config: TrainConfig, known: Known, steps: int) -> tuple[int, bool]:
    """How often a run of so many steps is scored on dev, and whether that is exact where `steps` is."""
    training = config.training
    if training.evaluations_per_epoch is not None:
        return len(known.order.marks(steps, training.evaluations_per_epoch) | {steps}), known.exact
    return -(-steps // (training.evaluate_every or steps)), True


def _scores(config: TrainConfig, known: Known, steps: int, sure: bool) -> str:
    count, is_exact = dev_scores(config, known, steps)
    most = "" if config.training.patience is None else ", at most"
    return f"{_about(sure and is_exact)}{count:,}{most}, after the one before training"


def _tokens(total: float, tokens: RowTokens) -> list[list[str]]:
    how = (
        "counted by the tokenizer"
        if tokens.measured
        else "estimated at 1.3 a word, since no tokenizer is here yet,"
    )
    return [
        ["tokens", f"about {rounded(total)}: {tokens.mean:.0f} a row in all passes, padding not counted,"],
        ["", f"{how} in {tokens.sample:,} of the rows"],
    ]


def flops(config: TrainConfig, size: Size, shape: Shape, tokens: float, *, batch: int | None = None) -> float:
    """Floating-point operations of the training steps, about.

    Two for each weight outside the embeddings and token in the forward pass, as many for the gradient at the
    activations, and as many for that at the weights, which an adapter leaves out. Encoding in parts
    and gradient checkpointing each add a forward pass; SAM does all of it twice. Attention between tokens,
    losses, teachers and scoring are not included.

    `tokens` are those of the whole run; `batch` is the rows of a batch, by default as configured.
    """
    training = config.training
    rows = batch or training.batch_size
    parts = at_a_time(config, rows) < own_rows(config, rows)
    each = (4 if shape.adapter else 6) + 2 * parts + 2 * training.gradient_checkpointing
    weights = size.weights - size.embeddings - size.pooler
    return (2 if training.optimizer == "sam" else 1) * each * weights * tokens


def _time(config: TrainConfig, work: float, scoring: float | None) -> list[list[str]]:
    import torch

    kind, device = precision(config), config.gpu.device
    cuda = device != "cpu" and torch.cuda.is_available()
    if not cuda and (device == "cuda" or kind in ("tf32", "fp16")):
        return [["time, estimated", "not known on a machine without CUDA"]]
    per_second = rate("cuda" if cuda else "cpu", kind)
    processes = processes_of(config)
    if cuda:
        per_second *= processes
    many = f" x {processes} processes" if cuda and processes > 1 else ""
    what = f"{per_second / processes if many else per_second:.2e}".replace("e+", "e")
    beside = ["teachers"] if config.training.teachers else []
    beside += ["scoring"] if scoring is None else []
    also = " alone"
    if scoring:
        seconds = scoring / rate("cuda" if cuda else "cpu", config.evaluation.precision)
        also = f" and {span(seconds)} for scoring"
    more = also + (f", {' and '.join(beside)} not counted" if beside else "")
    return [
        ["time, estimated", f"about {span(work / per_second)} for the steps{more}"],
        ["", f"at {what} operations a second{many}: a matrix product in {kind}, timed just now on"],
        ["", f"{'this GPU' if cuda else 'this processor'}; training reaches less, often half of it"],
    ]


def span(seconds: float) -> str:
    """Durations at the rate of a matrix product and at half of it, which training often reaches."""
    return f"{duration(seconds)} to {duration(2 * seconds)}"


@cache
def rate(device: str, kind: str) -> float:
    """Floating-point operations a second of a matrix product on this machine, the median of several timings.

    `device` is `cpu` or `cuda`; `kind` is the precision: `fp32`, `tf32`, `bf16` or `fp16`.
    """
    import torch

    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(kind, torch.float32)
    side = _SIDE * (4 if device == "cuda" else 1)
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    try:
        matrix = torch.full((side, side), 0.5, dtype=dtype, device=device)  # (side, side)
        torch.mm(matrix, matrix)  # warm-up
        rates = []
        for _ in range(_TIMINGS):
            products, begin = 0, _now(device)
            while (passed := _now(device) - begin) < _SECONDS or not products:
                torch.mm(matrix, matrix)
                products += 1
            rates.append(products * 2 * side**3 / max(passed, 1e-9))
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    return statistics.median(rates)


def _now(device: str) -> float:
    """The time once the device has finished all its work."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def rounded(number: float) -> str:
    """A large number in three digits: 12,300 or 4.56 million."""
    for unit, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if number >= unit:
            return f"{number / unit:.3g} {name}"
    return f"{float(f'{number:.3g}'):,.0f}"
