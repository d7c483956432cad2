"""Which evaluation rows are nearly the same as training rows, by the words that both have."""

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from embedrun import plot
from embedrun.config import EvaluationConfig
from embedrun.evaluation.scores import Scores, spearman
from embedrun.experiment.contamination import Contamination, normalise, pairs_of
from embedrun.files import to_json, write_atomically
from embedrun.rows import Rows

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_AT_ONCE = 2**20  # candidates that are compared at a time


def near_rows(train: Sequence[Rows], rows: Rows, levels: Sequence[float]) -> dict[float, np.ndarray]:
    r"""Whether a training pair is near each row, bool, ``(rows,)``, by level.

    Two texts with the word sets *A* and *B* are near where :math:`|A \cap B| / |A \cup B|` (Jaccard 1901) is
    at least the level; two pairs where both texts are, in either order; a row of one text where any training
    text is. Words are those of `normalise`. Only texts that share one of the rarest words are compared, so
    many of these that none can be missed (Chaudhuri et al. 2006, A Primitive Operator for Similarity Joins).
    """
    from scipy.sparse import csr_array  # here, because it takes a part of a second to import

    words: dict[str, int] = {}
    seen, seen_pairs = _texts(train)
    own = list(dict.fromkeys(map(normalise, rows.sentences())))
    known, wanted = (_by_word(texts, words) for texts in (seen, own))
    shape = (max(len(own), 1), max(len(seen), 1))
    first, second, similarity = _similar(wanted, known, len(words), min(levels))
    place = {text: row for row, text in enumerate(own)}
    columns = [[place[normalise(text)] for text in column] for column in rows.texts.values()]  # (rows,) each
    found = {}
    for level in levels:
        close = similarity >= level
        near = csr_array(
            (np.ones(close.sum(), np.int32), (first[close], second[close])), shape=shape
        )  # (own, seen)
        if len(columns) == 1:
            found[level] = near.sum(axis=1)[columns[0]] > 0
            continue
        beside = near @ _adjacent(seen_pairs, shape[1])  # (own, seen): partners of what is near
        left, *others = (np.array(column, dtype=np.int64) for column in columns)
        is_near = [np.asarray((beside[left] * near[other]).sum(axis=1)) > 0 for other in others]
        found[level] = np.any(is_near, axis=0)
    return found


def clean(shared: Contamination, level: float | None) -> dict[str, dict[str, np.ndarray]]:
    """As `Contamination.clean`, and where a level is given without rows that are so near to a seen one."""
    masks = shared.clean()
    if level is None:
        return masks
    for task, sources in shared.scored.items():
        for key, rows in sources.items():
            masks[task][key] &= ~near_rows(shared.seen, rows, [level])[level]
    return masks


LEVELS = (0.9, 0.8, 0.7, 0.6, 0.5)
Curve = dict[str, tuple[int, float]]  # by level: rows that are left, and their score


def curves(shared: Contamination, scored: Mapping[str, Scores]) -> dict[str, Curve]:
    """Spearman × 100 of each set of pairs, by what is left out: nothing, equal rows, and near ones by level.

    From the predictions, so nothing is encoded again; a set without gold scores has no curve.
    """
    found = {}
    for task, sources in shared.scored.items():
        for key, rows in sources.items():
            predictions = scored[task].predictions if task in scored else {}
            columns = predictions.get(key) or next(iter(predictions.values()), {})
            if {"gold", "score"} <= columns.keys() and len(columns["gold"]) == len(rows):
                gold, score = (np.array(columns[name], dtype=np.float64) for name in ("gold", "score"))
                kept = ~shared.shared[task][key].rows  # (rows,)
                near = near_rows(shared.seen, rows, LEVELS)
                masks = {"nothing": np.ones(len(rows), dtype=bool), "equal": kept}
                masks |= {str(level): kept & ~near[level] for level in LEVELS}
                found[rows.name] = {
                    name: (int(mask.sum()), 100 * spearman(score[mask], gold[mask]))
                    for name, mask in masks.items()
                }
    return found


