"""Runs of table cells with made-up scores: the configuration of each is composed, nothing is trained."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from embedrun.config.compose import Compositions
from embedrun.files import write_atomically
from embedrun.runs.directory import Run
from embedrun.table.preset import KEY


@cache
def compositions(config_dir: Path | None = None) -> Compositions:
    """One for all tests: it remembers what it has composed."""
    return Compositions()


def run_of(
    overrides: Sequence[str],
    scores: Mapping[str, float],
    *,
    command: str = "train",
    seed: int = 42,
    state: str = "finished",
    ended: str = "2026-01-01T00:00:00+00:00",
    starts_from: Mapping[str, Path] | None = None,
    data: Mapping[str, str] | None = None,
    scale: str | None = None,
    directory: str | None = None,
    changed: Mapping[str, Any] | None = None,
) -> Path:
    """The directory of a run below `outputs`.

    Args:
        overrides: of the root `command`.
        scores: of its results; none are written for a run that has not finished.
        command: `train` or `evaluate`.
        seed: of the run.
        state: in which it is.
        ended: when.
        starts_from: run directories by the name behind `run:`, which stand in the configuration in its place.
        data: fingerprints.
        scale: the reduced setting.
        directory: used verbatim.
        changed: top-level options with another value.
    """
    config = {**compositions().config(command, [*overrides, f"seed={seed}"]), **(changed or {})}
    for name, path in (starts_from or {}).items():
        config = json.loads(json.dumps(config).replace(f'"run:{name}"', json.dumps(str(path.resolve()))))
    if scale is not None:
        config[KEY] = scale
    run = Run.create(config["name"], config, directory=directory)
    run.start(config, list(overrides), {"data": dict(data or {})})
    if state == "finished":
        key = next(iter(scores), None)
        main = {"name": key, "value": scores.get(key or "")}
        run.results({"main": main, "scores": dict(scores)})
    run.end(state)
    status = json.loads((run.path / "status.json").read_text(encoding="utf-8"))
    write_atomically(run.path / "status.json", json.dumps({**status, "ended": ended}))
    return run.path
