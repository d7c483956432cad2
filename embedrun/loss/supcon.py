"""Pull texts of one class together, and those of others apart."""

from collections.abc import Collection

import torch
from torch import Tensor, nn

from embedrun.loss.cosine import cosines
from embedrun.loss.terms import Pass, negatives, require_positive, require_shape


class Supcon(nn.Module):
    r"""Cross-entropy of finding the texts of the own class among all other texts of the batch.

    With :math:`P(i)` the other texts of the class of text *i*, and :math:`A(i)` all other texts,

    .. math:: L = \frac1{n'} \sum_i \frac{-1}{|P(i)|} \sum_{p \in P(i)}
              \log \frac{e^{\cos(x_i, x_p)/\tau}}{\sum_{a \in A(i)} e^{\cos(x_i, x_a)/\tau}}

    over the *n'* texts that have another one of their class.

    Source: Khosla et al. 2020 (SupCon), arXiv:2004.11362, Eq. 2, whose sum is a mean here, as in its code.
    There each text comes twice, augmented; here by a second pass with other dropout, which
    `views: {text_again: null}` leaves out.

    Args:
        temperature: τ above, unitless, > 0.

    Raises:
        ValueError: if ``temperature`` is not positive.
    """

    passes = {"text_again": Pass("text", draw=1)}  # noqa: RUF012

    def __init__(self, *, temperature: float = 0.1) -> None:
        super().__init__()
        require_positive("Supcon", "temperature", temperature)
        self.temperature = temperature

    def forward(self, text: Tensor, category: Tensor, text_again: Tensor | None = None) -> Tensor:
        """Return the scalar loss; 0 where no two texts are of one class.

        Args:
            text: of each row, ``(rows, dim)``; need not be unit length.
            category: number of its class, int64, ``(rows,)``.
            text_again: another pass of the same texts, ``(rows, dim)``; or None.
        """
        require_shape("Supcon", "category", category, len(text))
        if text_again is not None:
            require_shape("Supcon", "text_again", text_again, *text.shape)
        texts = text if text_again is None else torch.cat([text, text_again])  # (texts, dim)
        classes = category if text_again is None else torch.cat([category, category])  # (texts,)
        itself = torch.eye(len(texts), dtype=torch.bool, device=texts.device)
        logits = (cosines(texts, texts) / self.temperature).masked_fill(itself, -1e30)  # (texts, texts)
        is_alike = (classes[:, None] == classes[None, :]) & ~itself  # (texts, texts)
        counts = is_alike.sum(dim=1)  # (texts,)
        log_share = logits.log_softmax(dim=1).masked_fill(~is_alike, 0)  # (texts, texts)
        each = -log_share.sum(dim=1) / counts.clamp(min=1)  # (texts,)
        return each.sum() / (counts > 0).sum().clamp(min=1)

    def compared(self, rows: int, views: Collection[str]) -> str:
        """What a batch of this many rows gives it to compare, at most."""
        texts = rows * (1 + ("text_again" in views))
        return negatives(texts - 1, "the texts of other classes")

    def idle(self, rows: int, category: Tensor | None = None) -> str | None:
        """Why no batch of this many rows can have a comparison, or None."""
        if rows < 2:
            return "a batch of one row has nothing to compare; raise training.batch_size"
        if category is not None and len(category.unique()) in (1, len(category)):
            return "the training rows are all of one class, or each of a class of its own"
        return None
