"""What two runs differ in, and how sure the differences of their scores are, as plain data."""

import math
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from embedrun.commands.run_predictions import STS_SETS, Predictions, files, score_key
from embedrun.console import Progress, score_text
from embedrun.errors import DataError
from embedrun.evaluation.paired import Comparison, Differences, average, differences
from embedrun.runs.reading import RunFiles, flattened

_SWAPS_PER_DRAW = 10  # a p-value below 0.001 needs more draws than an interval does, and each is cheaper
_CLOSE = 0.02  # points: how far a file's own figure may lie from the one in results.json
_AVERAGE = "sts/avg/spearman"


def diff(a: RunFiles, b: RunFiles, *, draws: int) -> dict[str, Any]:
    """Everything that two runs differ in; a difference is B less A.

    Args:
        a: one run.
        b: the other.
        draws: resamples behind an interval; ten times as many behind a p-value.

    Raises:
        DataError: with every prediction file that cannot be read.
    """
    shared = [key for key in a.scores if key in b.scores]
    return {
        "a": {"directory": str(a.path), "state": a.status.get("state")},
        "b": {"directory": str(b.path), "state": b.status.get("state")},
        "configuration": _unlike(a.config, b.config),
        "environment": _unlike(_without_command(a.environment), _without_command(b.environment)),
        "scores": [_score(key, a.scores[key], b.scores[key]) for key in shared],
        "only_a": [key for key in a.scores if key not in b.scores],
        "only_b": [key for key in b.scores if key not in a.scores],
        "draws": {"interval": draws, "p": _SWAPS_PER_DRAW * draws},
        **_predictions(a, b, draws),
    }


def _score(key: str, a: float, b: float) -> dict[str, Any]:
    return {"key": key, "a": a, "b": b, "difference": b - a}


def _unlike(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The dotted keys with different values, sorted, each with the side or sides that have it."""
    left, right = flattened(a), flattened(b)
    keys = sorted(
        key for key in {**left, **right} if key not in left or key not in right or left[key] != right[key]
    )
    sides = {"a": left, "b": right}
    return {key: {side: own[key] for side, own in sides.items() if key in own} for key in keys}


def _without_command(environment: Mapping[str, Any]) -> dict[str, Any]:
    # It always differs, by the run directory if by nothing else; what it decided is in the configuration.
    return {key: value for key, value in environment.items() if key != "command"}


def _predictions(a: RunFiles, b: RunFiles, draws: int) -> dict[str, Any]:
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
    """A line that says so where `results.json` and the prediction file give different scores."""
    if key not in scores or abs(scores[key] - figure) <= _CLOSE:
        return []
    return [
        f"{side}: {key} is {score_text(key, scores[key])} in results.json, but {score_text(key, figure)} by "
        f"predictions/{name}.parquet"
    ]


def _compare(pairs: Mapping[str, tuple[str, Predictions, Predictions]], draws: int) -> list[dict[str, Any]]:
    """One entry for each file, and one for the average of the seven STS sets where all of them are there."""
    found: list[dict[str, Any]] = []
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


def _entry(key: str, a: float, b: float, comparison: Comparison) -> dict[str, Any]:
    """Plain data; null for what is undefined."""
    entry = {"key": key, "a": a, "b": b, **asdict(comparison)}
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in entry.items()
    }
