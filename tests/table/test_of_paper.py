"""A figure's points and curve; statistics from a file or counted anew."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from embedrun.table import Table, load
from embedrun.table.cells import Measured, Planned, Runs, find_slots
from embedrun.table.of_paper import counted, points
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
        0.1: [(1, None, None, None)],
        0.5: [(1, None, None, None), (2, 81.0, 2**0.5, 84.7)],
    }


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    """Import what counting needs, which takes seconds, apart from the tests."""
    import matplotlib.pyplot  # noqa: F401

    import embedrun.backbone.tokens  # noqa: F401


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def test_lengths_are_counted_in_tokens(store: Path, tmp_path: Path):
    from tokenizers import Tokenizer, models, pre_tokenizers

    made = Tokenizer(models.WordLevel({"bug": 0, "?": 1}, unk_token="?"))  # one word a token
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))
    (store / "github_issues").mkdir(parents=True)
    for split, words in {"train": [513, 512, 513, 1], "dev": [3, 3], "test": [3, 3]}.items():
        rows = [
            {"text1": "bug " * left, "text2": "bug " * right, "score": 1, "repository": "a/b"}
            for left, right in zip(words[::2], words[1::2], strict=True)
        ]
        with gzip.open(store / "github_issues" / f"{split}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    found = counted(load("angle/figure3"), store, tokenizer=tmp_path, plots=tmp_path / "plots")
    sheet = sheet_of(load("angle/figure3"), [], counted=found)
    # 2 of 4 texts have more than 512 tokens.
    assert [entry.mean for entry in sheet.rows[0].entries] == [50, 0, 0]
    assert (tmp_path / "plots" / "angle_figure3.png").is_file()


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
    found = counted(table, store, plots=tmp_path / "plots")
    sheet = sheet_of(table, find_slots(table, Runs([]), lambda cell: None), counted=found)  # type: ignore[arg-type]
    values = [[entry.mean for entry in row.entries] for row in sheet.rows]
    assert values == [
        *([2, 0.75, None], [1, 0, None], [1, -0.5, None]),
        *([None, None, share] for share in (0, 0, 0)),  # scores fall from label to label
        [4, None, None],
    ]
    assert (tmp_path / "plots" / "raoe_figure1.png").is_file()
