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

    One too short for a finite gradient, 1e-19 in float32, counts as zero.
    """
    length = vector_norm(vectors, dim=-1, keepdim=True)  # (..., 1)
    zero = length < torch.finfo(length.dtype).tiny ** 0.5  # (..., 1); False for NaN
    return length.masked_fill(zero, 1).reciprocal().masked_fill(zero, 0)


def normalize(vectors: Tensor) -> Tensor:
    """Scale every vector, ``(..., dim)``, to length 1; a zero vector stays zero and gets a zero gradient.

    Dividing by ``max(length, 1e-12)`` would give a zero vector a gradient of 1e12. Any floating type is
    taken; the result is float32 or wider. A vector with a NaN or an infinite entry becomes NaN, so that it is
    noticed.
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

    .. math:: \theta = 2\,\mathrm{atan2}(\|u - v\|, \|u + v\|)

    of unit vectors *u* and *v* (Kahan): exact at both ends, where arccos of a cosine loses all digits and its
    gradient. At 0 and π the angle has a kink; the gradient there is zero: always finite. Both sides are
    ``(pairs, dim)``, and need not be unit length.
    """
    require_pairs(left, right)
    u, v = normalize(left), normalize(right)  # (pairs, dim) each
    apart, together = vector_norm(u - v, dim=1), vector_norm(u + v, dim=1)  # (pairs,) each
    # Two zero vectors have no angle; torch promises no gradient of atan2 at the origin.
    nowhere = (apart == 0) & (together == 0)  # (pairs,)
    return 2 * torch.atan2(apart.masked_fill(nowhere, 1), together.masked_fill(nowhere, 1))


def cosines(rows: Tensor, *columns: Tensor) -> Tensor:
    """Cosine of every row with every column, ``(rows, columns)``; 0 where either vector is zero.

    In float32 or wider even under autocast, which would compute the matrix product in half precision. Vectors
    are ``(rows, dim)`` and ``(columns, dim)``, and need not be unit length. Columns may come in several
    tensors, one after another.
    """
    with torch.autocast(rows.device.type, enabled=False):
        return normalize(rows) @ torch.cat([normalize(some) for some in columns]).T
