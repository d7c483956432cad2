"""The prediction files of a run, and which score each of them belongs to."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from embedrun.errors import DataError
from embedrun.evaluation.paired import Kind, figure

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
            DataError: if it cannot be read, or has not the columns of one of the three kinds.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(path)
            names = [name for name in table.column_names if name == "gold" or name in _KINDS]
            columns = {name: table[name].to_numpy() for name in names}  # (rows,) each
        except (OSError, KeyError, pa.ArrowException) as fault:
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

    Args:
        name: of the file.
        scores: of the run: they say, where a SentEval task had several classifier seeds, which was the first,
            whose predictions the file holds.
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
