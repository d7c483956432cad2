"""Passes whose texts lie one behind the other, without padding.

Linear layers, norms and dropout then act on real tokens only. CUDA has a kernel of attention for that. On a
processor attention alone needs texts side by side: it gathers them into padded views of texts of similar
length, and puts what it computes back in its place.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

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
_ATTENTION_DROPOUT = ("attention_probs_dropout_prob", "attention_dropout")  # options of configurations
_LARGEST_HEAD, _HEAD_STEP = 256, 8  # dimensions; of flash attention
_LEAST_DEVICE = (8, 0)  # compute capability, of the same
Window = tuple[int, int]  # how many tokens before and behind it one sees, -1: all


def usable(model: Any) -> bool:
    """Whether the next pass of a model with sdpa on CUDA can do without padding, in its mode and precision.

    It cannot with dropout inside the attention, where torch's operator lacks it; with gradient checkpointing,
    whose second pass would not know of it; compiled; or where only deterministic kernels are asked for.
    """
    weight = model.get_input_embeddings().weight
    drops = model.training and any(getattr(model.config, name, 0.0) for name in _ATTENTION_DROPOUT)
    return (
        weight.is_cuda
        and _computed_in(weight) in (torch.bfloat16, torch.float16)
        and not torch.are_deterministic_algorithms_enabled()
        and foreseen(model.config)
        and _is_usual(model)
        and not (drops and _with_dropout() is None)
    )


def foreseen(config: Any) -> bool:
    """What is known of that before there is a model; without a device, one that can is taken for granted."""
    if config.model_type not in FAMILIES:  # another one need not have the other options
        return False
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    fits = head <= _LARGEST_HEAD and head % _HEAD_STEP == 0
    return fits and (not torch.cuda.is_available() or torch.cuda.get_device_capability() >= _LEAST_DEVICE)


def trainable(model: "PreTrainedModel") -> bool:
    """The same of a pass of training on a processor, in any precision, with dropout inside the attention."""
    return model.get_input_embeddings().weight.device.type == "cpu" and _is_usual(model)


def _is_usual(model: Any) -> bool:
    """Whether the pass computes what the padded one does: with the masks and attention of its type."""
    config = model.config
    return (
        config.model_type in FAMILIES
        # An encoder made a decoder or the other way round has masks of its own kind.
        and not getattr(config, "is_decoder", False)
        and getattr(config, "is_causal", None) is None
        and "forward" not in vars(model)  # replaced, as in a compiled model
        and not (model.training and _computes_again(model))
    )


def _computes_again(model: "PreTrainedModel") -> bool:
    # Renamed in the course of transformers 5.
    now = getattr(model, "is_activation_checkpointing", None)
    return model.is_gradient_checkpointing if now is None else now


def last_layer(
    model: Any, ids: np.ndarray, real: np.ndarray, groups: Sequence[np.ndarray] | None = None
) -> Tensor:
    """The last layer's token vectors as a padded pass gives them, ``(texts, width, dim)``; padding is zeros.

    Args:
        model: must be `usable` now, or `trainable`.
        ids: token ids, padded on the right, ``(texts, width)``.
        real: which of them are no padding, bool, ``(texts, width)``; at least one a text.
        groups: on a processor, the texts that attention computes side by side, ``(group,)`` each.
    """
    device = model.get_input_embeddings().weight.device
    lengths = real.sum(axis=1)  # (texts,)
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)  # (texts + 1,)

    def there(numbers: np.ndarray) -> Tensor:
        return sent(torch.from_numpy(numbers), device)

    _register()
    model.set_attn_implementation(_NAME)  # transformers makes no masks for it
    try:
        output = model(
            input_ids=there(ids[real])[None],  # (1, tokens)
            position_ids=there(_positions(model.config, ids)[real])[None],  # (1, tokens)
            return_dict=True,
            cu_seq_lens_q=there(ends),  # as transformers calls it; reaches _attend
            max_length_q=int(lengths.max()),
            layout=None if groups is None else Layout(lengths, groups, model.config.num_attention_heads),
        )
    finally:
        model.set_attn_implementation("sdpa")
    flat = output.last_hidden_state[0]  # (tokens, dim)
    empty = flat.new_zeros(real.size, flat.shape[1])  # (texts * width, dim)
    return empty.index_copy(0, there(np.flatnonzero(real)), flat).view(*real.shape, -1)


def _positions(config: "PreTrainedConfig", ids: np.ndarray) -> np.ndarray:
    """The position of each token in its text, ``(texts, width)``."""
    if config.model_type != "roberta":
        return np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
    # RoBERTa counts from the row behind the padding's, and leaves out padding tokens inside a text.
    counted = ids != config.pad_token_id
    return np.cumsum(counted, axis=1) * counted + config.pad_token_id


@functools.cache
def _register() -> None:
    from transformers import AttentionInterface

    AttentionInterface.register(_NAME, _attend)


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: None,
    *,
    cu_seq_lens_q: Tensor,
    max_length_q: int,
    layout: "Layout | None" = None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **_: object,
) -> tuple[Tensor, None]:
    """Attention of each text to itself, ``(1, tokens, heads, dim)``, as transformers calls it.

    Args:
        module: the layer; says whether attention is causal.
        query: ``(1, heads, tokens, dim)``.
        key: as `query`, with as many heads or fewer.
        value: as `key`.
        cu_seq_lens_q: where each text begins, and where the last one ends, int32, ``(texts + 1,)``.
        max_length_q: tokens of the longest text.
        layout: of the texts; on a processor alone.
        dropout: of the weights; in training alone.
        scaling: of the products; None: one by the root of `dim`.
        sliding_window: tokens to either side that one sees, itself counted; None: all.
    """
    heads = query.shape[1]
    if key.shape[1] != heads:
        key, value = (part.repeat_interleave(heads // part.shape[1], dim=1) for part in (key, value))
    query, key, value = (part[0].transpose(0, 1) for part in (query, key, value))  # (tokens, heads, dim) each
    left = -1 if sliding_window is None else sliding_window - 1
    window = (left, 0 if module.is_causal else left)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    if layout is not None:
        return attend(query, key, value, layout, scale=scale, window=window, dropout=dropout)[None], None
    # Rotated queries and keys are in float32, also under autocast, which does not know this kernel.
    half = [part.to(_computed_in(query)) for part in (query, key, value)]
    given: list[Any] = [*half, cu_seq_lens_q, cu_seq_lens_q, max_length_q, max_length_q]
    if dropout == 0:
        from torch.nn.attention.varlen import varlen_attn  # after the start, which it would slow down

        mixed: Any = varlen_attn(*given, scale=scale, window_size=window)  # (tokens, heads, dim)
        return mixed[None], None
    operator, no_mask = _with_dropout(), False
    assert operator is not None, "usable() has asked"
    causal = window == (-1, 0)
    sides = {"window_size_left": window[0], "window_size_right": window[1]}
    return operator(*given, dropout, causal, no_mask, scale=scale, **sides)[0][None], None


def _computed_in(tensor: Tensor) -> torch.dtype:
    """The type that products with a tensor are computed in."""
    kind = tensor.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else tensor.dtype


@functools.cache
def _with_dropout() -> Any:
    """The operator beneath `varlen_attn`, with dropout as well; None where this torch has another one."""
    operator = getattr(torch.ops.aten, "_flash_attention_forward", None)
    names = {argument.name for argument in operator.default._schema.arguments} if operator else set()
    return operator if {"dropout_p", "scale", "window_size_left", "window_size_right"} <= names else None


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
        lengths = [self.lengths[texts] for texts in self.groups]  # (group,) each
        return [torch.from_numpy(np.arange(tokens.max()) < tokens[:, None]) for tokens in lengths]

    @cached_property
    def rows(self) -> Tensor:
        """For each row of the views the row that it is a copy of, ``(places,)``; in padding, of that text."""
        starts, rows = np.cumsum(self.lengths) - self.lengths, []  # (texts,)
        for texts, real in zip(self.groups, self.real, strict=True):
            token = torch.from_numpy(starts[texts])[:, None] + torch.arange(real.shape[1]) * real
            row = token[:, None] * self.heads + torch.arange(self.heads)[:, None]  # (group, heads, width)
            rows.append(row.flatten())
        return torch.cat(rows)

    @cached_property
    def back(self) -> Tensor:
        """For each row without padding its place in the views, ``(tokens * heads,)``."""
        real = [real[:, None].expand(-1, self.heads, -1).flatten() for real in self.real]
        places = torch.cat(real).nonzero().flatten()  # (tokens * heads,)
        return torch.empty_like(places).index_copy_(0, self.rows[places], places)

    def views(self, rows: Tensor) -> list[Tensor]:
        """Rows, ``(places, dim)``, as ``(group * heads, width, dim)`` of each view."""
        parts = rows.split([real.numel() * self.heads for real in self.real])
        return [
            part.view(-1, real.shape[1], rows.shape[1]) for part, real in zip(parts, self.real, strict=True)
        ]

    def dropped(self, p: float, dtype: torch.dtype) -> list[Tensor]:
        """What dropout multiplies the weights of each view with, ``(group * heads, width, width)``."""
        widths = [real.shape[1] for real in self.real]
        texts = [torch.from_numpy(group.copy()) for group in self.groups]  # (group,) each
        shapes = [(self.heads, width, width) for width in widths]
        factors = kept(list(zip(texts, shapes, strict=True)), p, dtype=dtype)
        parts = factors.split([real.numel() * self.heads * real.shape[1] for real in self.real])
        return [part.view(-1, width, width) for part, width in zip(parts, widths, strict=True)]

    def seen(self, window: Window) -> list[Tensor | None]:
        """Which places each place of a view sees, ``(group, 1, width, width)`` query by key; None: all."""
        if window not in self._seen:
            self._seen[window] = [_seen(real, window) for real in self.real]
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
    query: Tensor, key: Tensor, value: Tensor, layout: Layout, *, scale: float, window: Window, dropout: float
) -> Tensor:
    """Attention of each text to itself, of and to ``(tokens, heads, dim)``.

    What torch's `scaled_dot_product_attention` computes of each text, in float32, or float64 where that is
    given. Inside :class:`~embedrun.backbone.dropout.SeededDropout`, `dropout` drops what a padded pass does.
    """
    wide = torch.float64 if query.dtype == torch.float64 else torch.float32
    factors = layout.dropped(dropout, wide) if dropout > 0 else [None] * len(layout.groups)
    with torch.autocast("cpu", enabled=False):
        sides = [
            layout.views(part.reshape(-1, part.shape[-1]).to(wide).index_select(0, layout.rows))
            for part in (query, key, value)
        ]  # (group * heads, width, dim) of each view
        mixed = []
        for q, k, v, seen, factor in zip(*sides, layout.seen(window), factors, strict=True):
            weights = ((q * scale) @ k.mT).unflatten(0, (-1, layout.heads))  # (group, heads, width, width)
            if seen is not None:
                weights = weights.masked_fill(~seen, -torch.inf)
            weights = weights.softmax(dim=-1).flatten(0, 1)  # (group * heads, width, width)
            mixed.append(((weights if factor is None else weights * factor) @ v).flatten(0, 1))
        rows = torch.cat(mixed).index_select(0, layout.back)  # (tokens * heads, dim)
    return rows.view(query.shape).to(value.dtype)
