"""The score of a run with its resamples, from its predictions: what claims, marks and ablations rest on."""

import json
import zlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from embedrun.errors import ConfigError, DataError
from embedrun.evaluation.intervals import mean_draws, spearman_draws
from embedrun.files import Plain
from embedrun.report.diff import Predictions, files, place, score_key
from embedrun.report.scores import CLEAN
from embedrun.runs.reading import RunFiles
from embedrun.study.claims import Scored
from embedrun.table.cells import Slot
from embedrun.table.preset import Table

DRAWS = 1000  # resamples of the test rows
# What decides which rows are trained on in which order, besides the seed: runs that agree in it are paired.
_ORDER = ("batch_size", "accumulate", "batching", "batch_tokens", "distinct_texts", "data_fraction")


def order_of(config: Plain) -> str:
    """What fixes, with the seed, the rows that a run reads and their order; masking leaves both alone."""
    training = config.get("training") or {}
    dataset = {**(config.get("dataset") or {}), "masking": None}
    return json.dumps([dataset, *(training.get(name) for name in _ORDER)], sort_keys=True, default=str)


def scored(run: Path, key: str) -> Scored:
    """The score `key` of a run with its resamples, × 100; of an average those of all its sets, drawn apart.

    A key with `_clean` is that of the rows that the run was not trained on, which are drawn alone.

    Raises:
        ConfigError: if no predictions give the score: it is neither Spearman's correlation nor an accuracy.
    """
    files_of = RunFiles(run)
    whole_key = key.removesuffix(CLEAN)
    paths = behind(run, files_of.scores, whole_key)
    drawn = [draws_of(path, clean=key != whole_key) for path in paths]
    draws, rows = zip(*drawn, strict=True)  # (draws,) each
    return Scored(files_of.scores[key], 100 * np.mean(draws, axis=0), order_of(files_of.config), rows)


def behind(run: Path, scores: dict[str, float], key: str) -> list[Path]:
    """The prediction files that give a score of a run; of an average, those of its sets.

    Raises:
        ConfigError: if there are none, or they give another score than the one that is asked for.
    """
    of_keys = {score_key(name, scores): path for name, path in files(run).items()}
    task, _, metric = key.rpartition("/")
    sets = [name for name in of_keys if name.startswith(f"{task.rpartition('/')[0]}/")]
    wanted = [key] if key in of_keys else sets if task.endswith("/avg") else []
    if not wanted or any(name.rpartition("/")[2] != metric for name in wanted):
        raise ConfigError(f"{run}: no predictions give {key}; take a Spearman correlation or an accuracy")
    return sorted((of_keys[name] for name in wanted), key=lambda path: (place(path.stem), path.stem))


@lru_cache(maxsize=4096)  # a file counts for its own score and for averages
def draws_of(path: Path, *, clean: bool = False) -> tuple[np.ndarray, int | None]:
    """The score of each resample of the (clean) rows of a prediction file, ``(DRAWS,)``, in [-1, 1].

    With a mark of which rows are clean, None where all count.

    Raises:
        DataError: if clean rows are asked for, and there are none, or the file does not say which these are.
    """
    # Each set has a seed of its own, the same in every run and every average.
    predictions, seed = Predictions.read(path), zlib.crc32(path.stem.encode())
    rows = None
    if clean:
        marks, kept = predictions.clean, predictions.of_clean_rows
        if marks is None or kept is None:
            raise DataError(
                f"{path}: does not say which rows are clean, as older runs and parts of a mixture"
            )
        if not marks.any():
            raise DataError(f"{path}: has no clean row")
        predictions, rows = kept, zlib.crc32(marks.tobytes())
    if predictions.kind == "correlation":
        assert predictions.gold is not None, "scores have a gold column"
        return spearman_draws(predictions.predicted, predictions.gold, draws=DRAWS, seed=seed), rows
    right = predictions.predicted  # (rows,)
    if predictions.kind == "accuracy":
        right = right == predictions.gold
    return mean_draws(right, draws=DRAWS, seed=seed), rows


def evidence(table: Table, row: str, heading: str, slots: Sequence[Slot]) -> dict[int, Scored]:
    """By seed, what the finished runs of a row have in a column, with its resamples; of `chosen` slots.

    A mean or a difference of other columns has the seeds that all of its parts have.

    Raises:
        ConfigError: if the column is of no score with predictions.
    """
    column = next(column for column in table.columns if column.heading == heading)
    if column.parts != (heading,):
        parts = [evidence(table, row, part, slots) for part in column.parts]
        seeds = sorted(set.intersection(*map(set, parts)))
        signs = [1.0, -1.0] if column.difference else [1 / len(parts)] * len(parts)
        return {seed: _sum([part[seed] for part in parts], signs) for seed in seeds}
    if column.key is None:
        raise ConfigError(f"{table.name}: {heading} is no score, so nothing is known of its spread over rows")
    runs = {
        slot.seed: slot.run.path
        for slot in slots
        if slot.row.id == row and heading in slot.cell.headings and slot.run is not None
    }
    return {seed: scored(run, column.key) for seed, run in runs.items()}


def _sum(parts: Sequence[Scored], weights: Sequence[float]) -> Scored:
    """Draws of one data set are of the same rows in every column; those of others are drawn apart."""
    score = sum(weight * part.score for weight, part in zip(weights, parts, strict=True))
    draws = sum(weight * part.draws for weight, part in zip(weights, parts, strict=True))
    orders, rows = (tuple(getattr(part, name) for part in parts) for name in ("order", "rows"))
    return Scored(float(score), np.asarray(draws), orders, rows)
