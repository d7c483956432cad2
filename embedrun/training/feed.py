"""Rows to batches of token ids and targets, in the order asked for, with the vectors of teachers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b

import numpy as np
import torch
from torch import Tensor

from embedrun.backbone.masked_language import Hide
from embedrun.batch import VISIBLE, Batch, Hidden, Tokens, TokenTable, View
from embedrun.config import TrainingConfig
from embedrun.console import Progress
from embedrun.encoder import Encoder
from embedrun.errors import ConfigError
from embedrun.loss.terms import Masked, Pass
from embedrun.prompts import Prompt
from embedrun.rows import MASKED, Rows, texts_at
from embedrun.training.order import Draw, Order
from embedrun.training.processes import Processes

_SCORES = "scores"  # the target of lists with a score for each text, ``(rows, 1 + negatives)``
Tokenize = Callable[[Sequence[str], int | None, Prompt | None], TokenTable]


class Feed:
    """The training rows, tokenised once for each length that a pass asks for, and each prompt.

    Args:
        passes: how views of the rows go through the encoder, by key.
        seed: of the dropout of each text, and of its masked copies.
        mask: the tokenizer's mask token; only rows with masked copies need it.
        prompts: what stands around the texts of each view; None, or no entry: nothing.
        anew: `tokenize` for texts that no other batch has, masked copies; None: the same.
        hide: hides word pieces; only a loss that guesses them needs it.
        before: how many texts the parts of a mixture before this one have.

    Attributes:
        texts: the distinct texts; a text is identified by its index, behind those of the parts before.
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
        anew: Tokenize | None = None,
        hide: Hide | None = None,
        before: int = 0,
    ) -> None:
        self._prompts = prompts or {}
        # The place of each row's text among the distinct ones is also its identity: equal for equal texts.
        used = {_source(way) for way in passes.values()}
        self._views = [view for view in rows.texts if view in used]
        self._lists, self._chance = rows.lists, (-1, np.zeros(0))
        if self._lists is None:
            self.texts, self._index = rows.distinct(self._views)
        else:
            self.texts, self._pairs = self._lists.pairs.distinct(["left", "right"])
        kinds = dict.fromkeys(self._kind(way) for way in passes.values() if way.view not in MASKED)
        self._tables = {kind: tokenize(self.texts, *kind) for kind in sorted(kinds, key=str)}
        self._targets = {name: rows.targets[name] for name in targets if name in rows.targets}
        self._with_scores = _SCORES in targets
        self._passes, self._seed, self._before = passes, seed, before
        self._processes = processes or Processes()
        self._rows, self._tokenize, self._mask = rows, tokenize, mask
        self._anew, self._hide = anew or tokenize, hide

    def batch(self, draw: Draw) -> Batch:
        """The rows of one batch.

        Dropout and hidden word pieces differ with its number, and masked copies with the epoch.
        """
        number, epoch, rows, _ = draw
        share = self._processes.own(len(rows))
        copies = self._copies(rows[share], epoch)
        picked, targets = self._picked(rows, epoch)
        views = {}
        for key, way in self._passes.items():
            drawn_for = key if isinstance(way, Masked) else f"{way.view} {way.draw}"
            seeds = _seeds(f"{self._seed} {number} {drawn_for}", rows)
            if isinstance(way, Masked):
                every = self._tables[self._kind(way)].take(picked[way.view])
                views[key] = self._hidden(every, way, seeds).part(share)
            else:
                tokens = (
                    self._anew(copies[way.view], *self._kind(way)).take(np.arange(len(rows[share])))
                    if way.view in MASKED
                    else self._tables[self._kind(way)].take(picked[way.view][share])
                )
                views[key] = View(tokens, seeds[share], way.dropout)
        identity = {
            f"{view}_identity": index.astype(np.int64) + self._before for view, index in picked.items()
        }
        targets |= {name: values[rows] for name, values in self._targets.items()}  # (batch,) each
        tensors = {name: torch.from_numpy(values) for name, values in (targets | identity).items()}
        return Batch(views, tensors, rows, share, draw.part)

    def _hidden(self, tokens: Tokens, way: Masked, seeds: Tensor) -> View:
        """The texts of all rows with some of their word pieces hidden, by the seed of the first row."""
        assert self._hide is not None
        ids, pieces = self._hide(tokens.ids, way.share, int(seeds[0]))  # (tokens,) each
        chosen = int((pieces != VISIBLE).sum())
        hidden = Hidden(Tokens(pieces, tokens.lengths), way.share, chosen)
        return View(replace(tokens, ids=ids), seeds, way.dropout, hidden)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each row in each pass, padding not counted, int64, ``(rows, passes)``.

        A masked copy, made anew in each epoch, counts as the sentence it is of.
        """
        kinds = {kind: table.lengths for kind, table in self._tables.items()}  # (texts,) each
        ways = self._passes.values()
        if self._lists is not None:
            return np.stack([self._longest(way, kinds[self._kind(way)]) for way in ways], axis=1)
        for kind in dict.fromkeys(map(self._kind, self._passes.values())):
            if kind not in kinds:  # of masked copies alone
                kinds[kind] = self._tokenize(self.texts, *kind).lengths  # (texts,)
        columns = [kinds[self._kind(way)][self._index[_source(way)]] for way in ways]  # (rows,) each
        return np.stack(columns, axis=1)

    @property
    def texts_of_rows(self) -> np.ndarray:
        """The identity of each text of each row, int64, ``(rows, views)``; of lists of all their texts."""
        if self._lists is not None:
            anchors, places = self._pairs["left"][self._lists.starts], self._lists.all_of()
            return np.concatenate([anchors[:, None], self._pairs["right"][places]], axis=1)
        return np.stack(list(self._index.values()), axis=1)

    def _picked(self, rows: np.ndarray, epoch: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """The places of the texts of some rows, by view, ``(batch,)`` each, and targets that go with them."""
        lists = self._lists
        if lists is None:
            return {view: index[rows] for view, index in self._index.items()}, {}
        if self._chance[0] != epoch:
            self._chance = epoch, np.random.default_rng([self._seed, epoch, 1]).random(len(lists.pairs))
        places = lists.draw(rows, self._chance[1])  # (batch, 1 + negatives)
        left, right = self._pairs["left"][lists.starts[rows]], self._pairs["right"][places]
        columns = zip(
            ("right", *(f"negative_{one}" for one in range(1, right.shape[1]))), right.T, strict=True
        )
        every = {"left": left, **dict(columns)}
        targets = {}
        if self._with_scores:
            scores = lists.pairs.targets["listed"][places]  # (batch, 1 + negatives)
            is_there = np.arange(right.shape[1] - 1)[None] < lists.negatives[rows][:, None]
            scores[:, 1:][~is_there] = np.nan
            targets[_SCORES] = scores
        return {view: every[view] for view in self._views}, targets

    def _longest(self, way: Pass, lengths: np.ndarray) -> np.ndarray:
        """Tokens of a row of lists in one pass, at most, ``(rows,)``; `lengths` are those of the texts."""
        assert self._lists is not None
        if way.view == "left":
            return lengths[self._pairs["left"][self._lists.starts]]
        positives, negatives = self._lists.longest(lengths[self._pairs["right"]])
        return positives if way.view == "right" else negatives

    def _kind(self, way: Pass) -> tuple[int | None, Prompt | None]:
        return way.max_length, self._prompts.get(way.view)

    def _copies(self, rows: np.ndarray, epoch: int) -> dict[str, list[str]]:
        copies: dict[str, list[str]] = {view: [] for view in MASKED}
        if not any(way.view in MASKED for way in self._passes.values()):
            return copies
        masked = self._rows.masked
        assert masked is not None
        texts = texts_at(self._rows.texts["text"], rows)
        for row, text in zip(rows.tolist(), texts, strict=True):
            random = np.random.default_rng([self._seed, epoch, row])
            # A row without copies is left out by the loss; nothing is encoded in the fewest tokens.
            both = masked.copies(text, self._mask, random) if masked.usable(text) else ("", "")
            for view, copy in zip(MASKED, both, strict=True):
                copies[view].append(copy)
        return copies


class Feeds:
    """The feed of each part of a mixture, or one under ''."""

    def __init__(self, feeds: Mapping[str, Feed]) -> None:
        self.parts = dict(feeds)

    def batch(self, draw: Draw) -> Batch:
        """The batch of this draw, from the part that it names."""
        return self.parts[draw.part].batch(draw)


def _source(way: Pass) -> str:
    return "text" if way.view in MASKED else way.view


def _seeds(what: str, rows: np.ndarray) -> Tensor:
    """A seed for each row, int64, ``(rows,)``: a function of `what` and the row, not of its place here."""
    base = int.from_bytes(blake2b(what.encode(), digest_size=8).digest(), "little", signed=True)
    return torch.from_numpy(rows.astype(np.int64)) * 0x5851F42D4C957F2D + base  # wraps around


def order_of(feed: "Feed", rows: Rows, training: TrainingConfig, seed: int, *, processes: int = 1) -> Order:
    """The batches of a run; `seed` is that of the permutations."""
    grouped, budget = training.batching == "length_grouped", training.batch_tokens
    lengths = feed.lengths if grouped or budget is not None else None  # (rows, passes)
    if budget is not None and lengths is not None:
        # A batch may have to hold the longest of these.
        least = min(max(2, processes), training.batch_size, len(rows))
        longest = np.argsort(-lengths.sum(axis=1), kind="stable")[:least]  # (least,)
        if (together := int(lengths[longest].sum())) > budget:
            raise ConfigError(
                f"training.batch_tokens: a batch has {least} rows or more, and the longest {least} (first "
                f"training row {longest[0]:,}, counted from 0) have {together:,} tokens over all views, more "
                f"than {budget:,}; raise it to {together:,} or more, or lower backbone.max_length"
            )
    order = Order(
        len(rows),
        training.batch_size,
        training.accumulate,
        seed,
        batching=training.batching,
        grouped_batches=training.grouped_batches,
        batch_tokens=budget,
        distinct=training.distinct_texts,
        lengths=lengths,
        texts=feed.texts_of_rows if training.distinct_texts or training.batching == "text_grouped" else None,
    )
    if training.distinct_texts and order.left_out(0) == len(rows):
        size = min(training.batch_size, len(rows))
        raise ConfigError(
            f"training.distinct_texts: no batch of {size:,} of the {len(rows):,} rows can be filled without "
            "equal texts; lower training.batch_size, or leave it false"
        )
    return order


def encoded(encoder: Encoder, texts: Sequence[str]) -> np.ndarray:
    """A teacher's vectors of all texts, ``(texts, dim)``, with a progress bar."""
    with Progress("teacher", len(texts), "texts") as bar:
        return encoder.encode(list(texts), progress=lambda done, _: bar.reach(done))


