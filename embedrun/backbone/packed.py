"""Encoding on a processor from weights that are packed once: linear layers, and whole layers of a BERT."""

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import TypeGuard

import torch
from torch import Tensor, nn
from torch.nn import functional

from embedrun.backbone.bert import Layer

# For fewer tokens than this, making the copies takes longer than they save: about 40 ms for the 43 MB of a
# small model, where 1000 tokens take 250 ms and a seventh of that is saved.
WORTH = 2048  # tokens
_MEMORY = 2**31  # bytes of all copies, at most; a model with more is computed as it is
_FAR = {torch.float32: 1e-5, torch.bfloat16: 0.05}  # what rounding may move a value of about 1


@contextlib.contextmanager
def packed(model: nn.Module, *, tokens: int, dtype: torch.dtype) -> Iterator[bool]:
    """Compute the linear layers of a model from copies of their weights in oneDNN's blocked layout.

    A matrix product brings its weights into this layout at every call; here that is done once. Values change
    by rounding alone. A layer computes in `dtype` (float32 or bfloat16) and returns it, as under autocast.
    Layers of :class:`~embedrun.backbone.bert.Bert` are computed as a whole; it yields whether they are.

    A layer computes as usual where torch's internal operators are missing or wrong, or where it is anything
    but a plain `nn.Linear` with float32 weights on the CPU. So do all layers while gradients are recorded,
    where few tokens will be computed (about `tokens`), and where the copies would take too much memory. The
    weights must not change inside; afterwards, also after an exception, no trace is left on the model.
    """
    worth = tokens >= WORTH and not torch.is_grad_enabled() and available(dtype)
    linears = [module for module in model.modules() if worth and _is_plain(module)]
    if sum(linear.weight.numel() for linear in linears) * dtype.itemsize > _MEMORY:
        linears = []
    whole = [(layer, _parts(layer)) for layer in model.modules() if isinstance(layer, Layer)]
    layers = {layer: parts for layer, parts in whole if {*parts} <= {*linears}}
    alone = {*linears}.difference(*layers.values())
    try:
        for layer, parts in layers.items():
            layer.forward = _layer_forward(layer, parts, dtype)
        for linear in alone:
            linear.forward = _linear_forward(linear, dtype)  # of this layer alone, before that of its class
        yield bool(layers)
    finally:
        for module in (*layers, *alone):
            vars(module).pop("forward", None)


def _is_plain(module: nn.Module) -> TypeGuard[nn.Linear]:
    # Parametrised and most quantised layers are subclasses; others have weights that are no plain parameter.
    # A forward of the layer's own is somebody's patch, or another thread's packing.
    return (
        type(module) is nn.Linear
        and "forward" not in vars(module)
        and all(
            type(weight) is nn.Parameter and weight.dtype == torch.float32 and weight.device.type == "cpu"
            for weight in (module.weight, module.bias)
            if weight is not None
        )
    )


def _parts(layer: Layer) -> list[nn.Linear]:
    heads, after = layer.attention.self, layer.attention.output
    return [heads.query, heads.key, heads.value, after.dense, layer.intermediate.dense, layer.output.dense]


def _linear_forward(layer: nn.Linear, dtype: torch.dtype) -> Callable[..., Tensor]:
    plain, (weight, bias) = layer.forward, _packed(dtype, layer)

    def forward(input: Tensor) -> Tensor:  # named as that of nn.Linear
        if input.dtype not in (torch.float32, dtype) or input.numel() == 0 or torch.is_grad_enabled():
            return plain(input)
        return _linear(input.to(dtype), weight, bias)  # (..., out)

    return forward


