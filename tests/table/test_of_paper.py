"""A figure's points and curve; statistics from a file or counted anew."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from embedrun.table import Table, load
from embedrun.table.cells import Measured, Planned, Runs, find_slots
from embedrun.table.of_paper import Point, Source, counted, points
from embedrun.table.sheet import sheet_of


def test_points_are_by_line_and_by_x(made: Callable[[str], Table]):
    table = made(
        """
        {title: A, paper: arccse, source: B, kind: figure, columns: {Other: c, Dev: dev/spearman},
         figure: {x: margin, y: dev/spearman, best: 2, line: r1, best_line: 0.5},
         rows: [{label: b, x: 2, line: 0.5, overrides: [x=1], published: {Dev: 84.7}},
                {label: a, x: 1, line: 0.5, overrides: [x=2]}, {label: c, x: 1, line: 0.1, overrides: [x=3]}]}
        """
    )
    runs = Runs(
        [
            Measured(path=None, key="x=1", seed=seed, state="finished", scores={"dev/spearman": score})  # type: ignore[arg-type]
            for seed, score in ((1, 80.0), (2, 82.0))
        ]
    )
    slots = find_slots(table, runs, lambda cell: Planned(cell.overrides[-1], cell.overrides))
    assert table.figure is not None
    assert points(table, table.figure, sheet_of(table, slots)) == {
        0.1: [Point(1, None, None, None)],
        0.5: [Point(1, None, None, None), Point(2, 81.0, 2**0.5, 84.7)],
    }


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def issues(store: Path, lengths: dict[str, list[int]] | None = None) -> None:
    """One positive and two negative pairs in each split; texts of so many words, by split."""
    (store / "github_issues").mkdir(parents=True)
    for split in ("train", "dev", "test"):
        words = (lengths or {}).get(split, [3] * 6)
        pairs = zip(words[::2], words[1::2], (1, 0, 0), strict=True)
        rows = [
            {"text1": "bug " * left, "text2": "bug " * right, "score": score, "repository": "a/b"}
            for left, right, score in pairs
        ]
        with gzip.open(store / "github_issues" / f"{split}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


def provenance(store: Path, unit: str) -> None:
    split = {"positive": 10, "negative": 5, "long_texts": 33.0}
    (store / "github_issues").mkdir(parents=True, exist_ok=True)
    data = {"length_unit": unit, "splits": {name: split for name in ("train", "dev", "test")}}
    (store / "github_issues" / "provenance.json").write_text(json.dumps(data), encoding="utf-8")


def scored(folder: Path) -> None:
    folder.mkdir(parents=True)
    labels = {0: [0.5, 1.0], 1: [0.0], 2: [-0.5]}
    rows = [
        {"text1": "a", "text2": "b", "label": label, "score": score}
        for label, scores in labels.items()
        for score in scores
    ]
    with gzip.open(folder / "nli_scored.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize("inside", ["", "nli"])
def test_scores_are_counted_by_label_in_an_annotation_or_in_the_store(
    store: Path, tmp_path: Path, inside: str
):
    scored(store / inside)
    table = load("raoe/figure1")
    found = counted(table, Source(store, plots=tmp_path / "plots"))
    sheet = sheet_of(table, find_slots(table, Runs([]), lambda cell: None), counted=found)  # type: ignore[arg-type]
    assert [entry.mean for row in sheet.rows for entry in row.entries] == [2, 0.75, 1, 0, 1, -0.5, 4, None]
    assert (tmp_path / "plots" / "raoe_figure1.png").is_file()
