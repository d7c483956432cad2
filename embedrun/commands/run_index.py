"""The runs below a folder as the tables look for them: by what decides their scores."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from embedrun.runs import listing
from embedrun.runs.reading import RunFiles
from embedrun.table.cells import Measured
from embedrun.table.identity import identity
from embedrun.table.scale import KEY
from embedrun.table.speed import speeds

_MODEL = "model"  # folder of a run directory


class RunIndex:
    """Runs with their identities.

    Args:
        runs: in any order.
    """

    def __init__(self, runs: Sequence[RunFiles]) -> None:
        self._runs = {_tail(run.path): run for run in runs}
        self._keys: dict[Path, str] = {}
        self._first: dict[Path, list[Path]] = {}  # what each run starts from or scores
        self.measured = [self._measured(run) for run in runs if run.config]

    @classmethod
    def below(cls, folders: Sequence[Path]) -> "RunIndex":
        """Every run in or below the folders; what is no run or cannot be read is passed over."""
        return cls(listing.find([folder for folder in folders if folder.is_dir()]).runs)

    def _measured(self, run: RunFiles) -> Measured:
        status, data, notes = run.status, run.environment.get("data"), run.results.get("notes")
        scale = run.config.get(KEY) or (notes.get(KEY) if isinstance(notes, Mapping) else None)
        key = self._key(run)
        return Measured(
            path=run.path,
            key=key,
            seed=_seed(run),
            state=str(status.get("state", "no status yet")),
            when=str(status.get("ended") or status.get("heartbeat") or ""),
            scale=None if scale is None else str(scale),
            scores=run.scores,
            data={str(name): str(mark) for name, mark in data.items()} if isinstance(data, Mapping) else {},
            starts_from=tuple(self._first.get(run.path, ())),
        )

    def _key(self, run: RunFiles) -> str:
        if run.path not in self._keys:
            self._keys[run.path] = ""  # a run that is made of itself has no other
            self._keys[run.path] = identity(run.config, lambda name: self._reference(name, run))
        return self._keys[run.path]

    def _reference(self, name: str, by: RunFiles) -> dict[str, Any] | None:
        """What a model counts as that is one of these runs; it is noted that one names it."""
        if "/" not in name:
            return None
        path = Path(name)
        other = self._runs.get(_tail(path.parent if path.name == _MODEL else path))
        if other is None:
            return None
        self._first.setdefault(by.path, []).append(other.path)
        return reference(self._key(other), same_seed=_seed(other) == _seed(by))


def reference(key: str, *, same_seed: bool = True) -> dict[str, Any]:
    """What stands in an identity for a model that is a run.

    Args:
        key: identity of that run.
        same_seed: whether it has the seed of the run that starts from it or scores it.
    """
    return {"run": key, "same_seed": same_seed}


def with_speed(run: Measured) -> Measured:
    """The run with the numbers of its `speed.jsonl`, as far as that can be read."""
    training = RunFiles.read(run.path).config.get("training")
    if not isinstance(training, Mapping):
        return run  # an evaluation
    lines = []
    try:
        for line in (run.path / "speed.jsonl").read_text(encoding="utf-8").splitlines():
            lines.append(json.loads(line))
    except (OSError, ValueError):
        pass  # the last line of a killed run may be torn
    rows = training.get("batch_size", 0) * training.get("accumulate", 1)
    return replace(run, speed=speeds([line for line in lines if isinstance(line, dict)], rows))


def _tail(path: Path) -> tuple[str, str]:
    """Name and directory of a run: what stays of its path when `outputs` is moved."""
    return path.parent.name, path.name


def _seed(run: RunFiles) -> int:
    seed = run.config.get("seed")
    return seed if isinstance(seed, int) else -1
