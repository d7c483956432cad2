"""Two runs compared: their differences, and how certain the difference of their scores is."""

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from embedrun.console import Progress, clean, fitted, room, score_text, wrapped
from embedrun.errors import DataError
from embedrun.evaluation.intervals import (
    Comparison,
    Differences,
    Kind,
    average,
    differences,
    figure,
    interval,
    mean_draws,
    spearman_draws,
)
from embedrun.files import Plain
from embedrun.report import scores as recorded
from embedrun.runs.labels import labels
from embedrun.runs.reading import STAGES, RunFiles, as_text, flattened

STS_SETS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")
_KINDS: dict[str, Kind] = {"score": "correlation", "predicted": "accuracy", "correct": "correct"}  # by column


@dataclass(frozen=True)
class Predictions:
    """One prediction file.

    Args:
        kind: what its score is.
        predicted: scores, classes, or 1 where the model is right, ``(rows,)``.
        gold: human scores or true classes, ``(rows,)``; None where a row is right by itself.
    """

    kind: Kind
    predicted: np.ndarray
    gold: np.ndarray | None

    @classmethod
    def read(cls, path: Path) -> "Predictions":
        """The predictions in a file.

        Raises:
            DataError: if it cannot be read, or has the columns of none of the three kinds.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(path) as file:
                table = file.read()
            names = [name for name in table.column_names if name == "gold" or name in _KINDS]
            columns = {name: table[name].to_numpy() for name in names}  # (rows,) each
        except (OSError, KeyError, ValueError, pa.ArrowException) as fault:
            raise DataError(f"{path}: cannot be read ({' '.join(str(fault).split())})") from fault
        column = next((name for name in _KINDS if name in columns), None)
        if column is None or (column != "correct" and "gold" not in columns):
            raise DataError(f"{path}: has neither gold and score, nor gold and predicted, nor correct")
        predicted, gold = columns[column], columns.get("gold")
        _check(path, column, predicted)
        if column == "score":
            _check(path, "gold", gold)
        return cls(_KINDS[column], predicted, gold)

    @property
    def figure(self) -> float:
        """The score × 100 that the file gives; NaN where it is undefined."""
        return figure(self.kind, self.predicted, self.gold)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The ends of the 95 % interval of that score over resampled rows; None where it is undefined."""
        if self.kind == "correlation":
            assert self.gold is not None, "read so"
            drawn = spearman_draws(self.predicted, self.gold)  # (draws,)
        else:
            right = self.predicted if self.kind == "correct" else self.predicted == self.gold  # (rows,)
            drawn = mean_draws(right)  # (draws,)
        low, high = interval(100 * drawn)
        return None if math.isnan(low) else (low, high)


def _check(path: Path, name: str, values: np.ndarray | None) -> None:
    """Refuse a column that cannot be what its name says."""
    if values is None or len(values) == 0:
        raise DataError(f"{path}: has no rows")
    if name in ("score", "gold") and values.dtype.kind not in "fiu":
        raise DataError(f"{path}: column {name} holds no numbers")
    if name == "correct" and not np.isin(values, (0, 1)).all():
        raise DataError(f"{path}: column correct holds something else than 0 and 1")


def files(run: Path) -> dict[str, Path]:
    """The prediction files of a run directory that a score belongs to, by name."""
    found = sorted((run / "predictions").glob("[!.]*.parquet"))
    return {path.stem: path for path in found if not path.stem.startswith("geometry")}  # only for plots


def score_key(name: str, scores: Mapping[str, float]) -> str:
    """The key of the score that a prediction file of a run gives.

    Where a SentEval task had several classifier seeds, the file holds the predictions of the first, and the
    scores of the run say which that was.
    """
    if name in STS_SETS:
        return f"sts/{name}/spearman"
    for suite in ("retrieval_dev", "retrieval"):
        if name.startswith(f"{suite}_"):
            return f"{suite}/{name.removeprefix(f'{suite}_')}/strict_accuracy"
    if name.startswith("senteval_"):
        fast = name.startswith("senteval_fast_")
        task = name.removeprefix("senteval_").removeprefix("fast_")
        key = f"senteval/{task}/accuracy_{'fast' if fast else 'paper'}"
        return next((seed for seed in scores if seed.startswith(f"{key}_seed")), key)
    return f"{name}/spearman"


