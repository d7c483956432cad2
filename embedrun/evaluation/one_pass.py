"""Score several tasks with one encoding pass over their distinct sentences."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from embedrun.evaluation.clean import add_clean
from embedrun.evaluation.source import Encode, Scores, Source
from embedrun.rows import Rows


class Task(Protocol):
    """What an evaluation class offers.

    One that scores every row by itself says so with `by_row = True`; it can then be asked for the score
    of a part of its rows, even of none.
    """

    def sources(self) -> dict[str, Source]:
        """Which rows it scores, by its own name for them."""
        ...

    def score(self, rows: Mapping[str, Rows], encode: Encode) -> Scores:
        """Score a model that is known by `encode` alone."""
        ...


def score_all(
    tasks: Mapping[str, Task],
    rows: Mapping[str, Mapping[str, Rows]],
    encode: Encode,
    clean: Mapping[str, Mapping[str, np.ndarray]] | None = None,
) -> dict[str, Scores]:
    """The scores of each task.

    Args:
        tasks: by name.
        rows: of each task, by its own names for its sources.
        encode: called once, with every distinct sentence of every task in order of first appearance.
        clean: of the tasks to score without some of their rows too, by task and source: true where a row
            is kept, bool, ``(rows,)``.
    """
    sentences = [text for own in rows.values() for split in own.values() for text in split.sentences()]
    position = {text: index for index, text in enumerate(dict.fromkeys(sentences))}
    vectors = encode(list(position)) if position else torch.empty(0, 0)  # (distinct, dim)

    def look_up(texts: list[str]) -> Tensor:
        return vectors[torch.tensor([position[text] for text in texts], dtype=torch.long)]  # (texts, dim)

    found = {name: task.score(rows[name], look_up) for name, task in tasks.items()}
    for name, masks in (clean or {}).items():
        found[name] = add_clean(found[name], tasks[name], rows[name], masks, look_up)
    return found
