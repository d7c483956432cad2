"""Texts without their padding at the left of their rows, and back where they stood."""

import numpy as np
import torch
from torch import Tensor


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
