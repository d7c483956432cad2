"""Parameters and memory of a training run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import torch

from embedrun import console
from embedrun.backbone import adapter as adapters
from embedrun.backbone.adapter import BLOCK
from embedrun.backbone.declared import Declared
from embedrun.backbone.length import scored_length
from embedrun.backbone.shape import Linear, Shape, Size, measured_size, shape_of
from embedrun.backbone.transformer import computed_tokens
from embedrun.backbone.unpadded import foreseen
from embedrun.config import AdapterConfig, BackboneConfig, EvaluationConfig, TeacherConfig, TrainConfig
from embedrun.estimate.tokens import RowTokens
from embedrun.loss.terms import Pass
from embedrun.pooling import FIRST_LAST, HEAD, LEGACY, POOLER
from embedrun.training.memory import seeded

_BLOCKS = 256  # scales that share one of their own, with double quantisation


@dataclass(frozen=True)
class Step:
    """What a training step keeps in memory at a time: texts of all views.

    Each has `length` tokens, on average, with its padding. `half`: whether the model computes in 16 bits.
    """

    texts: int
    length: float
    half: bool
    attention: str
    gradient_checkpointing: bool


@dataclass(frozen=True)
class Memory:
    """Bytes of one training process.

    Args:
        weights: all of them, and the copies in 16 bits that autocast makes.
        gradients: of the trainable parameters, in float32.
        optimizer: AdamW's two moments, in float32.
        activations: what the backward pass needs of one forward pass.
    """

    weights: int
    gradients: int
    optimizer: int
    activations: int


def adapter_weights(linear: Sequence[Linear], r: int) -> int:
    """How many weights the matrices of rank `r` beside these layers have."""
    return r * sum(one.inputs + one.outputs for one in linear)


def estimate(
    size: Size,
    step: Step,
    *,
    trained: int,
    dtype_bytes: int = 4,
    adapter: AdapterConfig | None = None,
    adapted: Sequence[Linear] = (),
) -> Memory:
    r"""Bytes, to within a fifth or so, without temporary memory of kernels, losses and the allocator's rest.

    With *h* the width, *i* the dimensions inside the feed-forward layer and *b* the bytes of a number
    computed with, one layer keeps for each token, as measured on the models of transformers,

    .. math:: b\,(10\,h + g\,i)

    bytes in float32, with *g* = 2, or 4 with a gate; in 16 bits 14.5 instead of 10: norms keep float32.
    (Korthikanti et al. 2022, arXiv:2205.05198, Eq. 2, count 9 and 2 in 16 bits, with norms in 16 bits too.)
    Eager attention adds its scores before and after softmax. An adapter with dropout keeps the input of each
    layer that it stands beside once more, and the mask of its dropout. Gradient checkpointing keeps *h*
    numbers of float32 a layer, and everything of one layer at a time.

    Args:
        trained: number of trainable parameters.
        dtype_bytes: of a weight that is not in 4 bits.
        adapted: the layers that the adapter stands beside, of one of `size.copies` parts.
    """
    beside = size.copies * adapter_weights(adapted, adapter.r) if adapter else 0
    return Memory(
        weights=_weights(size, step, dtype_bytes, adapter) + 4 * beside,
        gradients=4 * trained,
        optimizer=8 * trained,
        activations=_activations(size, step, adapter, adapted),
    )


def _weights(size: Size, step: Step, dtype_bytes: int, adapter: AdapterConfig | None) -> int:
    if adapter is not None and adapter.quantize is not None:
        scale = 1 + 4 / _BLOCKS if adapter.double_quantize else 4  # bytes a block
        return round(size.matrices * (0.5 + scale / BLOCK)) + dtype_bytes * (size.weights - size.matrices)
    copies = 2 * size.matrices if step.half and dtype_bytes == 4 else 0
    return dtype_bytes * size.weights + copies


def _activations(size: Size, step: Step, adapter: AdapterConfig | None, adapted: Sequence[Linear]) -> int:
    number = 2 if step.half else 4  # bytes
    layer = number * ((14.5 if step.half else 10) * size.width + (4 if size.gated else 2) * size.intermediate)
    if step.attention == "eager":
        layer += 2 * number * size.heads * step.length
    if adapter is not None and adapter.dropout > 0:
        inputs = size.copies * sum(one.inputs for one in adapted)
        layer += (number + 1) * inputs // size.depth
    kept = 4 * size.width * size.depth + layer if step.gradient_checkpointing else layer * size.depth
    return round(step.texts * step.length * kept)


_NO_LIMIT = 512  # tokens taken for a model that reads texts of any length
_DRAWN = 16  # batches or parts whose padding is looked at


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

    Raises:
        ConfigError: for targets of an adapter that the model does not have.
    """
    if shape is None or size is None:
        return [["parameters", f"not known: no configuration of {config.backbone.name} on this machine"]]
    adapter = shape.adapter
    names = adapters.target_names([one.name for one in size.linear], adapter.targets) if adapter else []
    adapted = [one for one in size.linear if any(adapters.ends(one.name, name) for name in names)]
    head = size.width * (size.width + 1) if config.pooling.name == HEAD else 0
    beside = size.copies * adapter_weights(adapted, adapter.r) if adapter else 0
    unused = 0 if config.pooling.name == POOLER else size.pooler
    trained = head + (beside if adapter else size.weights - unused)
    rows = at_a_time(config, batch)
    texts = rows * len(passes)
    half = precision(config) in ("bf16", "fp16")
    frozen = [(one.name, _weight_lines(one)) for one in config.training.teachers or ()]

    def parts(length: float) -> dict[str, int]:  # bytes
        step = Step(texts, length, half, config.backbone.attention, config.training.gradient_checkpointing)
        found = estimate(
            size,
            step,
            trained=trained,
            dtype_bytes=2 if config.backbone.dtype == "bfloat16" else 4,
            adapter=adapter,
            adapted=adapted,
        )
        # Gradients come as activations go, unless those of an earlier part or batch are there already.
        both = rows < own_rows(config, batch) or config.training.accumulate > 1
        more = found.activations > found.gradients
        return {
            "weights": found.weights,
            "gradients": found.gradients if both or not more else 0,
            "optimizer": found.optimizer,
            "activations": found.activations if both or more else 0,
            "SAM's copy": 4 * trained if config.training.optimizer == "sam" else 0,
            "teachers": 4 * sum(weights or 0 for _, weights in frozen),
        }

    most = longest(config.backbone, shape, size) if tokens is None else int(tokens.lengths.max())
    usual, how = (most, "") if tokens is None else _usual_length(config, shape, tokens, rows)
    each = " + ".join(f"{name} {console.size(value)}" for name, value in parts(usual).items() if value)
    worst = console.size(sum(parts(most).values()))
    each_device = " a device" if config.gpu.processes * config.gpu.nodes > 1 else ""
    unknown = ", ".join(name for name, weights in frozen if weights is None)
    return [
        ["parameters", f"{size.weights + beside + head:,}{shape.source}"],
        ["trainable parameters", f"{trained:,}"],
        [f"memory{each_device}, estimated", f"{console.size(sum(parts(usual).values()))}: {each}"],
        ["", f"for {texts:,} texts of {usual:.0f} tokens{how} at a time, in {16 if half else 32} bits"],
        *([] if tokens is None else [["", f"at most {worst}, if all have {most}, as the longest looked at"]]),
        *([["", f"without that of {unknown}, whose size is not known here"]] if unknown else []),
    ]


