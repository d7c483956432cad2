"""How long a run is: steps, dev scores, tokens, and about how much time."""

import time
from functools import cache

from embedrun.backbone.size import Size
from embedrun.commands.batches import Batches, Known, at_a_time, own_rows, processes_of
from embedrun.commands.price import longest, precision
from embedrun.commands.row_tokens import RowTokens, row_tokens
from embedrun.commands.shape import Shape
from embedrun.config import TrainConfig
from embedrun.experiment.plan import TrainPlan
from embedrun.prompt import in_training, of
from embedrun.rows import Rows, views_of

_SIDE = 1024  # rows and columns of the matrices whose product is timed
_SECONDS = 0.3


def tokens(plan: TrainPlan, rows: Rows, shape: Shape | None, size: Size | None) -> RowTokens:
    """The tokens of the training rows, from a sample.

    Args:
        plan: the checked configuration.
        rows: of the training split.
        shape: of the backbone; None: not known.
        size: of the same.

    Raises:
        DataError: if the backbone's file of a tokenizer is none.
    """
    config = plan.config
    prompt = of(config.backbone.prompt) if config.backbone.prompt else shape.prompt if shape else None
    return row_tokens(
        rows,
        plan.losses.passes,
        tokenizer=shape.tokenizer if shape else None,
        longest=longest(config, shape, size),
        prompts=in_training(prompt, config.dataset.get("prompts") or {}, views_of(plan.dataset)),
        seed=config.seed,
    )


def cost(config: TrainConfig, found: Batches, shape: Shape | None, size: Size | None) -> list[list[str]]:
    """Rows of what and how much: steps, dev scores, tokens, time.

    Args:
        config: the checked options.
        found: the batches of the run.
        shape: of the backbone; None: not known.
        size: of the same.
    """
    training, known = config.training, found.known
    if known is None:
        most = "" if training.max_steps is None else f"at most {training.max_steps:,}; else "
        return [["optimizer steps", f"{most}not known without the data"]]
    steps, sure = known.steps(training)
    epochs = f"{_about(known.exact)}{known.order.epoch(steps):.3g} epochs of {known.rows:,} rows"
    total = steps * training.accumulate * found.usual * known.tokens.mean
    lines = [
        ["optimizer steps", f"{_about(sure)}{steps:,}, {epochs}"],
        ["dev scores", _scores(config, known, steps, sure)],
        *_tokens(total, known.tokens),
    ]
    if size is not None and shape is not None:
        lines += _time(config, flops(config, size, shape, total, batch=found.usual))
    return lines


def _about(exact: bool) -> str:
    return "" if exact else "about "


def _scores(config: TrainConfig, known: Known, steps: int, sure: bool) -> str:
    training = config.training
    if training.evaluations_per_epoch is not None:
        count = len(known.order.marks(steps, training.evaluations_per_epoch) | {steps})
        sure = known.exact
    else:
        count = -(-steps // (training.evaluate_every or steps))
    most = "" if training.patience is None else ", at most"
    return f"{_about(sure)}{count:,}{most}, after that of the untrained model"


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
    losses, teachers and scoring are not in.

    Args:
        config: the checked options.
        size: of the backbone.
        shape: of the same.
        tokens: of the whole run.
        batch: rows of a batch; None: as configured.
    """
    training = config.training
    rows = batch or training.batch_size
    parts = at_a_time(config, rows) < own_rows(config, rows)
    each = (4 if shape.adapter else 6) + 2 * parts + 2 * training.gradient_checkpointing
    weights = size.weights - size.embeddings - size.pooler
    return (2 if training.optimizer == "sam" else 1) * each * weights * tokens


def _time(config: TrainConfig, work: float) -> list[list[str]]:
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
    beside = "teachers and scoring" if config.training.teachers else "scoring"
    return [
        ["time, estimated", f"about {duration(work / per_second)} for the steps alone, {beside} not counted"],
        ["", f"at {what} operations a second{many}: a product of matrices in {kind}, timed just now on"],
        ["", f"{'this GPU' if cuda else 'this processor'}; training reaches less, often half of it"],
    ]


@cache
def rate(device: str, kind: str) -> float:
    """Floating-point operations a second of a product of two matrices on this machine, timed for 0.3 s.

    Args:
        device: `cpu` or `cuda`.
        kind: precision: `fp32`, `tf32`, `bf16` or `fp16`.
    """
    import torch

    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(kind, torch.float32)
    side = _SIDE * (4 if device == "cuda" else 1)
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    try:
        matrix = torch.full((side, side), 0.5, dtype=dtype, device=device)  # (side, side)
        torch.mm(matrix, matrix)  # the first product prepares
        products, begin = 0, _now(device)
        while (passed := _now(device) - begin) < _SECONDS or not products:
            torch.mm(matrix, matrix)
            products += 1
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    return products * 2 * side**3 / max(passed, 1e-9)


def _now(device: str) -> float:
    """The time once everything asked of the device is done."""
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


def duration(seconds: float) -> str:
    """A length of time in the unit that suits it."""
    for unit, size in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}" if seconds < 100 * size else f"{seconds / size:,.0f} {unit}"
    return f"{max(1, round(seconds))} s"
