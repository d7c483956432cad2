"""RAN, the Recurrent Attention Network: a backbone for texts of any length.

Importing this package tells transformers of it. `AutoModel`, and sentence-transformers with it, read an
exported RAN after ``import embedrun.backbone.ran``; without it they do not know its `model_type`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPooling

from embedrun.backbone.dropout import count_from


class RanConfig(PreTrainedConfig):
    """Sizes of a RAN.

    Args:
        hidden_size: dimensions of a token vector and of the cell.
        num_hidden_layers: recurrent layers.
        num_attention_heads: heads of the attention within a window; the memory review has one.
        head_size: dimensions of a head, even; heads and their size need not multiply to `hidden_size`.
        window: tokens of a window.
        min_window: tokens; a shorter last window joins the one before it.
        dropout: probability, everywhere.
        initializer_range: standard deviation of the initial weights.
        layer_norm_eps: added to a variance.
        pad_token_id: word piece whose vector starts, and stays, at 0.
    """

    model_type = "embedrun_ran"

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 7
    num_attention_heads: int = 8
    head_size: int = 128
    window: int = 256
    min_window: int = 16
    dropout: float = 0.1
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-6
    pad_token_id: int | None = 0


class Gate(nn.Module):
    r"""The gated linear unit that is RAN's residual: :math:`(Ax + a) \odot \sigma(Bx + b)`."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, dim)
        self.gate = nn.Linear(dim, dim)

    def forward(self, vectors: Tensor) -> Tensor:
        """Of the shape of `vectors`, ``(..., dim)``."""
        return self.linear(vectors) * self.gate(vectors).sigmoid()


def turns(positions: int, size: int, device: torch.device) -> Tensor:
    r"""Angles of the rotary embedding, :math:`t \cdot 10000^{-2i/d}`, ``(positions, size / 2)``, float32."""
    rate = 10000 ** (-torch.arange(0, size, 2, device=device) / size)  # (size / 2,)
    return torch.arange(positions, device=device)[:, None] * rate  # (positions, size / 2)


def rotate(vectors: Tensor, angles: Tensor) -> Tensor:
    """Turn each pair of neighbouring dimensions by its angle (Su et al. 2021, arXiv:2104.09864, Eq. 34).

    `vectors` are ``(texts, heads, positions, size)``, `angles` those of `turns`.
    """
    even, odd = vectors.unflatten(-1, (-1, 2)).unbind(-1)  # (texts, heads, positions, size / 2) each
    cos, sin = angles.cos().to(vectors.dtype), angles.sin().to(vectors.dtype)
    return torch.stack([even * cos - odd * sin, odd * cos + even * sin], dim=-1).flatten(-2)


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
        self.query = nn.Linear(config.hidden_size, inner)
        self.key = nn.Linear(config.hidden_size, inner)
        self.value = nn.Linear(config.hidden_size, inner)
        self.output = nn.Linear(inner, config.hidden_size)
        self.gate = Gate(config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, vectors: Tensor, angles: Tensor, keys: Tensor | None) -> Tensor:
        """Of the shape of `vectors`, cell and window, ``(texts, 1 + window, dim)``.

        `angles` are those of `turns`; `keys` says which positions are read, as in `Window`.
        """
        query = rotate(self._heads(self.query(vectors)), angles)  # (texts, heads, 1 + window, head_size)
        key = rotate(self._heads(self.key(vectors)), angles)
        value = self._heads(self.value(vectors))
        p = self.dropout.p if self.training else 0.0
        seen = functional.scaled_dot_product_attention(query, key, value, attn_mask=keys, dropout_p=p)
        mixed = functional.silu(self.output(seen.transpose(1, 2).flatten(2)))  # (texts, 1 + window, dim)
        return self.norm(self.dropout(mixed) + self.gate(vectors))

    def _heads(self, projected: Tensor) -> Tensor:
        return functional.silu(projected).unflatten(-1, (-1, self.head_size)).transpose(1, 2)