def _usual_length(config: TrainConfig, shape: Shape, tokens: RowTokens, rows: int) -> tuple[float, str]:
    """Tokens of a text on average, with its padding, in the largest of some batches, and that in words."""
    cuda = config.gpu.device == "cuda" or (config.gpu.device == "auto" and torch.cuda.is_available())
    flat = cuda and _unpadded(config, shape)
    drawn = np.random.default_rng(0).integers(tokens.sample, size=(_DRAWN, rows))
    lengths = tokens.lengths[:, drawn].swapaxes(0, 1).reshape(_DRAWN, -1)  # (drawn, passes * rows)
    computed = max(computed_tokens(each, "cuda" if cuda else "cpu", flat=flat) for each in lengths)
    return computed / lengths.shape[1], " on average" if flat else " on average, padding included,"


def _unpadded(config: TrainConfig, shape: Shape) -> bool:
    """Whether a pass on CUDA is to be without padding: what `unpadded.usable` will say of the model."""
    training, gpu = config.training, config.gpu
    return (
        precision(config) in ("bf16", "fp16")
        and config.backbone.attention == "sdpa"
        and config.pooling.name not in (FIRST_LAST, *LEGACY)
        and not (training.gradient_checkpointing or gpu.compile or gpu.deterministic)
        and not seeded(training, processes=processes_of(config))
        and foreseen(SimpleNamespace(**shape.config))
    )


def _weight_lines(teacher: TeacherConfig) -> int | None:
    """Weights of a frozen encoder, which are in float32; None: not known."""
    shape = shape_of(BackboneConfig(name=teacher.name, revision=teacher.revision))
    size = None if shape is None else measured_size(shape.config)
    return None if size is None else size.weights


def longest(backbone: BackboneConfig, shape: Shape | None, size: Size | None) -> int:
    """Tokens of the longest text that the backbone reads, as far as that is known."""
    limits = [backbone.max_length, shape and shape.max_length, size and size.positions]
    return next((one for one in limits if one), _NO_LIMIT)


def longest_scored(
    backbone: BackboneConfig, evaluation: EvaluationConfig, shape: Shape | None, size: Size | None
) -> int:
    """Tokens of the longest text that is read where it is scored, as far as that is known."""
    if evaluation.max_length is not None:
        return min(evaluation.max_length, (size and size.positions) or evaluation.max_length)
    says = (shape and shape.declared) or Declared()
    reads = longest(replace(backbone, max_length=None), shape, size)
    return scored_length(reads, says, trained=backbone.max_length, is_new=backbone.scratch is not None)


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


def precision(config: TrainConfig) -> str:
    """That of the backbone while it trains here, or on a CUDA device that is asked for and not here."""
    asked, is_here = config.gpu.precision, torch.cuda.is_available()
    if asked != "auto":
        return asked
    if config.gpu.device == "cpu" or (config.gpu.device == "auto" and not is_here):
        return "fp32"
    return "bf16" if not is_here or torch.cuda.is_bf16_supported(False) else "fp16"
