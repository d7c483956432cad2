"""Finished runs with made-up scores and predictions, and what `embedrun runs` prints of them."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from embedrun.commands.runs import main
from embedrun.config import presets
from embedrun.runs.directory import Run

ENVIRONMENT = {"command": "embedrun train", "versions": {"torch": "2.13.0"}, "data": {"stsb/test": "aa"}}
GOLD = [0.0, 1.0, 2.0, 3.0]

_groups = cache(presets.groups)


def finished(
    name: str,
    config: dict[str, Any] | None = None,
    scores: dict[str, float] | None = None,
    predictions: dict[str, dict[str, Any]] | None = None,
    environment: dict[str, Any] | None = None,
    *,
    typed: tuple[str, ...] = (),
    choices: dict[str, str] | None = None,
) -> Path:
    """A finished run in the folder `outputs/<name>`; its `choices` are by default those that were `typed`."""
    choices = presets.typed(typed, _groups()) if choices is None else choices
    run = Run.create("trial", {}, directory=f"outputs/{name}")
    run.start({"name": "trial", "seed": 1, **(config or {})}, [*typed], environment or ENVIRONMENT, choices)
    scores = scores or {"sts/stsb/spearman": 80.0}
    key, value = next(iter(scores.items()))
    run.results({"main": {"name": key, "value": value}, "scores": scores})
    run.end("finished")
    (run.path / "predictions").mkdir()
    for file, columns in (predictions or {}).items():
        pq.write_table(pa.table(columns), run.path / "predictions" / f"{file}.parquet")
    return run.path


def table(out: str) -> list[list[str]]:
    """The cells of the lines below the heading of a table, two blanks between them."""
    lines = [line for line in out.split("\n\n")[0].splitlines() if line]
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines[2:]]


def diff(capsys: pytest.CaptureFixture[str], a: Path, b: Path, *more: str) -> str:
    assert main(["--diff", str(a), str(b), *more]) == 0
    return capsys.readouterr().out


def diff_data(capsys: pytest.CaptureFixture[str], a: Path, b: Path) -> dict[str, Any]:
    return json.loads(diff(capsys, a, b, "--json", "--draws", "100"))
