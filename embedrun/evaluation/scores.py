"""Scores and their pieces: sources, correlation, clean scores, one encoding pass for all tasks."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from embedrun.files import Plain
from embedrun.rows import Rows


class Encode(Protocol):
    """Sentences to vectors, ``(sentences, dim)``, float32, on the CPU: all that an evaluator sees."""

    def __call__(self, texts: list[str], /, *, role: str | None = None) -> Tensor:
        """The vectors of texts that are queries or documents, or neither."""
        ...


# Called with the work that is done and all that there is, in units of the task's own.
Progress = Callable[[int, int], None]


def unheard(done: int, every: int) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True)
class Source:
    """One split of one data set, by name (None: the one that the run trains on) and constructor options."""

    dataset: str | None
    split: str
    options: Plain = field(default_factory=dict)


@dataclass(frozen=True)
class Scores:
    """What one task, or one part of it, found.

    A prediction file holds one row for each scored row, in their order, with `gold` and `score` where the
    score is a correlation, `gold` and `predicted` where it is an accuracy of classes, and `correct`
    (0 or 1) where each row is right or wrong by itself; more columns may follow.

    Args:
        scores: by key, correlations and accuracies × 100; NaN where undefined.
        main: the key that stands for the task.
        predictions: by the file's name, its columns, all of one length.
        intervals: by key of a score, the ends of its 95 % interval.
        shown: keys that the printed table shows; empty for all.
        notes: what else decides the scores and is no option, for `results.json`; plain data.
        files: plain data by the name of a JSON file, as a package that scores wants it.
    """

    scores: dict[str, float]
    main: str
    predictions: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    shown: tuple[str, ...] = ()
    notes: Plain = field(default_factory=dict)
    files: dict[str, Plain] = field(default_factory=dict)


SUFFIX = "_clean"  # of the keys: sts/sts12/spearman_clean beside sts/sts12/spearman
CUT = "@"  # in the keys of cut vectors: sts/sts12/spearman@64


class Task(Protocol):
    """What a class offers to be an evaluation task; it need not inherit from this.

    More may be there or not. A task that scores every row by itself says so with `by_row = True`; it can then
    be asked for the score of a part of its rows, even of none. A task that can be scored piece by piece has
    `parts`, tasks by name whose sources are among its own, and `total`, the averages over what its parts
    found, by the same names, and the main score; a part is kept as soon as it is scored. A task with
    `unscaled = True` gets pooled vectors, also from a model that scales its vectors. A task that brings rows
    of its own may have `problems`: why they cannot be had. One with `dropout_samples` above 0, of each of
    the sentences `related`, gets a map of them.
    """

    def sources(self) -> Mapping[str, Source]:
        """Which rows it scores, by its own name for them."""
        ...

    def score(self, rows: Mapping[str, Rows], encode: Encode, progress: Progress | None = None) -> Scores:
        """Score a model that is known by `encode` alone."""
        ...


def scores_by_row(task: Task) -> bool:
    """Whether the task scores every row by itself, so that it can score a part of its rows."""
    return getattr(task, "by_row", False)


def problems_of(task: Task) -> list[str]:
    """Why rows that the task brings cannot be had; none of a task that reads those of data sets."""
    return getattr(task, "problems", list)()


def key_space(task: Task) -> tuple[object, ...]:
    """What two tasks share whose pieces of one name have scores of one key."""
    return type(task), *(getattr(task, name, None) for name in ("protocol", "split", "label"))


def add_clean(
    whole: Scores, task: Task, rows: Mapping[str, Rows], clean: Mapping[str, np.ndarray], encode: Encode
) -> Scores:
    """The scores of a task, each followed by that of the clean rows under its key with `_clean`.

    An average is that of the clean scores. Predictions and the main score stay those of all rows; a column
    `clean` of the predictions says which rows are. The task is one that scores every row by itself; `whole`
    is what it found on all rows. `rows` and `clean` are by the task's own names for its sources; `clean` is
    true where a row is clean, bool, ``(rows,)`` each.
    """
    part = task.score({key: split.part(np.flatnonzero(clean[key])) for key, split in rows.items()}, encode)
    both: dict[str, float] = {}
    for key, value in whole.scores.items():
        both |= {key: value, key + SUFFIX: part.scores.get(key, math.nan)}
    predictions = whole.predictions
    if len(clean) == 1:
        (marks,) = (mask.tolist() for mask in clean.values())
        predictions = {
            name: {**columns, "clean": marks} if _of_all(columns, marks) else columns
            for name, columns in predictions.items()
        }
    return replace(whole, scores=both, predictions=predictions)


def _of_all(columns: Mapping[str, list[Any]], rows: Sized) -> bool:
    """Whether predictions are of all rows; some tasks leave out rows that they cannot score."""
    return all(len(values) == len(rows) for values in columns.values())


def pieces(task: Task) -> Mapping[str, Task]:
    """The parts of a task by name; where it has none, the task itself under the name ``whole``."""
    return getattr(task, "parts", lambda: {"whole": task})()


def whole(task: Task, parts: Mapping[str, Scores]) -> Scores:
    """What a task found, from what all its :func:`pieces` found, in their order."""
    averages_of = getattr(task, "total", None)
    if averages_of is None:
        (only,) = parts.values()
        return only
    total = averages_of({name: _only(part, clean=False) for name, part in parts.items()})
    kept = {name: _only(part, clean=True) for name, part in parts.items()}
    if any(part.scores for part in kept.values()):
        averages = averages_of(kept).scores
        total = replace(total, scores=total.scores | {key + SUFFIX: averages[key] for key in averages})
    return joined(parts, total)


def joined(parts: Mapping[str, Scores], total: Scores) -> Scores:
    """The scores of every piece followed by those over all of them, whose main score stands for the task."""
    every = [*parts.values(), total]
    notes: dict[str, Any] = {}
    for piece in every:
        for name, value in piece.notes.items():
            both = isinstance(value, dict) and isinstance(notes.get(name), dict)
            notes[name] = {**notes[name], **value} if both else value
    return Scores(
        scores={key: value for piece in every for key, value in piece.scores.items()},
        main=total.main,
        predictions={name: columns for piece in every for name, columns in piece.predictions.items()},
        intervals={key: ends for piece in every for key, ends in piece.intervals.items()},
        shown=_shown(every),
        notes=notes,
        files={name: data for piece in every for name, data in piece.files.items()},
    )


def _shown(every: list[Scores]) -> tuple[str, ...]:
    if not any(piece.shown for piece in every):
        return ()
    return tuple(key for piece in every for key in (piece.shown or piece.scores))


def _only(piece: Scores, *, clean: bool) -> Scores:
    chosen = {key: value for key, value in piece.scores.items() if key.endswith(SUFFIX) == clean}
    if not clean:
        return replace(piece, scores=chosen)
    return replace(
        piece, scores={key.removesuffix(SUFFIX): value for key, value in chosen.items()}, predictions={}
    )


T = TypeVar("T")


def with_only(task: T, **options: object) -> T:
    """The same task with these options in place of its own."""
    part = copy(task)
    vars(part).update(options)
    return part


def score_all(
    tasks: Mapping[str, Task],
    rows: Mapping[str, Mapping[str, Rows]],
    encode: Encode,
    clean: Mapping[str, Mapping[str, np.ndarray]] | None = None,
    *,
    done: Mapping[str, Mapping[str, Scores]] | None = None,
    keep: Callable[[str, str, Scores], None] | None = None,
    watch: Callable[[str], AbstractContextManager[Progress]] | None = None,
    scale: Callable[[Tensor], Tensor] | None = None,
) -> dict[str, Scores]:
    """The scores of each task, by name.

    Args:
        rows: of each task, by its own names for its sources.
        encode: called once with every distinct sentence of what is not done, in order of first appearance;
            again only by a task that brings texts of its own.
        clean: of the tasks to score without some of their rows too, by task and source: true where a row
            is kept, bool, ``(rows,)``.
        done: pieces of tasks that were scored before, by task and piece; they are not scored again.
        keep: called with task, piece and scores as soon as a piece is scored.
        watch: opens what is told of the progress of a piece, by a label.
        scale: the model's final scaling of its vectors, where `encode` leaves it out; not done for tasks
            with `unscaled = True`.
    """
    before = {name: dict((done or {}).get(name, {})) for name in tasks}
    waiting = [
        (name, part, piece)
        for name, task in tasks.items()
        for part, piece in pieces(task).items()
        if part not in before[name]
    ]
    given = {(name, part): {key: rows[name][key] for key in piece.sources()} for name, part, piece in waiting}
    sentences = (text for splits in given.values() for split in splits.values() for text in split.by_role())
    vectors = _looked_up(sentences, encode)

    def scaled(texts: list[str], /, *, role: str | None = None) -> Tensor:
        encoded = vectors(texts, role=role)  # (texts, dim)
        return encoded if scale is None else scale(encoded)

    for name, part, piece in waiting:
        inputs = given[name, part]
        look_up = vectors if getattr(piece, "unscaled", False) else scaled
        with nullcontext() if watch is None else watch(f"{name} {part}") as progress:
            scores = piece.score(inputs, look_up, progress)
        if clean and name in clean:
            masks = {key: clean[name][key] for key in inputs}
            scores = add_clean(scores, piece, inputs, masks, look_up)
        before[name][part] = scores
        if keep is not None:
            keep(name, part, scores)
    return {
        name: whole(task, {part: before[name][part] for part in pieces(task)}) for name, task in tasks.items()
    }


def _looked_up(sentences: Iterable[tuple[str | None, str]], encode: Encode) -> Encode:
    """One encoding pass for each role: vectors of these sentences, and of other texts on demand."""
    position: dict[str | None, dict[str, int]] = {}
    for role, text in sentences:
        of_role = position.setdefault(role, {})
        of_role.setdefault(text, len(of_role))
    tables = {role: _encoded(encode, list(texts), role) for role, texts in position.items()}

    def vectors(texts: list[str], /, *, role: str | None = None) -> Tensor:
        known = position.get(role, {})
        if not known.keys() >= set(texts):
            return _encoded(encode, texts, role)
        if not texts:
            return torch.empty(0, 0)
        return tables[role][torch.tensor([known[text] for text in texts], dtype=torch.long)]  # (texts, dim)

    return vectors


def spearman(predicted: Sequence[float] | np.ndarray, gold: Sequence[float] | np.ndarray) -> float:
    """Spearman's rank correlation in [-1, 1], tied values sharing their average rank.

    Returns NaN where it is undefined: fewer than two values, or one side constant. Callers report
    that as missing, never as 0 and never as a best score. Both sides may have any scale.
    """
    if _undefined("spearman", predicted, gold):
        return math.nan
    from scipy.stats import spearmanr  # here, because it takes most of a second to import

    return float(spearmanr(predicted, gold).statistic)  # type: ignore[attr-defined]


def pearson(predicted: Sequence[float] | np.ndarray, gold: Sequence[float] | np.ndarray) -> float:
    """Pearson's correlation in [-1, 1], in float64; NaN where it is undefined, as for `spearman`."""
    if _undefined("pearson", predicted, gold):
        return math.nan
    left, right = (np.asarray(side, dtype=np.float64) for side in (predicted, gold))  # (pairs,) each
    left, right = left - left.mean(), right - right.mean()
    return float(left @ right / math.sqrt(float(left @ left) * float(right @ right)))


METRICS = {"spearman": spearman, "pearson": pearson}


def _undefined(
    name: str, predicted: Sequence[float] | np.ndarray, gold: Sequence[float] | np.ndarray
) -> bool:
    if len(predicted) != len(gold):
        raise ValueError(f"{name}: one gold score for each prediction, got {len(predicted)} and {len(gold)}")
    return len(gold) < 2 or bool(np.ptp(predicted) == 0 or np.ptp(gold) == 0)


def _encoded(encode: Encode, texts: list[str], role: str | None) -> Tensor:
    return encode(texts) if role is None else encode(texts, role=role)  # (texts, dim)


def cosines(
    encode: Encode,
    first: Sequence[str],
    second: Sequence[str],
    roles: tuple[str | None, str | None] = (None, None),
) -> np.ndarray:
    """Cosine of each pair, float64, ``(pairs,)``; 0 where a vector is zero."""
    left, right = (
        _encoded(encode, list(texts), role) for texts, role in zip((first, second), roles, strict=True)
    )  # (pairs, dim) each
    return cosine_similarity(left, right, dim=-1).double().numpy()
