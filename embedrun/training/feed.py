"""Rows to batches: tokens once, then by index."""

from collections.abc import Callable, Mapping
from hashlib import blake2b

import numpy as np
import torch
from torch import Tensor

from embedrun.batch import Batch, TokenTable, View
from embedrun.loss.terms import Pass
from embedrun.rows import MASKED, Rows
from embedrun.training.order import Draw
from embedrun.training.processes import Processes

Tokenize = Callable[[list[str], int | None], TokenTable]


class Feed:
    """The training rows, tokenised once for each length that a pass asks for.

    Args:
        rows: of the training split.
        tokenize: texts and a length in tokens to a table of token ids.
        passes: how views of the rows go through the encoder, by key.
        targets: which columns the losses need.
        seed: of the dropout of each text, and of its masked copies.
        processes: who encodes which rows.
        mask: the tokenizer's mask token; only rows with masked copies need it.

    Attributes:
        texts: the distinct texts; their place is their identity.
    """

    def __init__(
        self,
        rows: Rows,
        tokenize: Tokenize,
        passes: Mapping[str, Pass],
        targets: list[str],
        *,
        seed: int = 0,
        processes: Processes | None = None,
        mask: str = "",
    ) -> None:
        position: dict[str, int] = {}
        # The place of each row's text among the distinct ones is also its identity: equal for equal texts.
        self._index = {
            view: np.array([position.setdefault(text, len(position)) for text in rows.texts[view]])
            for view in dict.fromkeys(way.view for way in passes.values() if way.view not in MASKED)
        }  # (rows,) each
        self.texts = list(position)
        lengths = {way.max_length for way in passes.values() if way.view not in MASKED}
        self._tables = {length: tokenize(self.texts, length) for length in sorted(lengths, key=str)}
        self._targets: dict[str, Tensor] = {name: torch.from_numpy(rows.targets[name]) for name in targets}
        self._passes, self._seed = passes, seed
        self._processes = processes or Processes()
        self._rows, self._tokenize, self._mask = rows, tokenize, mask

    def batch(self, draw: Draw) -> Batch:
        """The rows of one batch; another number is other dropout, another epoch other masks."""
        number, epoch, rows = draw
        own = self._processes.own(len(rows))
        copies = self._copies(rows[own], epoch)
        views = {
            key: View(
                self._tokenize(copies[way.view], way.max_length).take(np.arange(len(rows[own])))
                if way.view in MASKED
                else self._tables[way.max_length].take(self._index[way.view][rows[own]]),
                _seeds(f"{self._seed} {number} {way.view} {way.draw}", rows[own]),
                way.dropout,
            )
            for key, way in self._passes.items()
        }
        targets = {name: values[rows] for name, values in self._targets.items()}  # (batch,) each
        identity = {f"{view}_identity": torch.from_numpy(index[rows]) for view, index in self._index.items()}
        return Batch(views, targets | identity, rows, own)

    def _copies(self, rows: np.ndarray, epoch: int) -> dict[str, list[str]]:
        """The masked copies of these rows by view, as long as `rows`; empty where a sentence has none."""
        found: dict[str, list[str]] = {view: [] for view in MASKED}
        if not any(way.view in MASKED for way in self._passes.values()):
            return found
        masked = self._rows.masked
        assert masked is not None
        for row in rows.tolist():
            text = self._rows.texts["text"][row]
            random = np.random.default_rng([self._seed, epoch, row])
            # A row without copies is left out by the loss; nothing is encoded in the fewest tokens.
            both = masked.copies(text, self._mask, random) if masked.usable(text) else ("", "")
            for view, copy in zip(MASKED, both, strict=True):
                found[view].append(copy)
        return found


def _seeds(what: str, rows: np.ndarray) -> Tensor:
    """A seed for each row, int64, ``(rows,)``: a function of `what` and the row, not of its place here."""
    base = int.from_bytes(blake2b(what.encode(), digest_size=8).digest(), "little", signed=True)
    return torch.from_numpy(rows.astype(np.int64)) * 0x5851F42D4C957F2D + base  # wraps around