def interval_over_rows(run: RunFiles, key: str) -> tuple[float, float] | None:
    """The 95 % interval of a run's score: as recorded, else (of a dev score) from the predictions."""
    if (ends := recorded.interval(run.results, key)) is not None:
        return ends
    path = next((path for name, path in files(run.path).items() if score_key(name, run.scores) == key), None)
    try:
        return None if path is None else Predictions.read(path).interval
    except DataError:
        return None


_SWAPS_PER_DRAW = 10  # a p-value below 0.001 needs more draws than an interval does, and each is cheaper
_CLOSE = 0.02  # points: how far a file's own figure may lie from the one in results.json
_AVERAGE = "sts/avg/spearman"


Unlike = dict[str, dict[str, object]]  # by dotted key, the value of each side that has it, `a` or `b`


def diff(a: RunFiles, b: RunFiles, *, draws: int) -> Plain:
    """Everything in which two runs differ, as `--json` prints it; a difference is B less A.

    `a` and `b` name the runs, `scores` has each score of both, `comparisons` those with a prediction file on
    both sides, with interval and p-value; `not_compared` says by file why there is none, and `notes` where a
    file contradicts `results.json`. What is undefined is None.

    `draws` resamples are behind an interval, ten times as many swaps behind a p-value.

    Raises:
        DataError: with every prediction file that cannot be read.
    """
    shared = [key for key in a.scores if key in b.scores]
    here, there = labels([a, b])
    return {
        "a": side_of(a, here),
        "b": side_of(b, there),
        "configuration": _unlike(a.config, b.config),
        "environment": _unlike(without_command(a.environment), without_command(b.environment)),
        "scores": [_score(key, a.scores[key], b.scores[key]) for key in shared],
        "only_a": [key for key in a.scores if key not in b.scores],
        "only_b": [key for key in b.scores if key not in a.scores],
        "draws": {"interval": draws, "p": _SWAPS_PER_DRAW * draws},
        **_predictions(a, b, draws),
    }


def side_of(run: RunFiles, label: str) -> Plain:
    """How a run is named among what was compared; `label` is what tells it from the others."""
    return {"directory": str(run.path), "state": run.status.get("state"), "label": label}


def _score(key: str, a: float, b: float) -> Plain:
    return {"key": key, "a": a, "b": b, "difference": b - a}


def _unlike(a: Plain, b: Plain) -> Unlike:
    """The dotted keys with different values, sorted, each with the side or sides that have it."""
    left, right = flattened(a), flattened(b)
    keys = sorted(
        key for key in {**left, **right} if key not in left or key not in right or left[key] != right[key]
    )
    sides = {"a": left, "b": right}
    return {key: {side: own[key] for side, own in sides.items() if key in own} for key in keys}


def without_command(environment: Plain) -> Plain:
    """The environment of a run without the command line and the stages before."""
    # They differ, at least in the run directory; what they decided is in the configuration.
    return {key: value for key, value in environment.items() if key not in ("command", STAGES)}