class Teachers:
    """Vectors of the training texts from frozen encoders, in float32 and without dropout.

    Args:
        encoders: on their device; they are frozen here.
        texts: the distinct training texts.
        keep: gives the vectors of all texts, ``(texts, dim)``, of one encoder, now; None: each batch's are
            computed when it is asked for.
    """

    def __init__(
        self,
        encoders: Sequence[Encoder],
        texts: Sequence[str],
        *,
        keep: Callable[[Encoder, Sequence[str]], np.ndarray] | None = None,
    ) -> None:
        self._encoders = [encoder.eval().requires_grad_(False) for encoder in encoders]
        self._texts = texts
        self.dims = tuple(encoder.dim for encoder in encoders)
        self._kept = None if keep is None else [keep(encoder, texts) for encoder in self._encoders]

    def vectors(self, index: Tensor) -> Tensor:
        """The teachers' vectors of some texts, ``(texts, teachers, widest)``, on the CPU.

        `index`, int64, ``(texts,)``, are places among all training texts. Vectors of a teacher that is
        narrower than the widest are padded with zeros, which change no cosine.
        """
        if self._kept is not None:
            parts = [kept[index.numpy()] for kept in self._kept]  # (texts, dim) each
        else:
            texts = texts_at(self._texts, index.tolist())
            parts = [encoder.encode(texts) for encoder in self._encoders]
        vectors = torch.zeros(len(index), len(self.dims), max(self.dims, default=0))
        for place, part in enumerate(parts):
            vectors[:, place, : part.shape[1]] = torch.from_numpy(part)
        return vectors
