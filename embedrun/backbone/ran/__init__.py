"""RAN, the Recurrent Attention Network: a backbone for texts of any length.

Importing this package tells transformers of it. `AutoModel`, and sentence-transformers with it, read an
exported RAN after ``import embedrun.backbone.ran``; without it they do not know its `model_type`.
"""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoConfig, AutoModel, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPooling

from embedrun.backbone.ran.layers import Gate, RanConfig, RanLayer, cut

__all__ = ["RanConfig", "RanModel"]


def real_tokens(ids: Tensor, mask: Tensor | None) -> np.ndarray:
    """Which tokens are real, bool, ``(texts, tokens)``, at least one of each text.

    Args:
        ids: ``(texts, tokens)``.
        mask: 1 for a real token and 0 for padding, ``(texts, tokens)``; None: all are real.
    """
    if mask is None:
        return np.ones(tuple(ids.shape), dtype=bool)
    real = mask.cpu().numpy() != 0  # (texts, tokens)
    # A text of padding alone would have no vector; its first column stands for it.
    real[:, 0] |= ~real.any(axis=1)
    return real


class Columns:
    """Real tokens moved to the left of their rows, in their order; nothing moves where they stand there.

    Args:
        real: which tokens are real, bool, ``(texts, tokens)``.
        device: of the tensors that are moved.
    """

    def __init__(self, real: np.ndarray, device: torch.device) -> None:
        front = np.argsort(~real, axis=1, kind="stable")  # (texts, tokens)
        self._front: Tensor | None = None
        if (front != np.arange(real.shape[1])).any():
            self._row = torch.arange(len(real), device=device)[:, None]  # (texts, 1)
            self._front = torch.from_numpy(front).to(device, non_blocking=True)
            self._back = self._front.argsort(dim=1)  # (texts, tokens)

    def to_front(self, tokens: Tensor) -> Tensor:
        """``(texts, tokens, ...)`` with the padding behind."""
        return tokens if self._front is None else tokens[self._row, self._front]

    def back(self, tokens: Tensor) -> Tensor:
        """``(texts, tokens, ...)`` with the padding where it was."""
        return tokens if self._front is None else tokens[self._row, self._back]


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
        """One vector a text, ``(texts, dim)``.

        Args:
            cell: ``(texts, dim)``.
            tokens: ``(texts, tokens, dim)``.
            mask: True for a real token, ``(texts, tokens)``; None: all are.
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
    - Padding is taken out before windows are cut and put back afterwards, so that vectors are equal wherever
      it stands. A text without any real token counts as one of a single token.
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
        """Vectors of tokens and texts.

        Args:
            input_ids: ``(texts, tokens)``.
            attention_mask: 1 for a real token and 0 for padding, ``(texts, tokens)``; None: all are real.
            output_hidden_states: whether the embedding layer's and every layer's output are returned too;
                None: as the configuration says.
            return_dict: False gives a tuple; None: as the configuration says.

        Returns:
            `last_hidden_state`, ``(texts, tokens, dim)``, of any value where there is padding;
            `pooler_output`, ``(texts, dim)``; `hidden_states`, ``(texts, tokens, dim)`` each.
        """
        real = real_tokens(input_ids, attention_mask)  # (texts, tokens)
        columns = Columns(real, input_ids.device)
        windows = cut(
            real.sum(axis=1),
            tokens=real.shape[1],
            window=self.config.window,
            min_window=self.config.min_window,
            device=input_ids.device,
        )
        vectors = self.dropout(self.norm(self.tokens(columns.to_front(input_ids))))  # (texts, tokens, dim)
        cell = self.dropout(self.first_cell.weight.expand(len(vectors), -1))  # (texts, dim)
        states = [vectors]
        for layer in self.layers:
            vectors, cell = layer(vectors, cell, windows)
            states.append(vectors)
        states = [columns.back(state) for state in states]
        seen = None if real.all() else torch.from_numpy(real).to(vectors.device)  # (texts, tokens)
        pooled = self.pooler(cell, states[-1], seen)  # (texts, dim)
        every = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        output = BaseModelOutputWithPooling(
            last_hidden_state=states[-1], pooler_output=pooled, hidden_states=tuple(states) if every else None
        )
        named = self.config.return_dict if return_dict is None else return_dict
        return output if named else output.to_tuple()


AutoConfig.register(RanConfig.model_type, RanConfig, exist_ok=True)
AutoModel.register(RanConfig, RanModel, exist_ok=True)
