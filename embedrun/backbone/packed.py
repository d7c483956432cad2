"""Linear layers whose weights are laid out ahead, for encoding many texts on a CPU."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TypeGuard

import torch
from torch import Tensor, nn

# For fewer tokens than this, making the copies takes longer than they save: about 40 ms for the 43 MB of a
# small model, where 1000 tokens take 250 ms and a seventh of that is saved.
_WORTH = 2048  # tokens
_MEMORY = 2**31  # bytes of all copies, at most; a model with more is computed as it is
_FAR = {torch.float32: 1e-5, torch.bfloat16: 0.05}  # what rounding may move a value of about 1


@contextlib.contextmanager
def packed(model: nn.Module, *, tokens: int, dtype: torch.dtype) -> Iterator[None]:
    """Compute the linear layers of a model from copies of their weights in oneDNN's blocked layout.

    A product of matrices brings its weights into such a layout at every call; here they are brought into it
    once. Values move by rounding alone. A layer computes in `dtype` and gives it back, as under autocast.

    Where torch's internal operators for it are missing or wrong, or a layer is anything but a plain
    `nn.Linear` with float32 weights on the CPU, that layer computes as ever. So do all of them while
    gradients are recorded, for few tokens, and for a model whose copies would take too much memory. The
    weights must not change inside; afterwards, also after an exception, no trace is left on the model.

    Args:
        model: any; its linear layers are found at every depth.
        tokens: how many will be computed inside, about.
        dtype: float32 or bfloat16.
    """
    worth = tokens >= _WORTH and not torch.is_grad_enabled()
    layers = _plain_layers(model, dtype) if worth and _available(dtype) else []
    try:
        for layer in layers:
            layer.forward = _packed_forward(layer, dtype)  # of this layer alone, before that of its class
        yield
    finally:
        for layer in layers:
            vars(layer).pop("forward", None)


def _plain_layers(model: nn.Module, dtype: torch.dtype) -> list[nn.Linear]:
    """The layers to pack, or none of them where the copies would take too much memory."""
    found = [layer for layer in model.modules() if _plain(layer)]
    return found if sum(layer.weight.numel() for layer in found) * dtype.itemsize <= _MEMORY else []


def _plain(layer: nn.Module) -> TypeGuard[nn.Linear]:
    """Whether a module is a linear layer that nothing has changed: no subclass, no other kind of weight."""
    # Parametrised and most quantised layers are subclasses; others have weights that are no plain parameter.
    # A forward of the layer's own is somebody's patch, or another thread's packing.
    return (
        type(layer) is nn.Linear
        and "forward" not in vars(layer)
        and all(
            type(weight) is nn.Parameter
            and weight.dtype == torch.float32
            and weight.device.type == "cpu"
            and weight.layout == torch.strided
            for weight in (layer.weight, layer.bias)
            if weight is not None
        )
    )


def _packed_forward(layer: nn.Linear, dtype: torch.dtype) -> Callable[..., Tensor]:
    plain = layer.forward
    weight = _pack(layer.weight.detach().to(dtype))  # (out, in), opaque
    bias = None if layer.bias is None else layer.bias.detach().to(dtype)  # (out,)

    def forward(input: Tensor) -> Tensor:  # named as that of nn.Linear
        if input.dtype not in (torch.float32, dtype) or input.numel() == 0 or torch.is_grad_enabled():
            return plain(input)
        return _linear(input.to(dtype), weight, bias)  # (..., out)

    return forward


def _pack(weight: Tensor) -> Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight)


def _linear(vectors: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(vectors, weight, bias, "none", [], "")


@functools.cache
def _available(dtype: torch.dtype) -> bool:
    """Whether the operators, which torch makes no promise about, are there and compute what they should."""
    vectors = torch.linspace(-1, 1, 80, dtype=dtype).reshape(2, 5, 8)
    weight = torch.linspace(-1, 1, 24, dtype=dtype).reshape(3, 8)
    for bias in (None, torch.ones(3, dtype=dtype)):
        expected = vectors.double() @ weight.double().T + (0 if bias is None else bias.double())  # (2, 5, 3)
        try:
            found = _linear(vectors, _pack(weight), bias)  # (2, 5, 3)
        except (AttributeError, RuntimeError, TypeError):
            return False
        if found.shape != expected.shape or found.dtype != dtype:
            return False
        if not torch.allclose(found.double(), expected, rtol=0, atol=_FAR[dtype]):
            return False
    return True