class MemoryReview(nn.Module):
    """One head of attention from every token to the cells of all windows of its text.

    Swish as in `WindowAttention`; the residual is a `Gate` of the projected query, as in the released code.

    With one key for each window, time is tokens x windows, and torch's fused attention never holds those
    scores, so that memory stays linear in the length. For that the weights meet no dropout, a departure from
    the released code; the output does. The code also applies its mask to the wrong axis of the scores; here
    the mask hides the windows that a text does not have.
    """

    def __init__(self, config: RanConfig) -> None:
        super().__init__()
        dim = config.hidden_size
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.output = nn.Linear(dim, dim)
        self.gate = Gate(dim)
        self.norm = nn.LayerNorm(dim, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, tokens: Tensor, cells: Tensor, memory: Tensor | None) -> Tensor:
        """Of the shape of `tokens`, ``(texts, tokens, dim)``; `cells` are ``(texts, windows, dim)``.

        `memory` says which windows a text has, bool, ``(texts, windows)``; None: all.
        """
        query = functional.silu(self.query(tokens)).unsqueeze(1)  # (texts, 1, tokens, dim)
        key = functional.silu(self.key(cells)).unsqueeze(1)  # (texts, 1, windows, dim)
        value = functional.silu(self.value(cells)).unsqueeze(1)  # (texts, 1, windows, dim)
        mask = None if memory is None else memory[:, None, None]  # (texts, 1, 1, windows)
        seen = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        mixed = functional.silu(self.output(seen.squeeze(1)))  # (texts, tokens, dim)
        return self.norm(self.dropout(mixed) + self.gate(query.squeeze(1)))


@dataclass(frozen=True)
class Window:
    """One window of every text of a batch.

    Args:
        start: its first column.
        stop: the column behind its last, that of the longest such window.
        keys: which positions a text reads, the cell in front of the window always, bool,
            ``(texts, 1, 1, 1 + stop - start)``; None: all.
        alive: whether the window is one of the text's at all, bool, ``(texts, 1)``; None: of every text's.
    """

    start: int
    stop: int
    keys: Tensor | None
    alive: Tensor | None


def cut(
    lengths: np.ndarray, *, window: int, min_window: int, device: torch.device | None = None
) -> list[Window]:
    """Cut texts that stand at the left of their rows.

    A text of *n* tokens has a window for every `window` tokens and one for the rest; a rest of less than
    `min_window` tokens belongs to the window before it, if there is one. So the last window of one text may
    reach into the columns of the next window of another, and that window is then computed some columns wider.

    `lengths` are the real tokens of each text, ``(texts,)``, >= 1.
    """
    counts = np.ceil(lengths / window).astype(np.int64)  # (texts,)
    rest = lengths - (counts - 1) * window  # (texts,) 1 to window
    counts -= (counts > 1) & (rest < min_window)
    windows = []
    for number in range(counts.max()):
        start = number * window
        alive = number < counts  # (texts,)
        # Windows before a text's last end at the border; one behind it has no token.
        end = np.where(number < counts - 1, start + window, np.where(alive, lengths, start))  # (texts,)
        stop = int(end.max())
        real = np.arange(start - 1, stop) < end[:, None]  # (texts, 1 + stop - start); the cell is always real
        keys = None if real.all() else _tensor(real[:, None, None], device)
        windows.append(Window(start, stop, keys, None if alive.all() else _tensor(alive[:, None], device)))
    return windows


def side_by_side(outputs: Sequence[Tensor], windows: Sequence[Window], tokens: int) -> Tensor:
    """Vectors of each window's columns as those of the texts' tokens, ``(texts, tokens, dim)``."""
    columns: list[Tensor] = []
    behind = outputs[0][:, :0]  # of the window before, what reaches into the columns of this one
    for place, (part, window) in enumerate(zip(outputs, windows, strict=True)):
        if window.alive is not None and behind.shape[1]:
            # It is that of texts which end there. A window of others is wider: it would be joined otherwise.
            both = torch.where(window.alive.unsqueeze(-1), part[:, : behind.shape[1]], behind)
            part = torch.cat([both, part[:, behind.shape[1] :]], dim=1)
        border = windows[place + 1].start if place + 1 < len(windows) else window.stop
        columns.append(part[:, : border - window.start])
        behind = part[:, border - window.start :]
    vectors = torch.cat(columns, dim=1)
    return functional.pad(vectors, (0, 0, 0, tokens - vectors.shape[1]))


def _tensor(array: np.ndarray, device: torch.device | None) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).to(device, non_blocking=True)


