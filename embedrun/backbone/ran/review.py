"""The memory review: every token looks at the cells of all windows."""

from torch import Tensor, nn
from torch.nn import functional

from embedrun.backbone.ran.attention import attend
from embedrun.backbone.ran.config import RanConfig
from embedrun.backbone.ran.gate import Gate


class MemoryReview(nn.Module):
    """One head of attention from every token to the cells of all windows of its text.

    Swish as in `WindowAttention`; the residual is a `Gate` of the projected query, as in the released code.

    With one key for each window, time is tokens x windows, and torch's fused attention never holds those
    scores, so that memory stays linear in the length; eager attention holds them. For that the weights meet
    no dropout, a departure from the released code; the output does. The code also applies its mask to the
    wrong axis of the scores; here the mask hides the windows that a text does not have.
    """

    def __init__(self, config: RanConfig) -> None:
        super().__init__()
        dim = config.hidden_size
        self.fused = config._attn_implementation != "eager"
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.output = nn.Linear(dim, dim)
        self.gate = Gate(dim)
        self.norm = nn.LayerNorm(dim, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, tokens: Tensor, cells: Tensor, memory: Tensor | None) -> Tensor:
        """Of the shape of `tokens`.

        Args:
            tokens: ``(texts, tokens, dim)``.
            cells: ``(texts, windows, dim)``.
            memory: which windows a text has, bool, ``(texts, windows)``; None: all.
        """
        query = functional.silu(self.query(tokens)).unsqueeze(1)  # (texts, 1, tokens, dim)
        key = functional.silu(self.key(cells)).unsqueeze(1)  # (texts, 1, windows, dim)
        value = functional.silu(self.value(cells)).unsqueeze(1)  # (texts, 1, windows, dim)
        mask = None if memory is None else memory[:, None, None]  # (texts, 1, 1, windows)
        seen = attend(query, key, value, mask, p=0.0, fused=self.fused)  # (texts, 1, tokens, dim)
        mixed = functional.silu(self.output(seen.squeeze(1)))  # (texts, tokens, dim)
        return self.norm(self.dropout(mixed) + self.gate(query.squeeze(1)))
