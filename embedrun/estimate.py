"""What a run costs, before it starts: parameters, memory, steps, tokens, operations and time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from pathlib import Path

import numpy as np
import torch
from torch.utils.benchmark import Timer

from embedrun import console, devices
from embedrun.backbone import adapter as adapters
from embedrun.backbone.adapter import BLOCK
from embedrun.backbone.declared import Declared
from embedrun.backbone.shape import Linear, Shape, Size, shape_of, size_of
from embedrun.backbone.tokens import tokens_of
from embedrun.backbone.transformer import computed_tokens, scored_length
from embedrun.backbone.unpadded import FAMILIES
from embedrun.config import AdapterConfig, BackboneConfig, EvaluationConfig, TeacherConfig, TrainConfig
from embedrun.dataset.mix import Mix
from embedrun.experiment.amounts import at_a_time, computed_weights, flops, processes_of, rows_per_process
from embedrun.experiment.build import prompts_of
from embedrun.experiment.data import Divided
from embedrun.experiment.plan import TrainPlan
from embedrun.experiment.scoring import Scorer
from embedrun.family import family_name
from embedrun.gpu import precision
from embedrun.loss.terms import Pass
from embedrun.pooling import FIRST_LAST, HEAD, LEGACY, POOLER
from embedrun.prompts import Prompt, in_use, of
from embedrun.rows import MASKED, Rows, texts_at
from embedrun.training.gradient import seeded
from embedrun.training.mixture import Mixture, mixed_batches
from embedrun.training.order import Order, Schedule

_NO_LIMIT = 512  # tokens taken for a model that reads texts of any length


def longest(backbone: BackboneConfig, shape: Shape | None, size: Size | None) -> int:
    """Tokens of the longest text that the backbone reads, as far as that is known."""
    limits = [backbone.max_length, shape and shape.max_length, size and size.positions]
    return next((limit for limit in limits if limit), _NO_LIMIT)


def longest_scored(
    backbone: BackboneConfig, evaluation: EvaluationConfig, shape: Shape | None, size: Size | None
) -> int:
    """Tokens of the longest text that is read where it is scored, as far as that is known."""
    if evaluation.max_length is not None:
        return min(evaluation.max_length, (size and size.positions) or evaluation.max_length)
    declared = (shape and shape.declared) or Declared()
    reads = longest(replace(backbone, max_length=None), shape, size)
    return scored_length(reads, declared, trained=backbone.max_length, is_new=backbone.scratch is not None)


_HALF = ("bf16", "fp16")
_SAMPLE = 512  # rows, or sentences
_PER_WORD = 1.3  # tokens of BERT's word pieces in a word of English, about
_ENDS = 2  # tokens that a model adds
Count = Callable[[Sequence[str]], Sequence[int]]


@dataclass(frozen=True)
class RowTokens:
    """Tokens of the texts of each sampled row, one a pass, ``(passes, sample)``.

    `measured`: whether a tokenizer counted them; else they are estimated from words.
    """

    lengths: np.ndarray
    measured: bool

    @property
    def mean(self) -> float:
        """Tokens of a row over all passes, on average."""
        return float(self.lengths.sum(axis=0).mean())


def row_tokens(
    plan: TrainPlan, train: Mapping[str, Rows], shape: Shape | None, size: Size | None
) -> dict[str, RowTokens]:
    """The tokens of a sample of the training rows of each part, each text truncated as in training.

    A masked copy counts as the sentence that it is of. A `shape` or `size` of None is not known.
    """
    config = plan.config
    tokenizer = shape.tokenizer if shape else None
    declared = of(config.backbone.prompt) if config.backbone.prompt else shape.prompt if shape else None
    count, most = token_counter(tokenizer), longest(config.backbone, shape, size)
    sizes: dict[str, RowTokens] = {}
    for part, losses in plan.losses.items():
        prompts = prompts_of(plan, declared, {}, part)
        chosen, lengths = sampled(len(train[part])), []
        for way in losses.passes.values():
            texts = texts_at(train[part].texts["text" if way.view in MASKED else way.view], chosen)
            lengths.append(np.minimum(count(_filled(texts, prompts.get(way.view))), way.max_length or most))
        sizes[part] = RowTokens(np.array(lengths, dtype=np.int64), tokenizer is not None)  # (passes, sample)
    return sizes


def _filled(texts: Sequence[str], prompt: Prompt | None) -> Sequence[str]:
    return texts if prompt is None else [prompt.filled(text) for text in texts]


@lru_cache(maxsize=4)
def token_counter(tokenizer: Path | None) -> Count:
    """Counts the tokens of each text by a `tokenizer.json`, those at its ends too; None: by their words."""
    if tokenizer is None:
        return lambda texts: [round(_PER_WORD * len(text.split())) + _ENDS for text in texts]
    return tokens_of(tokenizer, "backbone.name", ends=True)


def sampled(count: int) -> list[int]:
    """Places of at most 512 of so many rows or texts, at least one, spread over all of them."""
    return np.unique(np.linspace(0, count - 1, min(_SAMPLE, count)).astype(int)).tolist()


_SCALES = 256  # scales that share one of their own, with double quantisation
_DRAWN = 16  # batches or parts whose padding is looked at


def adapter_weights(linear: Sequence[Linear], adapter: AdapterConfig) -> int:
    """How many weights the adapter beside these layers has."""
    lengths = sum(layer.outputs for layer in linear) if adapter.variant == "dora" else 0
    return adapter.r * sum(layer.inputs + layer.outputs for layer in linear) + lengths


def estimate(
    size: Size,
    *,
    texts: int,
    length: float,
    trained: int,
    half: bool = False,
    attention: str = "sdpa",
    checkpointing: bool = False,
    dtype_bytes: int = 4,
    adapter: AdapterConfig | None = None,
    adapted: Sequence[Linear] = (),
) -> dict[str, int]:
    r"""Bytes of a training process, without temporary memory of kernels, losses and the allocator's rest.

    Weights are with the copies in 16 bits that autocast makes; gradients of the trainable parameters and
    AdamW's two moments are in float32; activations are what the backward pass needs of one forward pass. With
    *h* the width, *i* the dimensions inside the feed-forward layer and *b* the bytes of a number computed
    with, one layer keeps for each token, as measured on the models of transformers,

    .. math:: b\,(10\,h + g\,i)

    bytes in float32, with *g* = 2, or 4 with a gate; in 16 bits 14.5 instead of 10: norms keep float32.
    (Korthikanti et al. 2022, arXiv:2205.05198, Eq. 2, count 9 and 2 in 16 bits, with norms in 16 bits too.)
    Eager attention adds its scores before and after softmax. An adapter with dropout keeps the input of each
    layer that it stands beside once more, and the mask of its dropout. Gradient checkpointing keeps *h*
    numbers of float32 a layer, and everything of one layer at a time.

    Args:
        texts: of all views that are in memory at a time, each with `length` tokens and padding on average.
        trained: number of trainable parameters.
        half: whether the model computes in 16 bits.
        dtype_bytes: of a weight that is not in 4 bits.
        adapted: the layers that the adapter stands beside.
    """
    number = 2 if half else 4  # bytes
    layer = number * ((14.5 if half else 10) * size.width + (4 if size.gated else 2) * size.intermediate)
    if attention == "eager":
        layer += 2 * number * size.heads * length
    if adapter is not None and adapter.dropout > 0:
        layer += (number + 1) * sum(beside.inputs for beside in adapted) // size.depth
    per_token = 4 * size.width * size.depth + layer if checkpointing else layer * size.depth
    return {
        "weights": _held_weights(size, half, dtype_bytes, adapter, adapted),
        "gradients": 4 * trained,
        "optimizer": 8 * trained,
        "activations": round(texts * length * per_token),
    }


def _held_weights(
    size: Size, half: bool, dtype_bytes: int, adapter: AdapterConfig | None, adapted: Sequence[Linear]
) -> int:
    weights = dtype_bytes * size.weights
    if adapter is not None and adapter.quantize is not None:
        scale = 1 + 4 / _SCALES if adapter.double_quantize else 4  # bytes a block
        weights += round(size.matrices * (0.5 + scale / BLOCK)) - dtype_bytes * size.matrices
    elif half and dtype_bytes == 4:
        weights += 2 * size.matrices
    return weights if adapter is None else weights + 4 * adapter_weights(adapted, adapter)


def price(
    config: TrainConfig,
    passes: Mapping[str, Pass],
    shape: Shape | None,
    size: Size | None,
    *,
    batch: int,
    tokens: RowTokens | None,
) -> list[list[str]]:
    """Table rows of what and how much: parameters, trainable ones, usual and highest memory.

    `passes` are the views that go through the encoder, by key. `batch` is how many rows one usually has. A
    `shape`, `size` or `tokens` of None is not known; without `tokens` all texts are as long as they may be.
    """
    if shape is None or size is None:
        return [["parameters", f"not known: no configuration of {config.backbone.name} on this machine"]]
    parameters, trained = _parameters(config, shape, size)
    rows = at_a_time(config, batch)
    teachers, unknown = _teachers(config.training.teachers or ())
    memory = partial(_memory, config, shape, size, batch=batch, views=len(passes), teachers=teachers)
    most = longest(config.backbone, shape, size) if tokens is None else int(tokens.lengths.max())
    usual, how = (most, "") if tokens is None else _usual_length(config, shape, tokens, rows)
    parts = " + ".join(f"{name} {console.size(count)}" for name, count in memory(usual).items())
    per_device = " a device" if processes_of(config) > 1 else ""
    bits = 16 if precision(config.gpu) in _HALF else 32
    lines = [
        ["parameters", f"{parameters:,}{shape.source}"],
        ["trainable parameters", f"{trained:,}"],
        [f"memory{per_device}, estimated", f"{console.size(sum(memory(usual).values()))}: {parts}"],
        ["", f"for {rows * len(passes):,} texts of {usual:.0f} tokens{how} at a time, in {bits} bits"],
    ]
    if tokens is not None:
        worst = console.size(sum(memory(most).values()))
        lines.append(["", f"at most {worst}, if all have {most}, as the longest looked at"])
    if unknown:
        lines.append(["", f"without that of {', '.join(unknown)}, whose size is not known here"])
    if config.gpu.device == "cuda" or (config.gpu.device == "auto" and torch.cuda.is_available()):
        held = sum(memory(usual).values())
        lines += _on_devices(config, shape, size, rows * len(passes), usual, held, batch)
    return lines


def _on_devices(
    config: TrainConfig, shape: Shape, size: Size, texts: int, length: float, memory: int, batch: int
) -> list[list[str]]:
    """Table rows of memory and time of 1,000 steps on CUDA devices, here or not."""
    kind, (_, trained) = precision(config.gpu), _parameters(config, shape, size)
    parts = -(-rows_per_process(config, batch) // at_a_time(config, batch)) * config.training.accumulate
    one = flops(config, size, shape, 1, batch=batch) / ((4 if shape.adapter else 6) * computed_weights(size))
    found = devices.lines(
        shape.config,
        texts=texts,
        length=length,
        precision=kind,
        trained=trained,
        frozen=shape.adapter is not None,
        memory=memory,
        times=one * parts,
    )
    label = f"1,000 steps, {'a device, ' if processes_of(config) > 1 else ''}counted"
    return [[label if place == 0 else "", line] for place, line in enumerate(found)]


def _parameters(config: TrainConfig, shape: Shape, size: Size) -> tuple[int, int]:
    head = size.width * (size.width + 1) if config.pooling.name == HEAD else 0
    if shape.adapter is not None:
        beside = adapter_weights(_adapted(size, shape.adapter), shape.adapter)
        return size.weights + beside + head, beside + head
    unused = 0 if config.pooling.name == POOLER else size.pooler
    return size.weights + head, size.weights + head - unused


def _adapted(size: Size, adapter: AdapterConfig | None) -> list[Linear]:
    if adapter is None:
        return []
    names = adapters.target_names([layer.name for layer in size.linear], adapter.targets)
    return [layer for layer in size.linear if any(adapters.ends(layer.name, name) for name in names)]


def _teachers(teachers: Sequence[TeacherConfig]) -> tuple[int, list[str]]:
    weights, unknown = 0, []
    for teacher in teachers:
        shape = shape_of(BackboneConfig(name=teacher.name, revision=teacher.revision))
        size = None if shape is None else size_of(shape.config)
        if size is None:
            unknown.append(teacher.name)
        else:
            weights += size.weights
    return weights, unknown


def _memory(
    config: TrainConfig, shape: Shape, size: Size, length: float, *, batch: int, views: int, teachers: int
) -> dict[str, int]:
    """Bytes of a process by what is in them; `length` is the tokens of a text, `teachers` their weights."""
    rows, training = at_a_time(config, batch), config.training
    _, trained = _parameters(config, shape, size)
    memory = estimate(
        size,
        texts=rows * views,
        length=length,
        trained=trained,
        half=precision(config.gpu) in _HALF,
        attention=config.backbone.attention,
        checkpointing=training.gradient_checkpointing,
        dtype_bytes=2 if config.backbone.dtype == "bfloat16" else 4,
        adapter=shape.adapter,
        adapted=_adapted(size, shape.adapter),
    )
    # Gradients come as activations go, unless those of an earlier part or batch are there already.
    if rows == rows_per_process(config, batch) and training.accumulate == 1:
        del memory[min(("activations", "gradients"), key=lambda part: memory[part])]
    if training.optimizer == "sam":
        memory["SAM's copy"] = 4 * trained
    if training.ema is not None:
        memory["averages"] = 4 * trained
    if config.gpu.shard == "full":
        whole = ("activations", "teachers")
        memory |= {name: count // processes_of(config) for name, count in memory.items() if name not in whole}
    memory["teachers"] = 4 * teachers  # in float32
    return {name: count for name, count in memory.items() if count}


def _usual_length(config: TrainConfig, shape: Shape, tokens: RowTokens, rows: int) -> tuple[float, str]:
    """Tokens of a text on average, with its padding, in the largest of some batches, and that in words."""
    cuda = config.gpu.device == "cuda" or (config.gpu.device == "auto" and torch.cuda.is_available())
    flat = cuda and _unpadded(config, shape)
    drawn = np.random.default_rng(0).integers(tokens.lengths.shape[1], size=(_DRAWN, rows))
    lengths = tokens.lengths[:, drawn].swapaxes(0, 1).reshape(_DRAWN, -1)  # (drawn, passes * rows)
    computed = max(computed_tokens(batch, "cuda" if cuda else "cpu", flat=flat) for batch in lengths)
    return computed / lengths.shape[1], " on average" if flat else " on average, padding included,"


def _unpadded(config: TrainConfig, shape: Shape) -> bool:
    """Whether a pass on CUDA is to be without padding: what `unpadded.usable` will say of the model."""
    training, gpu = config.training, config.gpu
    return (
        precision(config.gpu) in _HALF
        and config.backbone.attention == "sdpa"
        and config.pooling.name not in (FIRST_LAST, *LEGACY)
        and not (training.gradient_checkpointing or gpu.deterministic)
        and not seeded(training)
        and shape.config.get("model_type") in FAMILIES
    )


@dataclass(frozen=True)
class Batches:
    """What is known of a run's batches; None: not known without the data.

    A batch has at most `most` rows, usually `usual`, and if they are `exact` all have the most. The `order`
    is that of batches of the usual size of so many `rows`, which have these `tokens`; of a mixture those of
    the `part` with the longest rows, and `mean` is over all parts, as often as each comes.
    """

    most: int
    usual: int
    exact: bool
    rows: int | None = None
    tokens: RowTokens | None = None
    order: Schedule | None = None
    part: str = ""
    mean: float = 0.0


def batches(
    plan: TrainPlan, data: Divided | None, tokens: Mapping[str, RowTokens], *, made: int | None = None
) -> Batches:
    """The batches of a run, as far as they are known; without `data`, `tokens` is empty.

    With `training.batch_tokens` and `training.distinct_texts` their number depends on texts that are seen
    only in training, so it is about. `made` is how many training rows there will be, where they are missing
    because they are still to be made.
    """
    config, mix = plan.config, plan.dataset
    if not isinstance(mix, Mix) or data is None:
        return _of_rows(config, made if data is None else data.rows, tokens.get(""), is_made=data is None)
    if mix.batches == "mixed":
        order: Schedule = mixed_batches(mix, data.sizes, config.training, config.seed)
        return replace(_of_rows(config, data.rows, tokens[""]), order=order)
    parts = {part: _of_rows(config, len(rows), tokens[part]) for part, rows in data.train.items()}
    orders = {part: batch.order for part, batch in parts.items() if isinstance(batch.order, Order)}
    mixture = Mixture(mix, orders, seed=config.seed, accumulate=config.training.accumulate)
    most, usual = max(batch.most for batch in parts.values()), max(batch.usual for batch in parts.values())
    heaviest = max(parts, key=lambda part: tokens[part].mean * parts[part].usual)
    drawn = sum(count * parts[part].usual * tokens[part].mean for part, count in mixture.counts.items())
    return Batches(
        most,
        usual,
        all(batch.exact for batch in parts.values()),
        data.rows,
        tokens[heaviest],
        mixture,
        part=heaviest,
        mean=drawn / (usual * sum(mixture.counts.values())),
    )


def _of_rows(
    config: TrainConfig, count: int | None, tokens: RowTokens | None, *, is_made: bool = False
) -> Batches:
    """The batches of so many rows; `is_made`: they are still to be made or got."""
    training = config.training
    exact = training.batch_tokens is None and not training.distinct_texts
    if count is None or (is_made and not exact):
        return Batches(training.batch_size, training.batch_size, training.batch_tokens is None)
    most = usual = min(training.batch_size, count)
    if training.batch_tokens is not None and tokens is not None:
        # Rounded down: the row that would take a batch above its budget is in the next one.
        usual = max(1, min(most, int(training.batch_tokens / tokens.mean)))
    order = Order(count, usual, training.accumulate, config.seed)
    return Batches(most, usual, exact, count, tokens, order, mean=0.0 if tokens is None else tokens.mean)


@dataclass(frozen=True)
class Scored:
    """The distinct sentences that a run scores: those of `dev` select, or are of `training.dev_tasks`.

    `beside` are tasks whose work is not, or not only, to encode these; the rest of it is not counted.
    """

    test: Sequence[str]
    dev: Sequence[str] = ()
    beside: Sequence[str] = ()

    @classmethod
    def by(cls, test: Scorer, dev: Scorer | None = None) -> "Scored":
        """What these score."""
        tasks = {**test.tasks, **({} if dev is None else dev.tasks)}
        beside = [
            name for name, task in tasks.items() if not task.sources() or family_name(task) == "senteval"
        ]
        return cls(_distinct(test), () if dev is None else _distinct(dev), beside)

    def lines(self, dev_scores: int) -> list[list[str]]:
        """Table rows of what is encoded in a training run, and how often."""
        lines = []
        if self.test:
            lines.append(f"{len(self.test):,} test sentences, before training and after it")
        if self.dev:
            lines.append(f"{len(self.dev):,} dev sentences, {dev_scores + _MORE_SCORES} times")
        if self.beside:
            lines.append(f"further work of {', '.join(self.beside)} is not counted")
        return [["" if place else "scoring", line] for place, line in enumerate(lines or ["nothing"])]

    def operations(
        self,
        backbone: BackboneConfig,
        evaluation: EvaluationConfig,
        shape: Shape,
        size: Size,
        *,
        dev_scores: int | None = None,
    ) -> float:
        """Floating-point operations of encoding, about: two for each weight of a linear layer and token.

        Attention between tokens is not included. `dev_scores` are those of a training run, in which the test
        sentences are encoded twice; None: an evaluation.
        """
        trained = of(backbone.prompt) if backbone.prompt else shape.prompt
        prompt = in_use(trained, evaluation.prompt, evaluation.text_edit)
        count, most = token_counter(shape.tokenizer), longest_scored(backbone, evaluation, shape, size)

        def tokens(texts: Sequence[str]) -> float:
            if not texts:
                return 0.0
            lengths = count(_filled([texts[place] for place in sampled(len(texts))], prompt))
            return float(np.minimum(lengths, most).mean()) * len(texts)

        total = tokens(self.test)
        if dev_scores is not None:
            total = 2 * total + tokens(self.dev) * (dev_scores + _MORE_SCORES)
        return 2 * computed_weights(size) * total


_MORE_SCORES = 2  # of the dev sentences: before the first step, and with the weights selected


def _distinct(scorer: Scorer) -> list[str]:
    return list(dict.fromkeys(text for rows in scorer.every_rows() for text in rows.sentences()))


@dataclass(frozen=True)
class Cost:
    """Steps of a run, scores on dev, tokens, operations of the steps and of scoring; None: not known."""

    steps: int
    dev_scores: int = 0
    tokens: float | None = None
    operations: float | None = None
    scoring: float | None = None

    @classmethod
    def of(
        cls,
        config: TrainConfig,
        batches: Batches,
        shape: Shape | None,
        size: Size | None,
        scored: Scored | None = None,
    ) -> "Cost":
        """What training costs, as far as it is known: without the data, the steps of an option at most."""
        if batches.order is None:
            return cls(config.training.max_steps or 0)
        training, order = config.training, batches.order
        steps = order.steps(training.epochs, training.max_steps)
        regular, per_epoch = -(-steps // (training.evaluate_every or steps)), training.evaluations_per_epoch
        cost = cls(steps, regular if per_epoch is None else len(order.marks(steps, per_epoch) | {steps}))
        if batches.tokens is None:
            return cost
        tokens = steps * config.training.accumulate * batches.usual * batches.mean
        if shape is None or size is None:
            return replace(cost, tokens=tokens)
        work, scoring = flops(config, size, shape, tokens, batch=batches.usual), None
        if scored is not None:
            count = cost.dev_scores
            scoring = scored.operations(config.backbone, config.evaluation, shape, size, dev_scores=count)
        return replace(cost, tokens=tokens, operations=work, scoring=scoring)


def cost(
    config: TrainConfig,
    batches: Batches,
    shape: Shape | None,
    size: Size | None,
    scored: Scored | None = None,
) -> list[list[str]]:
    """Table rows of what and how much: steps, dev scores, tokens, scoring, time."""
    training, order, tokens = config.training, batches.order, batches.tokens
    if order is None:
        most = "" if training.max_steps is None else f"at most {training.max_steps:,}; else "
        return [["optimizer steps", f"{most}not known without the data"]]
    known = Cost.of(config, batches, shape, size, scored)
    about = "" if batches.exact else "about "
    about_steps = "" if known.steps == training.max_steps else about
    most = "" if training.patience is None else ", at most"
    times = f"{about_steps}{known.dev_scores:,}{most}, after the one before training"
    epochs = f"{about}{order.epoch(known.steps):.3g} epochs of {batches.rows:,} rows"
    lines = [
        ["optimizer steps", f"{about_steps}{known.steps:,}, {epochs}"],
        ["dev scores", times if scored is None or scored.dev else "none"],
    ]
    if tokens is None or known.tokens is None:
        return [*lines, ["tokens", "not known before the rows are made"]]
    how = "counted by the tokenizer" if tokens.measured else "estimated at 1.3 a word, without a tokenizer,"
    run = f"about {console.short(known.tokens)}: {batches.mean:.0f} a row in all passes, padding not counted,"
    lines += [["tokens", run], ["", f"{how} in {tokens.lengths.shape[1]:,} of the rows"]]
    lines += [] if scored is None else scored.lines(known.dev_scores)
    return lines if known.operations is None else [*lines, *_time(config, known.operations, known.scoring)]


_SIDE = 1024  # rows and columns of the matrices whose product is timed
_SECONDS = 0.1  # of timings together


def seconds(device: str, work: float, kind: str, processes: int = 1) -> float | None:
    """Duration of so many operations in a precision, at the rate of a matrix product on this machine.

    `device` is `gpu.device`. None where this machine lacks the CUDA that they need.
    """
    cuda = device != "cpu" and torch.cuda.is_available()
    if not cuda and (device == "cuda" or kind in ("tf32", "fp16")):
        return None
    return work / (rate("cuda" if cuda else "cpu", kind) * (processes if cuda else 1))


def _time(config: TrainConfig, work: float, scoring: float | None) -> list[list[str]]:
    kind, device = precision(config.gpu), config.gpu.device
    training = seconds(device, work, kind, processes_of(config))
    if training is None:
        return [["time, estimated", "not known on a machine without CUDA"]]
    for_scoring = seconds(device, scoring, config.evaluation.precision) if scoring else None
    more = "" if for_scoring is None else f" and {span(for_scoring)} for scoring"
    more += ", teachers not counted" if config.training.teachers else ""
    per_second = f"{work / max(training, 1e-9):.2e}".replace("e+", "e")
    return [
        ["time, estimated", f"about {span(training)} for the steps{more}"],
        ["", f"at {per_second} operations a second, as a matrix product in {kind} does now, or half of it"],
    ]


def span(seconds: float) -> str:
    """Durations at the rate of a matrix product and at half of it, which training often reaches."""
    return f"{console.duration(seconds)} to {console.duration(2 * seconds)}"


@cache
def rate(device: str, kind: str) -> float:
    """Floating-point operations a second of a matrix product on this machine, the median of several timings.

    `device` is `cpu` or `cuda`; `kind` is the precision: `fp32`, `tf32`, `bf16` or `fp16`.
    """
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(kind, torch.float32)
    side = _SIDE * (4 if device == "cuda" else 1)
    matrix = torch.full((side, side), 0.5, dtype=dtype, device=device)  # (side, side)
    timer = Timer("matrix @ matrix", globals={"matrix": matrix}, num_threads=torch.get_num_threads())
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    try:
        return 2 * side**3 / timer.blocked_autorange(min_run_time=_SECONDS).median
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
