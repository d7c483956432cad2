"""Batch: what passes from data to encoder to loss."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

VISIBLE = -100  # in place of a word piece that is not to be guessed


def sent(numbers: Tensor, device: torch.device) -> Tensor:
    """The numbers on a device; from pinned memory, so that the processor does not wait for CUDA's work."""
    pins = device.type == "cuda" and numbers.device.type == "cpu"
    return (numbers.pin_memory() if pins else numbers).to(device, non_blocking=True)


@dataclass(frozen=True)
class Tokens:
    """The token ids of several texts, flat and unpadded; the backbone alone decides how they are packed."""

    ids: Tensor  # (tokens,), int64: all texts one after the other, special tokens included
    lengths: Tensor  # (texts,), int64: tokens of each text; their sum is len(ids)
    skips: Tensor | None = None  # (texts,), int64: leading tokens that are of the prompt; None: none are

    def __len__(self) -> int:
        return len(self.lengths)

    def part(self, texts: slice) -> "Tokens":
        """Some neighbouring texts."""
        begin, end, _ = texts.indices(len(self))
        before = int(self.lengths[:begin].sum())
        lengths = self.lengths[begin:end]  # (part,)
        skips = None if self.skips is None else self.skips[begin:end]  # (part,)
        return Tokens(self.ids[before : before + int(lengths.sum())], lengths, skips)

    @staticmethod
    def join(parts: "list[Tokens]") -> "Tokens":
        """All texts of all parts, in order."""
        skips = [torch.zeros_like(part.lengths) if part.skips is None else part.skips for part in parts]
        return Tokens(
            torch.cat([part.ids for part in parts]),
            torch.cat([part.lengths for part in parts]),
            torch.cat(skips) if any(part.skips is not None for part in parts) else None,
        )


@dataclass(frozen=True)
class TokenTable:
    """The token ids of distinct texts, held compactly, read by index."""

    ids: np.ndarray  # (tokens,), int32
    starts: np.ndarray  # (texts + 1,), int64; text i is ids[starts[i]:starts[i + 1]]
    skip: int = 0  # leading tokens of each text that are of its prompt

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each text, ``(texts,)``."""
        return np.diff(self.starts)

    def take(self, index: np.ndarray) -> Tokens:
        """The texts at ``index``, ``(texts,)``, in that order."""
        starts = self.starts[index]  # (texts,)
        lengths = self.starts[1:][index] - starts  # (texts,)
        # Position of every wanted token: its text's start plus its place in that text.
        place = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)  # (tokens,)
        ids = self.ids[np.repeat(starts, lengths) + place]  # (tokens,)
        counts = torch.from_numpy(lengths)  # (texts,)
        skips = torch.full_like(counts, self.skip) if self.skip else None
        return Tokens(torch.from_numpy(ids.astype(np.int64)), counts, skips)


@dataclass(frozen=True)
class View:
    """One view of the rows, as one pass through the encoder takes it."""

    tokens: Tokens  # of (rows,) texts, cut to the length of this pass
    # (rows,), int64: decide the dropout of each text wherever and with whatever others it is encoded
    seeds: Tensor
    dropout: bool = True
    hidden: "Hidden | None" = None  # word pieces that are to be guessed; then no vectors of texts are wanted

    def __len__(self) -> int:
        return len(self.tokens)

    def part(self, rows: slice) -> "View":
        """The same view of some neighbouring rows."""
        hidden = self.hidden and self.hidden._replace(pieces=self.hidden.pieces.part(rows))
        return View(self.tokens.part(rows), self.seeds[rows], self.dropout, hidden)


class Hidden(NamedTuple):
    """Word pieces of a view that a loss has hidden."""

    pieces: Tokens  # what stood at each token, `VISIBLE` where nothing is to be guessed
    share: float  # of the tokens that are chosen
    chosen: int  # tokens, of all rows of the batch and all processes


@dataclass(frozen=True)
class Batch:
    """The rows whose texts the losses compare with each other.

    The key of a view is its pass, the name of the view (``left``, ``right``, ``negative``, ``text``,
    ``masked_once``, ``masked_twice``) where the pass is a usual one. `targets` are the columns of the data
    set (``score`` float64, ``label`` int64) and, for every view, ``<view>_identity`` int64, equal for equal
    texts.
    """

    views: dict[str, View]  # of the rows that this process encodes
    targets: dict[str, Tensor]  # (rows,) each, of all rows
    rows: np.ndarray  # (rows,), int64: the position of each in the training split
    own: slice = field(default_factory=lambda: slice(None))  # the rows that this process encodes
    part: str = ""  # of a mixture, that the rows are of
