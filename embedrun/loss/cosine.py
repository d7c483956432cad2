"""Unit vectors, cosines and angles, in float32 or wider, finite at the zero vector."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def widen(values: Tensor) -> Tensor:
    """Half-precision values as float32; float32 and float64 as they are.

    Losses are never computed in half precision: a cosine of 0.999999 is 1 in float16 and
    in bfloat16, and the gradient at the end of a range is lost or not a number.
    """
    return values if values.dtype == torch.float64 else values.float()


def normalize(vectors: Tensor) -> Tensor:
    """Scale every vector, ``(..., dim)``, to length 1; a zero vector stays zero and gets a zero gradient.

    Dividing by ``max(length, 1e-12)`` would give a zero vector a gradient of 1e12. Any floating type is
    taken; the result is float32 or wider. A vector with a NaN or an infinite entry becomes NaN, so that it is
    noticed.
    """
    return _Normalize.apply(widen(vectors))  # type: ignore[return-value]


class _Normalize(torch.autograd.Function):
    r"""The gradient at *x* of one *g* at :math:`u = x / \|x\|` is :math:`(g - (g \cdot u) u) / \|x\|`.

    Written out because it reads and writes large tensors half as often as backpropagation through the single
    steps of the forward pass.
    """

    @staticmethod
    def forward(ctx: Any, vectors: Tensor) -> Tensor:
        limits = torch.finfo(vectors.dtype)
        length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)  # (..., 1); inf if its square is
        # Scaled to where squares neither overflow nor vanish; the direction does not depend on it.
        scale = torch.ones_like(length).masked_fill_(length == torch.inf, limits.max**-0.75)  # (..., 1)
        scale = scale.masked_fill_(length < limits.tiny**0.25, limits.tiny**-0.5)
        # Below this the gradient, which grows as 1 / length, nears the end of the type's range.
        empty = length < limits.tiny**0.5  # (..., 1); False for NaN
        unit = vectors * scale.masked_fill_(empty, 0)  # (..., dim)
        length = torch.linalg.vector_norm(unit, dim=-1, keepdim=True).masked_fill_(empty, 1)  # (..., 1)
        unit /= length
        ctx.save_for_backward(unit, scale / length)
        return unit

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        unit, inverse = ctx.saved_tensors  # (..., dim), and (..., 1): 1 / length, 0 where empty
        along = (grad * unit).sum(dim=-1, keepdim=True)  # (..., 1)
        return torch.addcmul(grad, unit, along, value=-1).mul_(inverse)


def normalize_pairs(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Both sides of each pair at length 1, each ``(pairs, dim)``.

    Sides of different shape are a ValueError: broadcasting would compare the wrong texts.
    """
    require_pairs(left, right)
    return normalize(left), normalize(right)


def require_pairs(left: Tensor, right: Tensor) -> None:
    """Raise ValueError unless both have one shape, ``(pairs, dim)``."""
    if left.ndim != 2 or left.shape != right.shape:
        raise ValueError(
            "left and right must both have shape (pairs, dim), "
            f"got {tuple(left.shape)} and {tuple(right.shape)}"
        )


def cosine(left: Tensor, right: Tensor) -> Tensor:
    """Cosine of each pair of ``(pairs, dim)`` vectors of any length, ``(pairs,)``; 0 if either is zero."""
    unit_left, unit_right = normalize_pairs(left, right)  # each (pairs, dim)
    return (unit_left * unit_right).sum(dim=-1)


def angle(left: Tensor, right: Tensor) -> Tensor:
    r"""Angle of each pair in radians, ``(pairs,)``, 0 to π; π/2 if either vector is zero.

    For unit vectors :math:`\theta = 2\,\mathrm{atan2}(\|x - y\|, \|x + y\|)` (Kahan), which is exact at both
    ends, where arccos of a cosine loses all digits and its gradient. At 0 and π the angle has a kink; the
    gradient there is zero for the difference that vanishes: always finite. Both sides are ``(pairs, dim)``,
    and need not be unit length.
    """
    unit_left, unit_right = normalize_pairs(left, right)  # each (pairs, dim)
    apart = torch.linalg.vector_norm(unit_left - unit_right, dim=-1)  # (pairs,); 0 to 2
    together = torch.linalg.vector_norm(unit_left + unit_right, dim=-1)  # (pairs,)
    # Two zero vectors: atan2 has no gradient at the origin, and 1 against 1 is the right angle.
    both_zero = (apart == 0) & (together == 0)  # (pairs,)
    return 2 * torch.atan2(apart.masked_fill(both_zero, 1), together.masked_fill(both_zero, 1))


def cosines(rows: Tensor, columns: Tensor) -> Tensor:
    """Cosine of every row with every column, ``(rows, columns)``; 0 where either vector is zero.

    In float32 or wider even under autocast, which would compute the matrix product in half precision. Vectors
    are ``(rows, dim)`` and ``(columns, dim)``, and need not be unit length.
    """
    with torch.autocast(rows.device.type, enabled=False):
        return normalize(rows) @ normalize(columns).T