class RanLayer(GradientCheckpointingLayer):
    r"""Recurrent attention over the windows :math:`x_1, x_2, \ldots` of a text.

    With the carried cell :math:`c_0` given, *N* layer norms, *S* standardisation (mean 0 and variance 1 over
    dimensions, nothing learned), *G* a gated linear unit and *A* the attention within a window,

    .. math::
        [h_t; y_t] &= A(N_1([c_{t-1}; x_t])), \quad m_t = S(h_t), \quad o_t = S(y_t) \\
        c_1 &= m_1, \qquad c_t = N_2(m_t + G(m_{t-1}))

    and the output is the memory review of all :math:`o_t` over the memory :math:`m_1, m_2, \ldots` of all
    windows. Source: Li et al. 2023, arXiv:2306.06843, and its released code. Dropout follows
    :math:`N_1`, both *S*, and :math:`N_2`.

    Chosen where the description leaves it open: a window behind a text's end leaves the cell of that text
    alone, so no text's vectors depend on the padding that others need; each text is cut by its own length;
    dropout follows :math:`N_2` after the last window too.

    `number`, from 1, keeps the layer's seeded dropouts apart from those of others.
    """

    def __init__(self, config: RanConfig, number: int) -> None:
        super().__init__()
        dim, eps = config.hidden_size, config.layer_norm_eps
        self.number = number
        self.eps = eps
        self.window_norm = nn.LayerNorm(dim, eps=eps)
        self.attention = WindowAttention(config)
        self.carry_gate = Gate(dim)
        self.carry_norm = nn.LayerNorm(dim, eps=eps)
        self.dropout = nn.Dropout(config.dropout)
        self.review = MemoryReview(config)

    def forward(self, tokens: Tensor, cell: Tensor, windows: Sequence[Window]) -> tuple[Tensor, Tensor]:
        """The tokens' vectors ``(texts, tokens, dim)``, and the cell after each text's last window.

        `tokens` has their shape; `cell` is that before the first window, ``(texts, dim)``.
        """
        outputs, memory, cell = self._read(tokens, cell, windows)
        self._number_dropouts(step=0)
        alive = [window.alive for window in windows if window.alive is not None]
        first = memory.new_ones(len(tokens), len(windows) - len(alive), dtype=torch.bool)
        which = torch.cat([first, *alive], dim=1) if alive else None  # (texts, windows)
        return self.review(outputs, memory, which), cell

    def _read(self, tokens: Tensor, cell: Tensor, windows: Sequence[Window]) -> tuple[Tensor, Tensor, Tensor]:
        """Outputs ``(texts, tokens, dim)``, memory ``(texts, windows, dim)``, last cell ``(texts, dim)``."""
        widest = 1 + max(window.stop - window.start for window in windows)
        angles = turns(widest, self.attention.head_size, tokens.device)  # (widest, head_size / 2)
        outputs: list[Tensor] = []
        memory: list[Tensor] = []
        for step, window in enumerate(windows, 1):
            self._number_dropouts(step)
            part = tokens[:, window.start : window.stop]  # (texts, window, dim)
            joined = torch.cat([cell.unsqueeze(1), part], dim=1)  # (texts, 1 + window, dim)
            joined = self.dropout(self.window_norm(joined))
            seen = self.attention(joined, angles[: joined.shape[1]], window.keys)  # (texts, 1 + window, dim)
            outputs.append(self.dropout(self._standardised(seen[:, 1:])))  # (texts, window, dim)
            new = self.dropout(self._standardised(seen[:, 0]))  # (texts, dim)
            carried = new  # (texts, dim)
            if memory:
                carried = self.dropout(self.carry_norm(new + self.carry_gate(memory[-1])))
            cell = carried if window.alive is None else torch.where(window.alive, carried, cell)
            memory.append(new)
        return side_by_side(outputs, windows, tokens.shape[1]), torch.stack(memory, dim=1), cell

    def _standardised(self, vectors: Tensor) -> Tensor:
        return functional.layer_norm(vectors, vectors.shape[-1:], eps=self.eps)

    def _number_dropouts(self, step: int) -> None:
        # Windows are as many as the longest text of the pass has; without numbers of its own, what comes
        # after them would be dropped out of a short text according to the long text beside it.
        count_from((self.number << 40) + (step << 8))


def lengths_of(ids: Tensor, mask: Tensor | None) -> np.ndarray:
    """Real tokens of each text, ``(texts,)``; of a text of padding alone 1, or it would have no vector.

    Both are ``(texts, tokens)``; `mask` is 1 for a real token and 0 for padding, None: all are real.
    """
    if mask is None:
        return np.full(len(ids), ids.shape[1])
    real = mask.cpu().numpy() != 0  # (texts, tokens)
    if (real[:, 1:] > real[:, :-1]).any():
        raise ValueError(
            "RAN: padding must stand behind the tokens; set padding_side of the tokenizer to right"
        )
    return np.maximum(real.sum(axis=1), 1)


