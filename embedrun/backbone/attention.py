"""Attention on a processor where the texts of a pass lie one behind the other, without padding.

Linear layers, norms and dropout then act on real tokens only. Attention alone needs texts side by side: it
gathers them into padded views of texts of similar length, and puts what it finds back in its place.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from embedrun.backbone.dropout import kept

Window = tuple[int, int]  # how many tokens before and behind it one sees, -1: all


@dataclass(frozen=True)
class Layout:
    """Where the tokens of a pass stand in the padded views of its attention; one for all layers.

    The views are ``(texts, heads, width, dim)`` each, and lie one behind the other as rows of `dim` numbers.
    What lies without padding has rows too: one for each head of each token.

    Args:
        lengths: tokens of each text, in the order in which they lie, ``(texts,)``.
        groups: positions of the texts of each view, ``(group,)`` each; every text is in one.
        heads: of queries.
    """

    lengths: np.ndarray
    groups: Sequence[np.ndarray]
    heads: int
    _seen: dict[Window, list[Tensor | None]] = field(default_factory=dict)

    @cached_property
    def real(self) -> list[Tensor]:
        """Which places of each view are no padding, bool, ``(group, width)``."""
        each = [self.lengths[index] for index in self.groups]  # (group,) each
        return [torch.from_numpy(np.arange(own.max()) < own[:, None]) for own in each]

    @cached_property
    def there(self) -> Tensor:
        """For each row of the views the row that it is a copy of, ``(places,)``; in padding, of that text."""
        starts, found = np.cumsum(self.lengths) - self.lengths, []  # (texts,)
        for index, real in zip(self.groups, self.real, strict=True):
            token = torch.from_numpy(starts[index])[:, None] + torch.arange(real.shape[1]) * real
            row = token[:, None] * self.heads + torch.arange(self.heads)[:, None]  # (group, heads, width)
            found.append(row.flatten())
        return torch.cat(found)

    @cached_property
    def back(self) -> Tensor:
        """For each row without padding its place in the views, ``(tokens * heads,)``."""
        rows = self._real_rows.nonzero().flatten()  # (tokens * heads,)
        return torch.empty_like(rows).index_copy_(0, self.there[rows], rows)

    @cached_property
    def padding(self) -> Tensor:
        """The rows of the views that are padding, ``(padding,)``."""
        return (~self._real_rows).nonzero().flatten()

    @cached_property
    def _real_rows(self) -> Tensor:
        return torch.cat(
            [real[:, None].expand(-1, self.heads, -1).flatten() for real in self.real]
        )  # (places,)

    def seen(self, window: Window) -> list[Tensor | None]:
        """Which places each place of a view sees, ``(group, 1, width, width)`` query by key; None: all."""
        if window not in self._seen:
            self._seen[window] = [_seen(real, window) for real in self.real]
        return self._seen[window]

    def views(self, rows: Tensor) -> list[Tensor]:
        """Rows, ``(places, dim)``, as ``(group * heads, width, dim)`` of each view."""
        sizes = [real.numel() * self.heads for real in self.real]
        widths = [real.shape[1] for real in self.real]
        parts = rows.split(sizes)
        return [part.view(-1, width, rows.shape[1]) for part, width in zip(parts, widths, strict=True)]

    @property
    def weights(self) -> list[tuple[Tensor, tuple[int, int, int]]]:
        """Of each view its texts, ``(group,)``, and the shape of the weights of one: heads, query, key."""
        widths = [real.shape[1] for real in self.real]
        texts = [torch.from_numpy(index.copy()) for index in self.groups]
        return [(own, (self.heads, width, width)) for own, width in zip(texts, widths, strict=True)]

    def squares(self, weights: Tensor) -> list[Tensor]:
        """The weights of all views, flat, as ``(group * heads, width, width)`` of each."""
        widths = [real.shape[1] for real in self.real]
        parts = weights.split([real.numel() * self.heads * real.shape[1] for real in self.real])
        return [part.view(-1, width, width) for part, width in zip(parts, widths, strict=True)]


def _seen(real: Tensor, window: Window) -> Tensor | None:
    left, right = window
    if left < 0 and right < 0 and bool(real.all()):
        return None
    width = real.shape[1]
    near = torch.ones(width, width, dtype=torch.bool)  # (width, width) query by key
    near = near if left < 0 else near.triu(-left)
    near = near if right < 0 else near.tril(right)
    # Padding sees all: what it finds is not read, and softmax over nothing would be NaN.
    return ((near & real[:, None]) | ~real[:, :, None])[:, None]  # (group, 1, width, width)


def attend(
    query: Tensor, key: Tensor, value: Tensor, layout: Layout, *, scale: float, window: Window, dropout: float
) -> Tensor:
    """Attention of each text to itself, of and to ``(tokens, heads, dim)``.

    What torch's `scaled_dot_product_attention` computes of each text, in float32, or float64 where that is
    given. Inside :class:`~embedrun.backbone.dropout.SeededDropout`, `dropout` drops what a padded pass does.
    """
    wide = torch.float64 if query.dtype == torch.float64 else torch.float32
    own = [part.reshape(-1, part.shape[-1]).to(wide) for part in (query, key, value)]  # (rows, dim) each
    factors = kept(layout.weights, dropout, dtype=wide) if dropout > 0 else None  # (weights,)
    with torch.autocast("cpu", enabled=False):
        found: Any = _Attention.apply(*own, layout, scale, window, factors)  # (rows, dim)
    return found.view(query.shape).to(value.dtype)


class _Attention(torch.autograd.Function):
    """One node of the graph for all views: those of hundreds of small products take as long as these."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        layout: Layout,
        scale: float,
        window: Window,
        factors: Tensor | None,
    ) -> Tensor:
        """From rows to rows, ``(rows, dim)`` each; `factors` of dropout are flat, ``(weights,)``."""
        query, key, value = (
            part.index_select(0, layout.there) for part in (query, key, value)
        )  # (places, dim)
        weights = query.new_empty(sum(real.numel() * real.shape[1] for real in layout.real) * layout.heads)
        parts = layout.squares(weights), layout.views(query), layout.views(key), layout.seen(window)
        for square, one, other, seen in zip(*parts, strict=True):
            torch.baddbmm(square, one, other.mT, beta=0, alpha=scale, out=square)
            if seen is not None:
                square.unflatten(0, (-1, layout.heads)).masked_fill_(~seen, -torch.inf)
            torch.softmax(square, dim=-1, out=square)
        used = weights if factors is None else weights * factors  # (weights,)
        found = torch.empty_like(value)  # (places, dim)
        for out, square, one in zip(
            layout.views(found), layout.squares(used), layout.views(value), strict=True
        ):
            torch.bmm(square, one, out=out)
        ctx.save_for_backward(query, key, value, weights, factors)
        ctx.layout, ctx.scale = layout, scale
        return found.index_select(0, layout.back)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        """The gradient at query, key and value, ``(rows, dim)`` each."""
        query, key, value, weights, factors = ctx.saved_tensors
        layout: Layout = ctx.layout
        gradient = (
            grad_outputs[0].index_select(0, layout.there).index_fill_(0, layout.padding, 0)
        )  # (places, dim)
        used = weights if factors is None else weights * factors  # (weights,)
        at_weights = torch.empty_like(weights)  # (weights,)
        at_query, at_key, at_value = (torch.empty_like(part) for part in (query, key, value))
        for out, at, square, one, other in zip(
            layout.squares(at_weights), layout.views(at_value), layout.squares(used),
            layout.views(gradient), layout.views(value), strict=True,
        ):  # fmt: skip
            torch.bmm(square.mT, one, out=at)
            torch.bmm(one, other.mT, out=out)
        if factors is not None:
            at_weights *= factors
        for at, square, one, other, to_one, to_other in zip(
            layout.squares(at_weights), layout.squares(weights), layout.views(query), layout.views(key),
            layout.views(at_query), layout.views(at_key), strict=True,
        ):  # fmt: skip
            slope = torch.ops.aten._softmax_backward_data(
                at, square, -1, square.dtype
            )  # (group * heads, width, width)
            torch.baddbmm(to_one, slope, other, beta=0, alpha=ctx.scale, out=to_one)
            torch.baddbmm(to_other, slope.mT, one, beta=0, alpha=ctx.scale, out=to_other)
        found = (part.index_select(0, layout.back) for part in (at_query, at_key, at_value))
        return *found, None, None, None, None
