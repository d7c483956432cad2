"""The memory that a training step needs, estimated from sizes."""

from collections.abc import Sequence
from dataclasses import dataclass

from embedrun.backbone.quantized import BLOCK
from embedrun.backbone.size import Linear, Size
from embedrun.config import AdapterConfig

_BLOCKS = 256  # scales that share one of their own, with double quantisation


@dataclass(frozen=True)
class Step:
    """What a training step keeps at a time.

    Args:
        texts: of all views, encoded at a time.
        length: tokens of each.
        half: whether the model computes in 16 bits.
        attention: implementation.
        gradient_checkpointing: whether layers are computed again.
    """

    texts: int
    length: int
    half: bool
    attention: str
    gradient_checkpointing: bool


@dataclass(frozen=True)
class Memory:
    """Bytes of one training process.

    Args:
        weights: all of them, and the copies in 16 bits that autocast makes.
        gradients: of what is trained, in float32.
        optimizer: AdamW's two moments, in float32.
        activations: what the backward pass needs of one forward pass.
    """

    weights: int
    gradients: int
    optimizer: int
    activations: int

    @property
    def total(self) -> int:
        """The sum."""
        return self.weights + self.gradients + self.optimizer + self.activations


def adapter_weights(linear: Sequence[Linear], r: int) -> int:
    """Weights of the matrices of rank `r` beside these layers."""
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
    r"""Bytes, to a fifth or so; what kernels need for a moment, the losses, the allocator's rest are not in.

    With *h* the width, *i* the dimensions inside the feed-forward layer and *b* the bytes of a number
    computed with, one layer keeps for each token, as measured on the models of transformers,

    .. math:: b\,(10\,h + g\,i)

    bytes in float32, with *g* = 2, or 4 with a gate; in 16 bits 15 instead of 10, because norms keep float32.
    (Korthikanti et al. 2022, arXiv:2205.05198, Eq. 2, count 9 and 2 in 16 bits, with norms in 16 bits too.)
    Eager attention adds its scores before and after softmax. An adapter with dropout keeps the input of each
    layer that it stands beside once more, and which of it was dropped. Gradient checkpointing keeps *h*
    numbers of float32 a layer, and everything of one layer at a time.

    Args:
        size: of the model.
        step: what is encoded at a time, and how.
        trained: weights that are trained.
        dtype_bytes: of a weight that is not in 4 bits.
        adapter: None: none.
        adapted: the layers that it stands beside, of one of `size.copies` parts.
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
    layer = number * ((15 if step.half else 10) * size.width + (4 if size.gated else 2) * size.intermediate)
    if step.attention == "eager":
        layer += 2 * number * size.heads * step.length
    if adapter is not None and adapter.dropout > 0:
        inputs = size.copies * sum(one.inputs for one in adapted)
        layer += (number + 1) * inputs // size.depth
    kept = 4 * size.width * size.depth + layer if step.gradient_checkpointing else layer * size.depth
    return step.texts * step.length * kept
