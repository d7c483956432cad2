"""Rows to batches: tokens once, then by index."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from embedrun.batch import Batch, TokenTable
from embedrun.rows import Rows


class Feed:
    """The training rows, tokenised once.

    Args:
        rows: of the training split.
        tokenize: texts to a table of token ids; called once, with the distinct texts.
        views: which views of the rows the losses need.
        targets: which columns they need.
    """

    def __init__(
        self, rows: Rows, tokenize: Callable[[list[str]], TokenTable], views: list[str], targets: list[str]
    ) -> None:
        position: dict[str, int] = {}
        # The place of each row's text among the distinct ones is also its identity: equal for equal texts.
        self._index = {
            view: np.array([position.setdefault(text, len(position)) for text in rows.texts[view]])
            for view in views
        }  # (rows,) each
        self._table = tokenize(list(position))
        self._targets: dict[str, Tensor] = {name: torch.from_numpy(rows.targets[name]) for name in targets}

    def batch(self, rows: np.ndarray) -> Batch:
        """The rows at these positions, ``(batch,)``."""
        views = {view: self._table.take(index[rows]) for view, index in self._index.items()}
        targets = {name: values[rows] for name, values in self._targets.items()}  # (batch,) each
        identity = {f"{view}_identity": torch.from_numpy(index[rows]) for view, index in self._index.items()}
        return Batch(views, targets | identity, rows)
