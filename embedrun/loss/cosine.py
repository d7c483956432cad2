"""Unit vectors, cosines and angles, in float32 or wider, finite at the zero vector."""

import torch
from torch import Tensor
from torch.linalg import vector_norm


def widen(values: Tensor) -> Tensor:
    """Half-precision values as float32; float32 and float64 as they are.

    Losses are never computed in half precision: a cosine of 0.999999 is 1 in float16 and
    in bfloat16, and the gradient at the end of a range is lost or not a number.
    """
    return values if values.dtype == torch.float64 else values.float()


def _per_length(vectors: Tensor) -> Tensor:
    """1 / length of each vector, ``(..., dim)`` to ``(..., 1)``; 0 for a zero vector, without a gradient.

    In float32 one shorter than 1e-19, whose gradient nears infinity, counts as zero; one longer than 1e19,
    whose square is infinite, has NaN, so that it is noticed.
    """
    length = vector_norm(vectors, dim=-1, keepdim=True)  # (..., 1)
    zero = length < torch.finfo(length.dtype).tiny ** 0.5  # (..., 1); False for NaN
    inverse = length.masked_fill(zero, 1).reciprocal().masked_fill(zero, 0)  # (..., 1)
    return inverse.masked_fill(length == torch.inf, torch.nan)


def normalize(vectors: Tensor) -> Tensor:
    """Scale every vector, ``(..., dim)``, to length 1; a zero vector stays zero and gets a zero gradient.

    Dividing by ``max(length, 1e-12)`` would give a zero vector a gradient of 1e12. Any floating type is
    taken; the result is float32 or wider. A vector with a NaN or an infinite entry becomes NaN.
    """
    vectors = widen(vectors)
    return vectors * _per_length(vectors)


def require_pairs(left: Tensor, right: Tensor) -> None:
    """Raise ValueError unless both have one shape, ``(pairs, dim)``."""
    if left.ndim != 2 or left.shape != right.shape:
        raise ValueError(
            "left and right must both have shape (pairs, dim), "
            f"got {tuple(left.shape)} and {tuple(right.shape)}"
        )


def cosine(left: Tensor, right: Tensor) -> Tensor:
    """Cosine of each pair of ``(pairs, dim)`` vectors of any length, ``(pairs,)``; 0 if either is zero."""
    require_pairs(left, right)
    left, right = widen(left), widen(right)
    # The lengths divide the products, not the vectors: a third of the numbers to hold.
    return (left * right).sum(dim=1) * (_per_length(left) * _per_length(right)).squeeze(1)


def turned_cosine(left: Tensor, right: Tensor) -> Tensor:
    r"""Real part of :math:`(1 + i) v \overline{u}` of each pair of unit vectors *u* and *v*, ``(pairs,)``.

    The first half of a vector, of even width, holds real parts and the second half imaginary parts. 0 if
    either is zero. Both sides are ``(pairs, dim)``, and need not be unit length.
    """
    require_pairs(left, right)
    left, right = widen(left), widen(right)
    real, imaginary = right.chunk(2, dim=1)  # (pairs, dim / 2) each
    turned = torch.cat([real - imaginary, real + imaginary], dim=1)  # (pairs, dim); (1 + i) y
    return (left * turned).sum(dim=1) * (_per_length(left) * _per_length(right)).squeeze(1)


def angle(left: Tensor, right: Tensor) -> Tensor:
    r"""Angle of each pair in radians, ``(pairs,)``, 0 to π; π/2 if either vector is zero.

    .. math:: \theta = 2 \arcsin(\|u - v\|/2) \ \text{or}\ \pi - 2 \arcsin(\|u + v\|/2), \qquad
              \|u \mp v\| = \bigl\|x \mp y \|x\| / \|y\|\bigr\| / \|x\|

    of the unit vectors *u* and *v* of *x* and *y*, by the sign of their cosine: exact at both ends, where
    arccos of a cosine loses all digits and its gradient. At 0 and π the angle has a kink; the gradient there
    is zero: always finite. Both sides are ``(pairs, dim)``, and need not be unit length.
    """
    require_pairs(left, right)
    left, right = widen(left), widen(right)
    per_left, per_right = _per_length(left), _per_length(right)  # (pairs, 1) each
    acute = (left.detach() * right.detach()).sum(dim=1, keepdim=True) >= 0  # (pairs, 1)
    sign = torch.where(acute, 1.0, -1.0).to(left.dtype)  # (pairs, 1)
    # Only one side is scaled, to the length of the other: half the numbers to hold, also for the gradient.
    scale = sign * per_right / per_left.masked_fill(per_left == 0, 1)  # (pairs, 1)
    short = vector_norm(torch.addcmul(left, right, -scale), dim=1, keepdim=True) * per_left  # (pairs, 1)
    small = 2 * torch.asin(short / 2)  # (pairs, 1)
    theta = torch.where(acute, small, torch.pi - small)  # (pairs, 1)
    return theta.masked_fill(per_left * per_right == 0, torch.pi / 2).squeeze(1)


def cosines(rows: Tensor, *columns: Tensor) -> Tensor:
    """Cosine of every row with every column, ``(rows, columns)``; 0 where either vector is zero.

    In float32 or wider even under autocast, which would compute the matrix product in half precision. Vectors
    are ``(rows, dim)`` and ``(columns, dim)``, and need not be unit length. Columns may come in several
    tensors, one after another.
    """
    with torch.autocast(rows.device.type, enabled=False):
        return normalize(rows) @ torch.cat([normalize(some) for some in columns]).T
