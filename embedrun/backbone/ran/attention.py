"""Attention within a window, with the cell in front of it."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from embedrun.backbone.ran.config import RanConfig
from embedrun.backbone.ran.gate import Gate
from embedrun.backbone.ran.rotary import rotate


def attend(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *, p: float, fused: bool
) -> Tensor:
    """Scaled dot-product attention, ``(texts, heads, queries, size)``.

    Args:
        query: ``(texts, heads, queries, size)``.
        key: ``(texts, heads, keys, size)``.
        value: as `key`.
        mask: True where a key is seen, to be broadcast to ``(texts, heads, queries, keys)``; every query
            sees one at least.
        p: probability that a weight is dropped.
        fused: whether torch's kernels may compute it, which need not hold the weights.
    """
    if fused:
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=p)
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])  # (texts, heads, queries, keys)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return functional.dropout(scores.softmax(dim=-1), p) @ value


class WindowAttention(nn.Module):
    """Positional multi-head self-attention over a cell and the window behind it.

    Queries, keys, values and output pass through a swish after their linear layers, as in the released code.
    Queries and keys are rotated by their place in the window, the cell at 0. The residual is a `Gate` of
    the input, followed by a layer norm. Weights and output meet dropout.
    """

    def __init__(self, config: RanConfig) -> None:
        super().__init__()
        inner = config.num_attention_heads * config.head_size
        self.head_size = config.head_size
        self.fused = config._attn_implementation != "eager"
        self.query = nn.Linear(config.hidden_size, inner)
        self.key = nn.Linear(config.hidden_size, inner)
        self.value = nn.Linear(config.hidden_size, inner)
        self.output = nn.Linear(inner, config.hidden_size)
        self.gate = Gate(config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, vectors: Tensor, angles: Tensor, keys: Tensor | None) -> Tensor:
        """Of the shape of `vectors`.

        Args:
            vectors: cell and window, ``(texts, 1 + window, dim)``.
            angles: from `turns`, for as many positions.
            keys: which positions are read, ``(texts, 1, 1, 1 + window)``; None: all.
        """
        query = rotate(self._heads(self.query(vectors)), angles)  # (texts, heads, 1 + window, head_size)
        key = rotate(self._heads(self.key(vectors)), angles)
        value = self._heads(self.value(vectors))
        p = self.dropout.p if self.training else 0.0
        seen = attend(query, key, value, keys, p=p, fused=self.fused)
        mixed = functional.silu(self.output(seen.transpose(1, 2).flatten(2)))  # (texts, 1 + window, dim)
        return self.norm(self.dropout(mixed) + self.gate(vectors))

    def _heads(self, projected: Tensor) -> Tensor:
        return functional.silu(projected).unflatten(-1, (-1, self.head_size)).transpose(1, 2)
