"""Rows to batches: tokens once, then by index."""

from collections.abc import Callable, Mapping
from hashlib import blake2b

import numpy as np
import torch
from torch import Tensor

from embedrun.batch import Batch, TokenTable, View
from embedrun.loss.terms import Pass
from embedrun.prompt import Prompt
from embedrun.rows import MASKED, Rows
from embedrun.training.order import Draw
from embedrun.training.processes import Processes

Tokenize = Callable[[list[str], int | None, Prompt | None], TokenTable]


class Feed:
    """The training rows, tokenised once for each length that a pass asks for, and each prompt.

    Args:
        rows: of the training split.
        tokenize: texts, a length in tokens and a prompt to a table of token ids.
        passes: how views of the rows go through the encoder, by key.
        targets: which columns the losses need.
        seed: of the dropout of each text, and of its masked copies.
        processes: who encodes which rows.
        mask: the tokenizer's mask token; only rows with masked copies need it.
        prompts: what stands around the texts of each view; None, or no entry: nothing.

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
        prompts: Mapping[str, Prompt | None] | None = None,
    ) -> None:
        self._prompts = prompts or {}
        position: dict[str, int] = {}
        # The place of each row's text among the distinct ones is also its identity: equal for equal texts.
        self._index = {
            view: np.array([position.setdefault(text, len(position)) for text in rows.texts[view]])
            for view in dict.fromkeys(_source(way) for way in passes.values())
        }  # (rows,) each
        self.texts = list(position)
        kinds = dict.fromkeys(self._kind(way) for way in passes.values() if way.view not in MASKED)
        self._tables = {kind: tokenize(self.texts, *kind) for kind in sorted(kinds, key=str)}
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
                self._tokenize(copies[way.view], *self._kind(way)).take(np.arange(len(rows[own])))
                if way.view in MASKED
                else self._tables[self._kind(way)].take(self._index[way.view][rows[own]]),
                _seeds(f"{self._seed} {number} {way.view} {way.draw}", rows[own]),
                way.dropout,
            )
            for key, way in self._passes.items()
        }
        targets = {name: values[rows] for name, values in self._targets.items()}  # (batch,) each
        identity = {f"{view}_identity": torch.from_numpy(index[rows]) for view, index in self._index.items()}
        return Batch(views, targets | identity, rows, own)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each row in each pass, padding not counted, int64, ``(rows, passes)``.

        A masked copy, made anew in each epoch, counts as the sentence it is of.
        """
        kinds = {kind: table.lengths for kind, table in self._tables.items()}  # (texts,) each
        for kind in dict.fromkeys(map(self._kind, self._passes.values())):
            if kind not in kinds:  # of masked copies alone
                kinds[kind] = self._tokenize(self.texts, *kind).lengths  # (texts,)
        ways = self._passes.values()
        each = [kinds[self._kind(way)][self._index[_source(way)]] for way in ways]  # (rows,) each
        return np.stack(each, axis=1)

    @property
    def texts_of_rows(self) -> np.ndarray:
        """The identity of each text of each row, int64, ``(rows, views)``."""
        return np.stack(list(self._index.values()), axis=1)

    def _kind(self, way: Pass) -> tuple[int | None, Prompt | None]:
        """Length in tokens and prompt of a pass: passes that agree in both share a table."""
        return way.max_length, self._prompts.get(way.view)

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


def _source(way: Pass) -> str:
    """The view whose texts a pass reads, or whose copies."""
    return "text" if way.view in MASKED else way.view


def _seeds(what: str, rows: np.ndarray) -> Tensor:
    """A seed for each row, int64, ``(rows,)``: a function of `what` and the row, not of its place here."""
    base = int.from_bytes(blake2b(what.encode(), digest_size=8).digest(), "little", signed=True)
    return torch.from_numpy(rows.astype(np.int64)) * 0x5851F42D4C957F2D + base  # wraps around
