"""Rows to batches: tokens once, then by index."""

from collections.abc import Callable, Mapping
from hashlib import blake2b

import numpy as np
import torch
from torch import Tensor

from embedrun.batch import Batch, TokenTable, View
from embedrun.loss.terms import Pass
from embedrun.rows import Rows
from embedrun.training.processes import Processes

Tokenize = Callable[[list[str], int | None], TokenTable]


class Feed:
    """The training rows, tokenised once for each length that a pass asks for.

    Args:
        rows: of the training split.
        tokenize: texts and a length in tokens to a table of token ids.
        passes: how views of the rows go through the encoder, by key.
        targets: which columns the losses need.
        seed: of the dropout of each text.
        processes: who encodes which rows.

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
    ) -> None:
        position: dict[str, int] = {}
        # The place of each row's text among the distinct ones is also its identity: equal for equal texts.
        self._index = {
            view: np.array([position.setdefault(text, len(position)) for text in rows.texts[view]])
            for view in dict.fromkeys(way.view for way in passes.values())
        }  # (rows,) each
        self.texts = list(position)
        lengths = {way.max_length for way in passes.values()}
        self._tables = {length: tokenize(self.texts, length) for length in sorted(lengths, key=str)}
        self._targets: dict[str, Tensor] = {name: torch.from_numpy(rows.targets[name]) for name in targets}
        self._passes, self._seed = passes, seed
        self._processes = processes or Processes()

    def batch(self, rows: np.ndarray, number: int) -> Batch:
        """The rows at these positions, ``(batch,)``.

        Args:
            rows: positions in the training split.
            number: of the batch in the run; another number is other dropout.
        """
        own = self._processes.own(len(rows))
        views = {
            key: View(
                self._tables[way.max_length].take(self._index[way.view][rows[own]]),
                _seeds(f"{self._seed} {number} {way.view} {way.draw}", rows[own]),
                way.dropout,
            )
            for key, way in self._passes.items()
        }
        targets = {name: values[rows] for name, values in self._targets.items()}  # (batch,) each
        identity = {f"{view}_identity": torch.from_numpy(index[rows]) for view, index in self._index.items()}
        return Batch(views, targets | identity, rows, own)


def _seeds(what: str, rows: np.ndarray) -> Tensor:
    """A seed for each row, int64, ``(rows,)``: a function of `what` and the row, not of its place here."""
    base = int.from_bytes(blake2b(what.encode(), digest_size=8).digest(), "little", signed=True)
    return torch.from_numpy(rows.astype(np.int64)) * 0x5851F42D4C957F2D + base  # wraps around
