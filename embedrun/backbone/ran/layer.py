"""One recurrent layer: window after window, with a cell carried from each to the next."""

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.modeling_layers import GradientCheckpointingLayer

from embedrun.backbone.dropout import count_from
from embedrun.backbone.ran.attention import WindowAttention
from embedrun.backbone.ran.config import RanConfig
from embedrun.backbone.ran.gate import Gate
from embedrun.backbone.ran.review import MemoryReview
from embedrun.backbone.ran.rotary import turns
from embedrun.backbone.ran.windows import Windows


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

    Args:
        config: its sizes.
        number: of the layer, from 1; keeps its seeded dropouts apart from those of others.
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
        self.review = MemoryReview(config) if config.memory_review else None
        self.output_norm = None if config.memory_review else nn.LayerNorm(dim, eps=eps)

    def forward(self, tokens: Tensor, cell: Tensor, windows: Windows) -> tuple[Tensor, Tensor]:
        """The tokens' vectors ``(texts, tokens, dim)``, and the cell after each text's last window.

        Args:
            tokens: ``(texts, tokens, dim)``.
            cell: before the first window, ``(texts, dim)``.
            windows: of these texts.
        """
        outputs, memory, cell = self._read(tokens, cell, windows)
        self._number_dropouts(step=0)
        if self.review is not None:
            return self.review(outputs, memory, windows.memory), cell
        assert self.output_norm is not None
        return self.output_norm(outputs), cell

    def _read(self, tokens: Tensor, cell: Tensor, windows: Windows) -> tuple[Tensor, Tensor, Tensor]:
        """Outputs ``(texts, tokens, dim)``, memory ``(texts, windows, dim)``, last cell ``(texts, dim)``."""
        widest = 1 + max(window.stop - window.start for window in windows.each)
        angles = turns(widest, self.attention.head_size, tokens.device)  # (widest, head_size / 2)
        outputs: list[Tensor] = []
        memory: list[Tensor] = []
        for step, window in enumerate(windows.each, 1):
            self._number_dropouts(step)
            part = tokens[:, window.start : window.stop]  # (texts, window, dim)
            joined = torch.cat([cell.unsqueeze(1), part], dim=1)  # (texts, 1 + window, dim)
            joined = self.dropout(self.window_norm(joined))
            found = self.attention(joined, angles[: joined.shape[1]], window.keys)  # (texts, 1 + window, dim)
            outputs.append(self.dropout(self._standardised(found[:, 1:])))  # (texts, window, dim)
            new = self.dropout(self._standardised(found[:, 0]))  # (texts, dim)
            carried = self._carry(new, memory[-1]) if memory else new  # (texts, dim)
            cell = carried if window.alive is None else torch.where(window.alive, carried, cell)
            memory.append(new)
        found = torch.cat(outputs, dim=1)  # (texts, all windows side by side, dim)
        if windows.place is not None:
            found = found[torch.arange(len(found), device=found.device)[:, None], windows.place]
        return found, torch.stack(memory, dim=1), cell

    def _carry(self, new: Tensor, before: Tensor) -> Tensor:
        return self.dropout(self.carry_norm(new + self.carry_gate(before)))  # (texts, dim)

    def _standardised(self, vectors: Tensor) -> Tensor:
        return functional.layer_norm(vectors, vectors.shape[-1:], eps=self.eps)

    def _number_dropouts(self, step: int) -> None:
        # Windows are as many as the longest text of the pass has; without numbers of its own, what comes
        # after them would be dropped out of a short text according to the long text beside it.
        count_from((self.number << 40) + (step << 8))