def _predictions(a: RunFiles, b: RunFiles, draws: int) -> Plain:
    """The comparison of each prediction file that both runs have, or why there is none."""
    pairs, skipped, notes, faults = {}, {}, [], []
    here, there = files(a.path), files(b.path)
    names = {**here, **there}
    for name in sorted(names, key=lambda name: STS_SETS.index(name) if name in STS_SETS else len(STS_SETS)):
        if name not in here or name not in there:
            skipped[name] = f"only {'A' if name in here else 'B'} has it"
            continue
        keys = score_key(name, a.scores), score_key(name, b.scores)
        try:
            left, right = Predictions.read(here[name]), Predictions.read(there[name])
        except DataError as fault:
            faults += fault.problems
            continue
        if (why := _incomparable(left, right, *keys)) is not None:
            skipped[name] = why
            continue
        pairs[name] = (keys[0], left, right)
        for side, run, own in (("A", a, left), ("B", b, right)):
            notes += _disagreement(side, name, keys[0], run.scores, own.figure)
    if faults:
        raise DataError(faults)
    return {"comparisons": _compare(pairs, draws), "not_compared": skipped, "notes": notes}


def _incomparable(a: Predictions, b: Predictions, a_key: str, b_key: str) -> str | None:
    """Why two files of one name cannot be compared row by row; None if they can."""
    if a.kind != b.kind or a_key != b_key:
        return f"A holds {a_key} ({a.kind}), B holds {b_key} ({b.kind})"
    if len(a.predicted) != len(b.predicted):
        return f"A has {len(a.predicted):,} rows, B has {len(b.predicted):,}"
    if a.gold is None or b.gold is None:
        return None if a.gold is b.gold else "only one of them has a gold column"
    unlike = int(np.sum(a.gold != b.gold))
    return f"gold differs in {unlike:,} of {len(a.gold):,} rows" if unlike else None


def _disagreement(side: str, name: str, key: str, scores: Mapping[str, float], figure: float) -> list[str]:
    """A line to warn that `results.json` and the prediction file give different scores, if they do."""
    if key not in scores or abs(scores[key] - figure) <= _CLOSE:
        return []
    return [
        f"{side}: {key} is {score_text(key, scores[key])} in results.json, but {score_text(key, figure)} by "
        f"predictions/{name}.parquet"
    ]


def _compare(pairs: Mapping[str, tuple[str, Predictions, Predictions]], draws: int) -> list[Plain]:
    """One entry for each file, and one for the average of the seven STS sets where all of them are there."""
    found: list[Plain] = []
    drawn: dict[str, Differences] = {}
    with Progress("compare", len(pairs), "files", brief=True) as bar:
        for done, (name, (key, a, b)) in enumerate(pairs.items(), start=1):
            each = differences(
                a.kind,
                a.predicted,
                b.predicted,
                a.gold,
                draws=draws,
                swaps=_SWAPS_PER_DRAW * draws,
                seed=zlib.crc32(name.encode()),  # of its own, but the same in every comparison
            )
            if name in STS_SETS:
                drawn[name] = each
            found.append(_entry(key, a.figure, b.figure, each.judged()))
            bar.reach(done)
    if len(drawn) == len(STS_SETS):
        sides = zip(*((pairs[name][1].figure, pairs[name][2].figure) for name in STS_SETS), strict=True)
        a_mean, b_mean = (math.fsum(side) / len(STS_SETS) for side in sides)
        found.append(_entry(_AVERAGE, a_mean, b_mean, average(list(drawn.values())).judged()))
    return found


def _entry(key: str, a: float, b: float, comparison: Comparison) -> Plain:
    return {
        "key": key,
        "a": _defined(a),
        "b": _defined(b),
        "difference": _defined(comparison.difference),
        "low": _defined(comparison.low),
        "high": _defined(comparison.high),
        "p": _defined(comparison.p),
        "rows": comparison.rows,
    }


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else value


_WIDTH = 44  # characters of an option's value
_NAMED = 12  # scores of one run alone that are named
UNCORRECTED = (
    "Each p-value is of one line and uncorrected: of 20 lines without a real difference, one is expected "
    "below 0.05."
)
# Rows are drawn, and the two trained models stay as they are.
_LEFT_OUT = "Left out: how much another seed moves a score; over seeds: --diff A1 A2 -- B1 B2"


