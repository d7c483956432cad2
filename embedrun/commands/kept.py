"""What an evaluation has found so far, kept piece by piece in its run directory until it is finished."""

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from embedrun.console import say
from embedrun.errors import ConfigError, DataError
from embedrun.evaluation.source import Scores
from embedrun.files import to_json, write_atomically
from embedrun.runs.directory import PARTS

_PROBE = "probe.json"
_CLOSE = 1e-3  # largest difference of vectors scaled to length 1: far above rounding, far below another model


class Kept:
    """Scores of the finished pieces of one run; they go when it has finished, with its other `PARTS`.

    A piece is there once its file of JSON is; its predictions are written before it.

    Args:
        run: the run directory.
        stage: of a run that scores several times: which time. Predictions stay with the pieces then; else
            they are where those of the run are.
    """

    def __init__(self, run: Path, stage: str = "") -> None:
        self._folder = run / PARTS / stage
        self._predictions = (self._folder if stage else run) / "predictions"

    def save(self, task: str, piece: str, found: Scores) -> None:
        """Write one piece down.

        Args:
            task: its task.
            piece: its name.
            found: its scores.
        """
        write_predictions(found, self._predictions)
        # Names come from a configuration and may hold anything; the file is named by their hash.
        path = self._folder / f"{hashlib.sha256(to_json([task, piece]).encode()).hexdigest()[:16]}.part"
        self._folder.mkdir(parents=True, exist_ok=True)
        data = {
            "task": task,
            "piece": piece,
            "main": found.main,
            "scores": {key: value if math.isfinite(value) else None for key, value in found.scores.items()},
            "intervals": {key: ends for key, ends in found.intervals.items() if _finite(ends)},
            "shown": found.shown,
            "notes": found.notes,
            "predictions": list(found.predictions),
        }
        write_atomically(path, to_json(data))

    def load(self) -> dict[str, dict[str, Scores]]:
        """The finished pieces, by task and name; without any that cannot be read, which is said."""
        found: dict[str, dict[str, Scores]] = {}
        for path in sorted(self._folder.glob("*.part")):
            try:
                data = json.loads(path.read_text(encoding="utf-8"))
                piece = self._piece(data)
                found.setdefault(data["task"], {})[data["piece"]] = piece
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as fault:
                say(f"warning: {path}: cannot be read ({fault}); its part is scored again")
        return found

    def hold_to(self, vectors: np.ndarray) -> None:
        """Refuse to go on with a model that is not the one which began.

        Args:
            vectors: of some texts that stay the same, ``(texts, dim)``; written down by the first call.

        Raises:
            ConfigError: if they are not those of the first call.
        """
        path = self._folder / _PROBE
        length = np.linalg.norm(vectors, axis=1, keepdims=True)  # (texts, 1)
        scaled = vectors / np.maximum(length, 1e-12)  # (texts, dim)
        # JSON has no NaN; no number of a vector of length 1 is 9, so such a model differs from a sound one.
        scaled = np.nan_to_num(scaled, nan=9.0, posinf=9.0, neginf=9.0)  # (texts, dim)
        if not path.is_file():
            self._folder.mkdir(parents=True, exist_ok=True)
            write_atomically(path, to_json(scaled.tolist()))
            return
        try:
            before = np.array(json.loads(path.read_text(encoding="utf-8")), dtype=float)  # (texts, dim)
        except (OSError, ValueError, TypeError) as fault:
            raise DataError(f"{path}: cannot be read ({fault}); evaluate in a new run") from fault
        if before.shape != scaled.shape or np.abs(before - scaled).max() > _CLOSE:
            raise ConfigError(
                "model: gives other vectors than when this evaluation began, so its scores would be of two "
                "models; evaluate the new one in a run of its own"
            )

    def _piece(self, data: Any) -> Scores:
        return Scores(
            scores={key: math.nan if value is None else value for key, value in data["scores"].items()},
            main=data["main"],
            predictions={name: self._columns(name) for name in data["predictions"]},
            intervals={key: (low, high) for key, (low, high) in data["intervals"].items()},
            shown=tuple(data["shown"]),
            notes=data["notes"],
        )

    def _columns(self, name: str) -> dict[str, list[Any]]:
        import pyarrow.parquet as pq

        return pq.read_table(self._predictions / f"{name}.parquet").to_pydict()


def write_predictions(found: Scores, folder: Path) -> None:
    """`predictions/<name>.parquet`, each written aside and renamed.

    Args:
        found: of one task or piece.
        folder: is made if need be.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    for name, columns in found.predictions.items():
        beside = folder / f".{name}.parquet"
        pq.write_table(pa.table(columns), beside)
        beside.replace(folder / f"{name}.parquet")


def finite_intervals(found: Mapping[str, Scores]) -> dict[str, tuple[float, float]]:
    """The defined 95 % intervals of every task, by key."""
    return {key: ends for one in found.values() for key, ends in one.intervals.items() if _finite(ends)}


def _finite(ends: tuple[float, float]) -> bool:
    return all(map(math.isfinite, ends))