class Fusion(nn.Module):
    r"""A text's vector from its last cell *c* and its token vectors *o*, as in the released code.

    .. math:: G(\mathrm{dropout}(\mathrm{swish}(Cc + d))) + M \max_t o_t + e
    """

    def __init__(self, config: RanConfig) -> None:
        super().__init__()
        self.cell = nn.Linear(config.hidden_size, config.hidden_size)
        self.gate = Gate(config.hidden_size)
        self.tokens = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, cell: Tensor, tokens: Tensor, mask: Tensor | None) -> Tensor:
        """One vector a text, of the shape of `cell`, ``(texts, dim)``.

        `tokens` are ``(texts, tokens, dim)``; `mask` is True for a real one, None: all are.
        """
        seen = tokens if mask is None else tokens.masked_fill(~mask.unsqueeze(-1), -torch.inf)
        gated = self.gate(self.dropout(functional.silu(self.cell(cell))))  # (texts, dim)
        return gated + self.tokens(seen.amax(dim=1))


class RanModel(PreTrainedModel):
    """The Recurrent Attention Network, which reads a text window by window and has no longest text.

    Source: Li et al. 2023, "Recurrent Attention Networks for Long-text Modeling", Findings of ACL,
    arXiv:2306.06843, and its released code for TensorFlow; AnglE's Table 3 has it as the long-text
    backbone. Memory is linear in the length of a text; so is time, but for the memory review's tokens x
    windows.

    What the description leaves open, and what is chosen here:

    - Layers: the last cell of a layer is the first cell of the next, as the released code passes it on.
    - Order: with several layers the first window of the second sees what the last cell of the first has read,
      so that only a single layer without review reads strictly from left to right.
    - The first cell: the code sends zeros through a linear layer without bias, swish and a layer norm, which
      gives the norm's bias, one learned vector. Here it is that vector itself, and starts at random like a
      token vector rather than at 0, where the layer norm behind it would have an enormous gradient.
    - Token vectors have no position but the rotary one within the window, and pass a layer norm and dropout.
    - Sizes: the released code's defaults, 2 layers of width 512, have under a third of the 86 M parameters
      that AnglE gives; `conf/backbone/ran_base.yaml` says what is assumed instead.
    - Dropout and masks: see `RanLayer` and `MemoryReview`.
    - Padding stands on the right. A text without any real token counts as one of a single token.
    """

    config_class = RanConfig
    config: RanConfig
    base_model_prefix = "ran"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _no_split_modules = ["RanLayer"]  # noqa: RUF012, as transformers declares it

    def __init__(self, config: RanConfig) -> None:
        super().__init__(config)
        self.tokens = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.first_cell = nn.Embedding(1, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(
            RanLayer(config, number + 1) for number in range(config.num_hidden_layers)
        )
        self.pooler = Fusion(config)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """The table of token vectors."""
        return self.tokens

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Put another table in its place."""
        self.tokens = value

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> BaseModelOutputWithPooling | tuple:
        """Vectors of tokens and texts; the arguments as transformers has them, both ``(texts, tokens)``.

        Returns:
            `last_hidden_state`, ``(texts, tokens, dim)``, of any value where there is padding;
            `pooler_output`, ``(texts, dim)``; `hidden_states`, ``(texts, tokens, dim)`` each.
        """
        tokens = input_ids.shape[1]
        lengths = lengths_of(input_ids, attention_mask)  # (texts,)
        windows = cut(
            lengths, window=self.config.window, min_window=self.config.min_window, device=input_ids.device
        )
        vectors = self.dropout(self.norm(self.tokens(input_ids)))  # (texts, tokens, dim)
        cell = self.dropout(self.first_cell.weight.expand(len(vectors), -1))  # (texts, dim)
        states = [vectors]
        for layer in self.layers:
            vectors, cell = layer(vectors, cell, windows)
            states.append(vectors)
        real = np.arange(tokens) < lengths[:, None]  # (texts, tokens)
        seen = None if real.all() else torch.from_numpy(real).to(vectors.device)  # (texts, tokens)
        pooled = self.pooler(cell, vectors, seen)  # (texts, dim)
        every = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        output = BaseModelOutputWithPooling(
            last_hidden_state=vectors, pooler_output=pooled, hidden_states=tuple(states) if every else None
        )
        named = self.config.return_dict if return_dict is None else return_dict
        return output if named else output.to_tuple()


AutoConfig.register(RanConfig.model_type, RanConfig, exist_ok=True)
AutoModel.register(RanConfig, RanModel, exist_ok=True)
