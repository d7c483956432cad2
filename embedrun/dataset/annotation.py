"""Teacher similarity of labelled pairs: prompts, blocks, shards and the cosine, without files or models."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from embedrun.errors import DataError
from embedrun.rows import Rows

Encode = Callable[[list[str]], np.ndarray]  # texts -> (texts, dim), float32

_PLACE = "{text}"
_ROWS_AT_ONCE = 1024  # pairs whose vectors are held in float64
_SHOWN = 60  # characters of a text in a message


@dataclass(frozen=True)
class Block:
    """Consecutive rows of a data set: the unit of work, and of what a kill can undo.

    Args:
        number: from 0.
        left: first texts, ``(rows,)``.
        right: second texts, ``(rows,)``.
        label: 0 entailment, 1 neutral, 2 contradiction, int64, ``(rows,)``.
    """

    number: int
    left: list[str]
    right: list[str]
    label: np.ndarray


def block_count(rows: int, block_rows: int) -> int:
    """How many blocks there are; the last may be shorter."""
    return -(-rows // block_rows)


def block_of(rows: Rows, number: int, block_rows: int) -> Block:
    """One block. It depends on the rows and on `block_rows` alone, never on the sharding."""
    part = slice(number * block_rows, (number + 1) * block_rows)
    return Block(number, rows.texts["left"][part], rows.texts["right"][part], rows.targets["label"][part])


def prompt_problem(prompt: str | None) -> str | None:
    """Why this is no prompt, or None."""
    others = [name for name in re.findall(r"\{\w*\}", prompt or "") if name != _PLACE]
    if others:
        return f"{others[0]} stands for nothing; write {_PLACE} where the text goes, or a prefix without it"
    return None


def prompted(texts: Sequence[str], prompt: str | None) -> list[str]:
    """The texts as a teacher reads them.

    Args:
        texts: any number.
        prompt: a template with `{text}`, or a prefix; None for the texts as they are.
    """
    if prompt is None:
        return list(texts)
    template = prompt if _PLACE in prompt else prompt + _PLACE
    return [template.replace(_PLACE, text) for text in texts]


def similarities(block: Block, teachers: Sequence[Encode]) -> np.ndarray:
    """The cosine of the two texts of each pair by each teacher, float64, ``(rows, teachers)``.

    Each teacher gets the distinct texts of the block once, shortest first and then by their characters:
    what it sees depends on the block alone, so that any sharding and any restart gives the same numbers.

    Raises:
        DataError: if a teacher's vector is not finite.
    """
    texts = sorted({*block.left, *block.right}, key=lambda text: (len(text), text))
    place = {text: index for index, text in enumerate(texts)}
    left = np.array([place[text] for text in block.left], dtype=np.int64)  # (rows,)
    right = np.array([place[text] for text in block.right], dtype=np.int64)  # (rows,)
    found = np.empty((len(left), len(teachers)))  # (rows, teachers)
    for column, encode in enumerate(teachers):
        vectors = encode(texts)  # (texts, dim)
        _check_finite(vectors, texts, column)
        for start in range(0, len(left), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            found[part, column] = cosine(vectors[left[part]], vectors[right[part]])
    return found


def cosine(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Cosine of each two rows, computed in float64, ``(rows,)``; 0 where either vector is zero.

    Args:
        left: ``(rows, dim)``.
        right: ``(rows, dim)``.
    """
    left, right = left.astype(np.float64), right.astype(np.float64)
    length = np.sqrt((left * left).sum(1)) * np.sqrt((right * right).sum(1))  # (rows,)
    return (left * right).sum(1) / np.where(length > 0, length, 1.0)


def average(found: np.ndarray) -> np.ndarray:
    r"""The score of each pair: the mean of its teachers' cosines, ``(rows,)``.

    .. math:: S = \frac{S_1 + S_2}{2}

    Source: RAOE, Eq. 4, for its two teachers; here for any number. Neither rescaled nor clipped to [0, 1],
    which the paper gives as the range: a cosine can be negative, and the objectives use the order alone.

    Args:
        found: cosines, ``(rows, teachers)``.
    """
    return found.mean(1)


def _check_finite(vectors: np.ndarray, texts: Sequence[str], column: int) -> None:
    finite = np.isfinite(vectors).all(axis=1)  # (texts,)
    if finite.all():
        return
    text = texts[int(finite.argmin())]
    shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
    raise DataError(
        f"teachers[{column}]: {int((~finite).sum())} of its {len(texts)} vectors are not finite, "
        f"first that of {shown!r}; its weights may be damaged, name another"
    )
