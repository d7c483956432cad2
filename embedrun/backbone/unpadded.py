"""Passes whose texts lie one behind the other, without padding.

Linear layers, norms and dropout then act on real tokens only. On CUDA so does attention, by the flash kernel
that torch brings, also in a compiled pass. On a processor it needs texts side by side: it gathers them into
padded views of texts of similar length, and puts what it computes back in its place.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from embedrun.backbone.dropout import kept
from embedrun.batch import sent

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

# Model types whose unpadded passes are tested against padded ones; any other type pads.
FAMILIES = ("bert", "roberta", "modernbert", "llama", "qwen2")
_NAME = "embedrun_unpadded"  # of the attention, among those of transformers
Window = tuple[int, int]  # how many tokens before and behind it one sees, -1: all


def usable(model: Any) -> bool:
    """Whether the next pass of a model with sdpa on CUDA is without padding: where there is a flash kernel.

    That is in 16 bits, on Ampere and later devices, for heads of a multiple of 8 numbers, up to 256.
    """
    weight = model.get_input_embeddings().weight
    if not weight.is_cuda or torch.are_deterministic_algorithms_enabled() or not _is_usual(model):
        return False
    half = _computed_in(weight) in (torch.bfloat16, torch.float16)
    config, kernel = model.config, hasattr(torch.ops.aten, "_flash_attention_forward")
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    fits = kernel and width % 8 == 0 and width <= 256
    return half and fits and torch.cuda.get_device_capability(weight.device) >= (8, 0)


def trainable(model: "PreTrainedModel") -> bool:
    """Whether a pass of training on a processor can be, in any precision; a compiled one cannot."""
    on_cpu = model.get_input_embeddings().weight.device.type == "cpu"
    return on_cpu and _is_usual(model) and "forward" not in vars(model)


def _is_usual(model: Any) -> bool:
    config = model.config
    return (
        config.model_type in FAMILIES
        # An encoder made a decoder or the other way round has masks of its own kind.
        and not getattr(config, "is_decoder", False)
        and getattr(config, "is_causal", None) is None
        and not (model.training and model.is_activation_checkpointing)
    )


def last_layer(model: Any, ids: np.ndarray, real: np.ndarray, groups: Sequence[np.ndarray] | None) -> Tensor:
    """The last layer's token vectors as a padded pass gives them, ``(texts, width, dim)``; padding is zeros.

    Args:
        model: must be `usable` now, or `trainable`.
        ids: token ids, padded on the right, ``(texts, width)``.
        real: which of them are no padding, bool, ``(texts, width)``; at least one a text.
        groups: the texts that attention computes side by side, ``(group,)`` each; None: by the flash kernel.
    """
    from transformers import AttentionInterface

    device = model.get_input_embeddings().weight.device

    def there(numbers: np.ndarray) -> Tensor:
        return sent(torch.from_numpy(numbers), device)

    lengths = real.sum(axis=1)  # (texts,)
    if groups is None:
        ends = there(np.cumsum([0, *lengths]).astype(np.int32))  # (texts + 1,)
        layout: Layout | Ends = Ends(ends, int(lengths.max()))
    else:
        layout = Layout(lengths, groups, model.config.num_attention_heads, device)
    AttentionInterface.register(_NAME, _attend)
    model.set_attn_implementation(_NAME)  # transformers makes no masks for it
    try:
        output = model(
            input_ids=there(ids[real])[None],  # (1, tokens)
            position_ids=there(_positions(model.config, ids)[real])[None],  # (1, tokens)
            return_dict=True,
            layout=layout,  # of _attend
        )
    finally:
        model.set_attn_implementation("sdpa")
    flat = output.last_hidden_state.squeeze(0)  # (tokens, dim)
    empty = flat.new_zeros(real.size, flat.shape[1])  # (texts * width, dim)
    return empty.index_copy(0, there(np.flatnonzero(real)), flat).view(*real.shape, -1)


def _positions(config: "PreTrainedConfig", ids: np.ndarray) -> np.ndarray:
    """The position of each token in its text, ``(texts, width)``."""
    if config.model_type != "roberta":
        return np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
    # RoBERTa counts from the row behind the padding's, and leaves out padding tokens inside a text.
    counted = ids != config.pad_token_id
    return np.cumsum(counted, axis=1) * counted + config.pad_token_id


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: None,
    *,
    layout: "Layout | Ends",
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **_: object,
) -> tuple[Tensor, None]:
    """Attention of each text to itself, ``(1, tokens, heads, dim)``, as transformers calls it.

    `query` is ``(1, heads, tokens, dim)``; `key` and `value` have as many heads or fewer. A `sliding_window`
    is the tokens to either side that one sees, itself counted; None: all.
    """
    heads = query.shape[1]
    if key.shape[1] != heads:
        key, value = (part.repeat_interleave(heads // part.shape[1], dim=1) for part in (key, value))
    query, key, value = (
        part.squeeze(0).transpose(0, 1) for part in (query, key, value)
    )  # (tokens, heads, dim) each
    left = -1 if sliding_window is None else sliding_window - 1
    window = (left, 0 if module.is_causal else left)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return attend(query, key, value, layout, scale=scale, window=window, dropout=dropout)[None], None


def _computed_in(tensor: Tensor) -> torch.dtype:
    kind = tensor.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else tensor.dtype


class Ends(NamedTuple):
    """Where texts lie, as the flash kernel takes it: a tensor and a number, so that a pass can be compiled.

    `ends` is where each text begins, and where the last ends, int32, ``(texts + 1,)``; `longest`: in tokens.
    """

    ends: Tensor
    longest: int


@dataclass(frozen=True)
class Layout:
    """Where the tokens of a pass stand in the padded views of its attention; one for all layers.

    The views are ``(texts, heads, width, dim)`` each, and lie one behind the other as rows of `dim` numbers.
    What lies without padding has rows too: one for each head of each token.

    Args:
        lengths: tokens of each text, in the order in which they lie, ``(texts,)``.
        groups: positions of the texts of each view, ``(group,)`` each; every text is in one.
        heads: of queries.
        device: of the model.
    """

    lengths: np.ndarray
    groups: Sequence[np.ndarray]
    heads: int
    device: torch.device
    _seen: dict[Window, list[Tensor | None]] = field(default_factory=dict)

    @cached_property
    def real(self) -> list[Tensor]:
        """Which places of each view are no padding, bool, ``(group, width)``, on the processor."""
        lengths = [self.lengths[texts] for texts in self.groups]  # (group,) each
        return [torch.from_numpy(np.arange(tokens.max()) < tokens[:, None]) for tokens in lengths]

    @cached_property
    def rows(self) -> tuple[Tensor, Tensor]:
        """Where each row is copied from, there and back.

        For each row of the views the row that it is a copy of, ``(places,)``, in padding one of the same
        text; and for each row without padding its place in the views, ``(tokens * heads,)``.
        """
        starts, sources, reals = np.cumsum(self.lengths) - self.lengths, [], []  # (texts,)
        for texts, real in zip(self.groups, self.real, strict=True):
            token = torch.from_numpy(starts[texts])[:, None] + torch.arange(real.shape[1]) * real
            row = token[:, None] * self.heads + torch.arange(self.heads)[:, None]  # (group, heads, width)
            sources.append(row.flatten())
            reals.append(real[:, None].expand(-1, self.heads, -1).flatten())
        source = torch.cat(sources)  # (places,)
        places = torch.cat(reals).nonzero().flatten()  # (tokens * heads,)
        back = torch.empty_like(places).index_copy_(0, source[places], places)
        return sent(source, self.device), sent(back, self.device)

    def views(self, rows: Tensor) -> list[Tensor]:
        """Rows, ``(places, dim)``, as ``(group, heads, width, dim)`` of each view."""
        shapes = [(len(real), self.heads, real.shape[1], rows.shape[1]) for real in self.real]
        parts = rows.split([math.prod(shape[:3]) for shape in shapes])
        return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]

    def dropped(self, p: float, dtype: torch.dtype) -> list[Tensor]:
        """What dropout multiplies the weights of each view with, ``(group, heads, width, width)``."""
        texts = [torch.from_numpy(group.copy()) for group in self.groups]  # (group,) each
        shapes = [(self.heads, real.shape[1], real.shape[1]) for real in self.real]
        factors = kept(list(zip(texts, shapes, strict=True)), p, dtype=dtype)
        parts = factors.split([real.numel() * self.heads * real.shape[1] for real in self.real])
        return [part.view(-1, *shape) for part, shape in zip(parts, shapes, strict=True)]

    def seen(self, window: Window) -> list[Tensor | None]:
        """Which places each place of a view sees, ``(group, 1, width, width)`` query by key; None: all."""
        if window not in self._seen:
            masks = [_seen(real, window) for real in self.real]
            self._seen[window] = [None if mask is None else sent(mask, self.device) for mask in masks]
        return self._seen[window]


def _seen(real: Tensor, window: Window) -> Tensor | None:
    left, right = window
    if left < 0 and right < 0 and bool(real.all()):
        return None
    near = torch.ones(real.shape[1], real.shape[1], dtype=torch.bool)  # (width, width) query by key
    near = near if left < 0 else near.triu(-left)
    near = near if right < 0 else near.tril(right)
    # Padding sees all: what it finds is not read, and softmax over nothing would be NaN.
    return ((near & real[:, None]) | ~real[:, :, None])[:, None]  # (group, 1, width, width)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    layout: Layout | Ends,
    *,
    scale: float,
    window: Window,
    dropout: float,
) -> Tensor:
    """Attention of each text to itself, of and to ``(tokens, heads, dim)``.

    What torch's `scaled_dot_product_attention` computes of each text; on a processor in float32, or float64
    where that is given. There `dropout` drops what a padded pass does.
    """
    if isinstance(layout, Ends):
        return _flash(query, key, value, layout, scale=scale, window=window, dropout=dropout)
    kind = torch.promote_types(query.dtype, torch.float32)
    source, back = layout.rows
    sides = [
        layout.views(part.reshape(-1, part.shape[-1]).to(kind).index_select(0, source))
        for part in (query, key, value)
    ]  # (group, heads, width, dim) of each view
    views = zip(*sides, layout.seen(window), strict=True)
    factors = layout.dropped(dropout, kind) if dropout > 0 else [None] * len(layout.groups)
    with torch.autocast("cpu", enabled=False):
        mixed = [
            _mixed(q * scale, k, v, seen, factor)
            for (q, k, v, seen), factor in zip(views, factors, strict=True)
        ]
    rows = torch.cat([part.flatten(0, 2) for part in mixed]).index_select(0, back)
    return rows.view(query.shape).to(value.dtype)  # (tokens, heads, dim)


def _flash(
    query: Tensor, key: Tensor, value: Tensor, layout: Ends, *, scale: float, window: Window, dropout: float
) -> Tensor:
    # Rotated queries and keys are in float32, also under autocast. torch's public `varlen_attn`, of the same
    # kernel, has no dropout.
    kind, (ends, longest) = _computed_in(query), layout
    found, *_ = torch.ops.aten._flash_attention_forward(
        query.to(kind),
        key.to(kind),
        value.to(kind),
        ends,
        ends,
        longest,
        longest,
        dropout,
        window == (-1, 0),  # causal
        False,
        scale=scale,
        window_size_left=window[0],
        window_size_right=window[1],
    )
    return found.to(value.dtype)  # (tokens, heads, dim)


def _mixed(q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None, factor: Tensor | None) -> Tensor:
    weights = q @ k.mT  # (group, heads, width, width)
    if seen is not None:
        weights = weights.masked_fill(~seen, -torch.inf)
    weights = weights.softmax(dim=-1)
    return (weights if factor is None else weights * factor) @ v  # (group, heads, width, dim)