def text(found: Plain) -> str:
    """What :func:`diff` found, as text: options, environment, scores, what the prediction files say."""
    parts = [
        named_sides({"A": [_run(found["a"])], "B": [_run(found["b"])]}),
        unlike_table("configuration", "option", found["configuration"]),
        unlike_table("environment", "what", found["environment"]),
        _scores(found["scores"], {one["key"] for one in found["comparisons"]}),
        alone("A", found["only_a"]),
        alone("B", found["only_b"]),
        _comparisons(found["comparisons"], found["draws"]),
        _not_compared(found["not_compared"]),
        wrapped("\n".join(found["notes"]), room()),
    ]
    return clean("\n\n".join(part for part in parts if part))


def _run(run: Plain) -> str:
    return f"{run['label']}: {run['directory']} ({run['state'] or 'no status yet'})"


def named_sides(sides: Mapping[str, Sequence[str]]) -> str:
    """The runs of each side, one a line, the first behind the letter of its side; wrapped to the terminal."""
    lines = [
        f"{' ' if place else side}  {run}" for side, runs in sides.items() for place, run in enumerate(runs)
    ]
    return wrapped("\n".join(lines), room(), " " * 5)


def unlike_table(title: str, heading: str, values: Unlike) -> str:
    """What differs, a line for each key with the value of each side."""
    if not values:
        return f"{title}: no difference"
    cells = [[heading, "A", "B"]]
    for key, sides in values.items():
        cells.append([key, *(as_text(sides[side], _WIDTH) if side in sides else "-" for side in "ab")])
    return f"{title}:\n{fitted(cells, room())}"


def _scores(scores: Sequence[Plain], compared: set[str]) -> str:
    """The scores that are not in the table of comparisons."""
    cells = [["score", "A", "B", "B - A"]]
    for one in scores:
        if one["key"] not in compared:
            cells.append([one["key"], *_numbers(one)])
    return fitted(cells, room(), right=[1, 2, 3]) if len(cells) > 1 else ""


def alone(side: str, keys: Sequence[str]) -> str:
    """The scores that only one side has."""
    if not keys:
        return ""
    more = f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else ""
    return wrapped(f"only {side} has: {', '.join(keys[:_NAMED])}{more}", room())


def _comparisons(comparisons: Sequence[Plain], draws: Plain) -> str:
    if not comparisons:
        none = "no prediction file can be compared, so no difference has an interval or a p-value"
        return wrapped(none, room())
    cells = [["score, from predictions", "A", "B", "B - A", "95 % interval", "p", "rows"]]
    for one in comparisons:
        low, high = (score_text(one["key"], end, sign=True) for end in (one["low"], one["high"]))
        ends = "-" if one["low"] is None else f"{low} to {high}"
        cells.append([one["key"], *_numbers(one), ends, p_text(one["p"]), f"{one['rows']:,}"])
    method = (
        f"interval: paired bootstrap, {draws['interval']:,} draws; p: two-sided paired permutation test, "
        f"{draws['p']:,} draws.\n{UNCORRECTED}\n{_LEFT_OUT}"
    )
    shown = fitted(cells, room(), right=range(1, 7))
    return f"{shown}\n\n{wrapped(method, room())}"


def _not_compared(reasons: Mapping[str, str]) -> str:
    """A line for each reason, with the files that it excludes."""
    lines = []
    for why in dict.fromkeys(reasons.values()):
        lines.append(f"not compared, {why}: {', '.join(name for name in reasons if reasons[name] == why)}")
    return wrapped("\n".join(lines), room())


def _numbers(one: Plain) -> list[str]:
    """A, B and their difference; `-` for what is undefined."""
    key = one["key"]
    difference = score_text(key, one["difference"], sign=True)
    return [score_text(key, one["a"]), score_text(key, one["b"]), difference]


def p_text(p: float | None) -> str:
    """A p-value in four digits; `-` for none."""
    if p is None:
        return "-"
    return f"{p:.4f}" if p >= 1e-4 else "<0.0001"
