"""How texts are cut into windows: each by its own length, whatever texts stand beside it."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor


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


@dataclass(frozen=True)
class Windows:
    """All windows of a batch.

    Args:
        each: in order.
        place: where each token's vector is among the vectors of all windows side by side, int64,
            ``(texts, tokens)``; None: windows do not overlap, and the token's own column is its place.
        memory: which windows are a text's, bool, ``(texts, windows)``; None: all.
    """

    each: list[Window]
    place: Tensor | None
    memory: Tensor | None


def cut(
    lengths: np.ndarray, *, tokens: int, window: int, min_window: int, device: torch.device | None = None
) -> Windows:
    """Cut texts that stand at the left of their rows.

    A text of *n* tokens has a window for every `window` tokens and one for the rest; a rest of less than
    `min_window` tokens belongs to the window before it, if there is one. So the last window of one text may
    reach into the columns of the next window of another, and that window is then computed some columns wider.

    Args:
        lengths: real tokens of each text, ``(texts,)``, >= 1.
        tokens: columns, at least the longest text's.
        window: tokens of a window.
        min_window: tokens of a last window that stands alone, at least.
        device: of the tensors made.
    """
    counts = np.ceil(lengths / window).astype(np.int64)  # (texts,)
    rest = lengths - (counts - 1) * window  # (texts,) 1 to window
    counts -= (counts > 1) & (rest < min_window)
    each, offsets, width = [], [], 0
    for number in range(counts.max()):
        start = number * window
        # Windows before a text's last end at the border; one behind it has no token.
        end = np.where(number < counts - 1, start + window, lengths)  # (texts,)
        end = np.where(number < counts, end, start)
        stop = int(end.max())
        real = np.arange(start - 1, stop) < end[:, None]  # (texts, 1 + stop - start); the cell is always real
        alive = number < counts  # (texts,)
        each.append(
            Window(
                start,
                stop,
                keys=None if real.all() else _tensor(real[:, None, None], device),
                alive=None if alive.all() else _tensor(alive[:, None], device),
            )
        )
        offsets.append(width)
        width += stop - start
    memory = np.arange(len(each)) < counts[:, None]  # (texts, windows)
    overlap = any(before.stop > after.start for before, after in pairwise(each))
    return Windows(
        each,
        place=_tensor(_places(lengths, counts, offsets, tokens, window), device)
        if overlap or each[-1].stop < tokens
        else None,
        memory=None if memory.all() else _tensor(memory, device),
    )


def _places(
    lengths: np.ndarray, counts: np.ndarray, offsets: list[int], tokens: int, window: int
) -> np.ndarray:
    column = np.arange(tokens)  # (tokens,)
    number = np.minimum(column // window, counts[:, None] - 1)  # (texts, tokens)
    place = np.array(offsets)[number] + column - number * window  # (texts, tokens)
    return np.where(column < lengths[:, None], place, 0)  # padding gets any vector


def _tensor(array: np.ndarray, device: torch.device | None) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).to(device, non_blocking=True)
