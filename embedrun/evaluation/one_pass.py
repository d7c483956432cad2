"""Score several tasks with one encoding pass over their distinct sentences."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from embedrun.evaluation.clean import add_clean
from embedrun.evaluation.pieces import pieces, whole
from embedrun.evaluation.source import Encode, Progress, Scores, Source
from embedrun.rows import Rows


class Task(Protocol):
    """What an evaluation class offers.

    One that scores every row by itself says so with `by_row = True`; it can then be asked for the score
    of a part of its rows, even of none. One that can be scored piece by piece has two methods more:
    `parts() -> dict[str, Task]`, whose sources are among its own, and `total(found) -> Scores`, the averages
    over what its parts found, by the same names, and the main score; a part is kept as soon as it is scored.
    One with `unscaled = True` gets vectors as pooling gives them, from a model that scales its vectors, too.
    """

    def sources(self) -> dict[str, Source]:
        """Which rows it scores, by its own name for them."""
        ...

    def score(self, rows: Mapping[str, Rows], encode: Encode, progress: Progress | None = None) -> Scores:
        """Score a model that is known by `encode` alone."""
        ...


Keep = Callable[[str, str, Scores], None]


def score_all(
    tasks: Mapping[str, Task],
    rows: Mapping[str, Mapping[str, Rows]],
    encode: Encode,
    clean: Mapping[str, Mapping[str, np.ndarray]] | None = None,
    *,
    done: Mapping[str, Mapping[str, Scores]] | None = None,
    keep: Keep | None = None,
    watch: Callable[[str], AbstractContextManager[Progress]] | None = None,
    scale: Callable[[Tensor], Tensor] | None = None,
) -> dict[str, Scores]:
    """The scores of each task.

    Args:
        tasks: by name.
        rows: of each task, by its own names for its sources.
        encode: called once with every distinct sentence of what is not done, in order of first appearance;
            again only by a task that brings texts of its own.
        clean: of the tasks to score without some of their rows too, by task and source: true where a row
            is kept, bool, ``(rows,)``.
        done: pieces of tasks that were scored before, by task and piece; they are not scored again.
        keep: called with task, piece and scores as soon as a piece is scored.
        watch: opens what is told of the progress of a piece, by a label.
        scale: what the model does to its vectors at last, where `encode` leaves it out; not done for tasks
            with `unscaled = True`.
    """
    before = {name: dict((done or {}).get(name, {})) for name in tasks}
    waiting = [
        (name, part, piece)
        for name, task in tasks.items()
        for part, piece in pieces(task).items()
        if part not in before[name]
    ]
    own = {(name, part): {key: rows[name][key] for key in piece.sources()} for name, part, piece in waiting}
    vectors = _Vectors([text for split in own.values() for one in split.values() for text in one.sentences()])
    vectors.fill(encode)

    def scaled(texts: list[str]) -> Tensor:
        return vectors(texts) if scale is None else scale(vectors(texts))  # (texts, dim)

    for name, part, piece in waiting:
        given = own[name, part]
        look_up = vectors if getattr(piece, "unscaled", False) else scaled
        with nullcontext() if watch is None else watch(f"{name} {part}") as progress:
            found = piece.score(given, look_up, progress)
        if clean and name in clean:
            masks = {key: clean[name][key] for key in given}
            found = add_clean(found, piece, given, masks, look_up)
        before[name][part] = found
        if keep is not None:
            keep(name, part, found)
    return {
        name: whole(task, {part: before[name][part] for part in pieces(task)}) for name, task in tasks.items()
    }


class _Vectors:
    """The one pass: vectors of the announced texts by position, and of others on demand."""

    def __init__(self, sentences: list[str]) -> None:
        self._position = {text: index for index, text in enumerate(dict.fromkeys(sentences))}
        self._table = torch.empty(0, 0)  # (distinct, dim)

    def fill(self, encode: Encode) -> None:
        self._encode = encode
        if self._position:
            self._table = encode(list(self._position))  # (distinct, dim)

    def __call__(self, texts: list[str]) -> Tensor:
        try:
            places = [self._position[text] for text in texts]
        except KeyError:
            return self._encode(texts)  # (texts, dim)
        return self._table[torch.tensor(places, dtype=torch.long)]  # (texts, dim)
