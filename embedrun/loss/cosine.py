"""Unit vectors and cosine similarity, in float32 or wider, finite at the zero vector."""

import torch
from torch import Tensor


def widen(values: Tensor) -> Tensor:
    """Half-precision values as float32; float32 and float64 as they are.

    Losses are never computed in half precision: a cosine of 0.999999 is 1 in float16 and
    in bfloat16, and the gradient at the end of a range is lost or not a number.
    """
    return values if values.dtype == torch.float64 else values.float()


def normalize(vectors: Tensor) -> Tensor:
    """Scale every vector to length 1; a zero vector stays zero and gets a zero gradient.

    Dividing by ``max(length, 1e-12)`` would give a zero vector a gradient of 1e12.

    Args:
        vectors: ``(..., dim)``, any floating type and any length.

    Returns:
        ``(..., dim)``, float32 or wider. A vector with a NaN or an infinite entry becomes NaN,
        so that it is noticed.
    """
    wide = widen(vectors)  # (..., dim)
    # Dividing by the largest entry first keeps the squares from overflowing and underflowing. It needs
    # no gradient: the direction of a vector does not depend on its scale.
    largest = wide.detach().abs().amax(dim=-1, keepdim=True)  # (..., 1)
    # Below this the gradient, which grows as 1 / length, nears the end of the type's range.
    empty = largest < torch.finfo(wide.dtype).tiny ** 0.5  # (..., 1); False for NaN
    scaled = (wide / largest.masked_fill(empty, 1)).masked_fill(empty, 0)  # (..., dim)
    length = torch.linalg.vector_norm(scaled, dim=-1, keepdim=True)  # (..., 1); 0, or 1 to sqrt(dim)
    return scaled / length.masked_fill(empty, 1)


def normalize_pairs(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Both sides of each pair at length 1, each ``(pairs, dim)``.

    Raises:
        ValueError: if the sides do not have one shape; broadcasting would compare the wrong texts.
    """
    if left.ndim != 2 or left.shape != right.shape:
        raise ValueError(
            "left and right must both have shape (pairs, dim), "
            f"got {tuple(left.shape)} and {tuple(right.shape)}"
        )
    return normalize(left), normalize(right)


def cosine(left: Tensor, right: Tensor) -> Tensor:
    """Cosine of each pair, ``(pairs,)``; 0 if either vector is zero.

    Args:
        left: ``(pairs, dim)``; need not be unit length.
        right: ``(pairs, dim)``.
    """
    unit_left, unit_right = normalize_pairs(left, right)  # each (pairs, dim)
    return (unit_left * unit_right).sum(dim=-1)
