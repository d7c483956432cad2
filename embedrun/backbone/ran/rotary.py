"""Rotary position embedding, as RAN uses it within a window."""

import torch
from torch import Tensor


def turns(positions: int, size: int, device: torch.device) -> Tensor:
    r"""Angles of the rotary embedding, :math:`t \cdot 10000^{-2i/d}`, ``(positions, size / 2)``, float32."""
    rate = 10000 ** (-torch.arange(0, size, 2, device=device) / size)  # (size / 2,)
    return torch.arange(positions, device=device)[:, None] * rate  # (positions, size / 2)


def rotate(vectors: Tensor, angles: Tensor) -> Tensor:
    """Turn each pair of neighbouring dimensions by its angle (Su et al. 2021, arXiv:2104.09864, Eq. 34).

    Args:
        vectors: ``(texts, heads, positions, size)``.
        angles: from `turns`, ``(positions, size / 2)``.
    """
    even, odd = vectors.unflatten(-1, (-1, 2)).unbind(-1)  # (texts, heads, positions, size / 2) each
    cos, sin = angles.cos().to(vectors.dtype), angles.sin().to(vectors.dtype)
    return torch.stack([even * cos - odd * sin, odd * cos + even * sin], dim=-1).flatten(-2)