def _layer_forward(layer: Layer, parts: list[nn.Linear], dtype: torch.dtype) -> Callable[..., Tensor]:
    """The forward pass of a layer, computed in `dtype`; what it adds to and normalises stays in float32.

    The values are those of the layer's own but for rounding. Query, key and value come from one product,
    and GELU is done where its product is.
    """
    plain, (query, key, value, *others) = layer.forward, parts
    after, out = layer.attention.output.LayerNorm, layer.output.LayerNorm
    mix = _packed(dtype, query, key, value)
    join, widen, narrow = (_packed(dtype, linear) for linear in others)

    def forward(vectors: Tensor, seen: Tensor | None) -> Tensor:
        if torch.is_grad_enabled():
            return plain(vectors, seen)
        with torch.autocast("cpu", enabled=False):
            three = _linear(vectors.to(dtype), *mix)  # (texts, tokens, 3 * dim)
            mixed = _linear(attention(three, layer.heads, seen), *join)  # (texts, tokens, dim)
            vectors = after(vectors + mixed)
            inner = _linear(vectors.to(dtype), *widen, gelu=True)  # (texts, tokens, intermediate)
            return out(vectors.add_(_linear(inner, *narrow)))

    return forward


def _packed(dtype: torch.dtype, *linears: nn.Linear) -> tuple[Tensor, Tensor | None]:
    """The weights of linear layers that have the same input, ``(out, in)``, opaque, and biases ``(out,)``."""
    weight = torch.cat([linear.weight.detach() for linear in linears]).to(dtype)
    biases = [linear.bias.detach() for linear in linears if linear.bias is not None]
    return _pack(weight), torch.cat(biases).to(dtype) if biases else None


def _pack(weight: Tensor) -> Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight)


def _linear(vectors: Tensor, weight: Tensor, bias: Tensor | None, *, gelu: bool = False) -> Tensor:
    behind = ("gelu", [], "none") if gelu else ("none", [], "")  # GELU itself, not one of its approximations
    return torch.ops.mkldnn._linear_pointwise(vectors, weight, bias, *behind)


@functools.cache
def available(dtype: torch.dtype) -> bool:
    """Whether these operators, which torch does not guarantee, are there and compute the right values."""
    vectors = torch.linspace(-1, 1, 80, dtype=dtype).reshape(2, 5, 8)
    weight = torch.linspace(-1, 1, 24, dtype=dtype).reshape(3, 8)
    for bias, gelu in itertools.product((None, torch.ones(3, dtype=dtype)), (False, True)):
        expected = vectors.double() @ weight.double().T + (0 if bias is None else bias.double())  # (2, 5, 3)
        expected = functional.gelu(expected) if gelu else expected
        try:
            given = _linear(vectors, _pack(weight), bias, gelu=gelu)  # (2, 5, 3)
        except (AttributeError, RuntimeError, TypeError):
            return False
        if given.shape != expected.shape or given.dtype != dtype:
            return False
        if not torch.allclose(given.double(), expected, rtol=0, atol=_FAR[dtype]):
            return False
    return True


# From this many tokens on torch's own attention is as fast; below, its softmax is what takes long.
LONG = 64  # tokens, measured with heads of 32 dimensions on AVX-512


def attention(three: Tensor, heads: int, seen: Tensor | None) -> Tensor:
    """What `scaled_dot_product_attention` computes of texts side by side, ``(texts, tokens, dim)``.

    `three` has query, key and value, one behind the other, ``(texts, tokens, 3 * dim)``; `seen` says which
    tokens are no padding, bool, ``(texts, 1, 1, tokens)``, None: all.
    """
    sides = three.unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)  # (3, texts, heads, tokens, head)
    if three.shape[1] >= LONG:
        mixed = functional.scaled_dot_product_attention(*sides, attn_mask=seen)
    else:
        query, key, value = sides.float()  # (texts, heads, tokens, head) each
        weights = (query * query.shape[-1] ** -0.5) @ key.mT  # (texts, heads, tokens, tokens)
        if seen is not None:
            weights = weights.masked_fill_(~seen, -torch.inf)
        mixed = (weights.softmax(dim=-1) @ value).to(three.dtype)
    return mixed.transpose(1, 2).flatten(2)