def tell(
    shared: Contamination | None,
    scored: Mapping[str, Scores],
    folder: Path,
    evaluation: EvaluationConfig,
    format: str,
) -> None:
    """Write `near.json` into a run directory, and plot it, where `evaluation.near` is set."""
    found = {} if shared is None or evaluation.near is None else curves(shared, scored)
    if not found:
        return
    plain = {
        name: {
            left_out: {"rows": rows, "spearman": score if score == score else None}
            for left_out, (rows, score) in curve.items()
        }
        for name, curve in found.items()
    }
    write_atomically(folder / "near.json", to_json(plain))
    lines = {name: [score for _, score in curve.values()] for name, curve in found.items()}
    levels = list(next(iter(found.values())))
    for path in plot.paths(folder / "plots" / "near", format):
        plot.by_level(lines, levels, ("left out: rows as near to seen ones as", "Spearman × 100"), path)


def _texts(train: Sequence[Rows]) -> tuple[list[str], list[tuple[int, int]]]:
    """The distinct training texts, and the places of the texts of each pair."""
    place: dict[str, int] = {}
    pairs = []
    for rows in train:
        for texts in zip(*rows.every_pair().texts.values(), strict=True):
            row = [normalise(text) for text in texts]
            for text in row:
                place.setdefault(text, len(place))
            pairs += [(place[a], place[b]) for a, b in pairs_of(row)]
    return list(place), pairs


def _by_word(texts: Sequence[str], words: dict[str, int]) -> list[np.ndarray]:
    """The words of each text by number, each once; new words are added to `words`."""
    return [
        np.unique([words.setdefault(word, len(words)) for word in text.split()]).astype(np.int64)
        for text in texts
    ]


def _matrix(texts: Sequence[np.ndarray], many: int) -> "csr_array":
    """1 where a text has a word, ``(texts, words)``."""
    from scipy.sparse import csr_array

    starts = np.cumsum([0, *map(len, texts)])
    columns = np.fromiter(chain.from_iterable(texts), np.int64, count=int(starts[-1]))
    return csr_array((np.ones(len(columns), np.int32), columns, starts), shape=(len(texts), max(many, 1)))


def _similar(
    wanted: list[np.ndarray], known: list[np.ndarray], many: int, level: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places of texts of both sides that are near at this level, and how near, ``(found,)`` each."""
    whole = _matrix(known, many)  # (known, words)
    count = np.asarray(whole.sum(axis=0)).ravel()  # (words,)
    # To share so large a part of its words, a text must share one of those that are left.
    rarest = [
        text[np.argsort(count[text], kind="stable")][: len(text) - int(np.ceil(level * len(text) - 1e-9)) + 1]
        for text in wanted
    ]
    rows = _matrix(wanted, many)
    sizes = [np.asarray(side.sum(axis=1)).ravel() for side in (rows, whole)]
    by_word, parts = whole.T.tocsr(), []
    for begin in range(0, len(wanted), 256):
        both = (_matrix(rarest[begin : begin + 256], many) @ by_word).tocoo()
        for start in range(0, both.nnz, _AT_ONCE):
            a, b = (axis[start : start + _AT_ONCE] for axis in (both.row + begin, both.col))
            shared = np.asarray((rows[a] * whole[b]).sum(axis=1)).ravel()  # (candidates,)
            jaccard = shared / (sizes[0][a] + sizes[1][b] - shared)
            close = jaccard >= level
            parts.append((a[close], b[close], jaccard[close]))
    if not parts:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
    first, second, similarity = (np.concatenate(part) for part in zip(*parts, strict=True))
    return first, second, similarity


def _adjacent(pairs: Sequence[tuple[int, int]], many: int) -> "csr_array":
    """1 where two training texts are a pair, ``(seen, seen)``, in either order."""
    from scipy.sparse import csr_array

    if not pairs:
        return csr_array((many, many), dtype=np.int32)
    a, b = np.array(pairs, dtype=np.int64).T
    ones = np.ones(2 * len(pairs), np.int32)
    return csr_array((ones, (np.concatenate([a, b]), np.concatenate([b, a]))), shape=(many, many))
