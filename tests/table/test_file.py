from pathlib import Path

import pytest

from embedrun.errors import ConfigError
from embedrun.table.preset import read

HEAD = "title: A\npaper: angle\nsource: B\nkind: table\ncolumns: {X: sts/stsb/spearman, Y: {mean: [X]}}\n"
ROW = "rows: [{label: one, overrides: [seed=1]}]\n"


def faults(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "t.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        read(file, "angle/t")
    return [problem.removeprefix("table/angle/t.yaml: ") for problem in refused.value.problems]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: [", "not YAML: while parsing"),
        (HEAD + ROW + "titel: A\n", "titel: unknown key; did you mean 'title'?"),
        (HEAD + "rows: [{overrides: [seed=1]}]\n", "rows[0].label: no value given"),
        (
            HEAD + "rows: [{label: one}]\n",
            "rows[0].overrides: a row of kind train needs them, or not_runnable",
        ),
        (
            HEAD + "rows: [{label: one, kind: quoted, overrides: [seed=1]}]\n",
            "rows[0].overrides: is of rows that are runs, and this is quoted",
        ),
        (
            HEAD + "rows: [{label: one, kind: quoted, not_runnable: why}]\n",
            "rows[0].not_runnable: is of rows that are runs, and this is quoted",
        ),
        (
            HEAD + "rows: [{label: one, kind: statistics, keys: {X: a}}]\n",
            "rows[0].kind: statistics need the command and the file of `statistics`",
        ),
        (
            HEAD + "rows: [{label: one, overrides: [seed=1], keys: {X: a}}]\n",
            "rows[0].keys: are of rows of kind statistics, all of which have them",
        ),
        (
            HEAD + "rows: [{label: one, kind: quoted, published: [1]}]\n",
            "rows[0].published: 1 numbers for 2 columns",
        ),
        (
            HEAD + "rows: [{label: one, kind: quoted, published: 1}]\n",
            "rows[0].published: expected numbers in the order of the columns, got 1",
        ),
        (
            HEAD + "rows: [{label: one, kind: quoted, published: {x: 1}}]\n",
            "rows[0].published: no column 'x' (there are: X, Y)",
        ),
        (
            HEAD + "rows: [{label: one, kind: quoted, published: {X: true}}]\n",
            "rows[0].published.X: expected a number, got True",
        ),
        (
            HEAD + "rows: [{label: one, parts: {X: seed=1}}]\n",
            "rows[0].parts.X: expected a list of overrides or {not_runnable: reason}, got 'seed=1'",
        ),
        (HEAD + "rows: [{label: one, parts: {Z: [seed=1]}}]\n", "rows[0].parts.Z: no column 'Z'"),
        (
            HEAD + "rows: [{label: a, kind: quoted}, {label: a, kind: quoted}]\n",
            "rows: 'a' stands there twice",
        ),
        (HEAD.replace("mean: [X]", "mean: [Z]") + ROW, "columns.Y: no column 'Z'"),
        (HEAD.replace("mean: [X]", "median: [X]") + ROW, "columns.Y: expected a key of results.json, {mean:"),
        (HEAD.replace("mean: [X]", "speed: fast") + ROW, "columns.Y: expected a key of results.json, {mean:"),
        (HEAD.replace("kind: table", "kind: figure") + ROW, "figure: the axes go with kind: figure"),
        (
            HEAD.replace("kind: table", "kind: figure\nfigure: {x: m, y: k}") + ROW,
            "rows[0].x: is of the rows of a figure, all of which have it",
        ),
        (
            HEAD + "rows: [{label: one, overrides: [seed=1], line: 2}]\n",
            "rows[0].line: is of the rows of a figure with several lines",
        ),
    ],
)
def test_a_fault_is_named_with_its_place(tmp_path: Path, text: str, fault: str):
    assert any(found.startswith(fault) for found in faults(tmp_path, text)), faults(tmp_path, text)


def test_every_fault_is_reported_at_once(tmp_path: Path):
    rows = "rows: [{label: a}, {label: b, kind: quoted, published: [1]}, {label: a, kind: quoted}]\n"
    assert len(faults(tmp_path, HEAD + rows)) == 3


@pytest.mark.parametrize("text", ["", "- a\n", "3\n"])
def test_a_file_that_is_no_mapping_lacks_everything(tmp_path: Path, text: str):
    assert "title: no value given" in faults(tmp_path, text)


def test_nothing_is_said_of_passing_options(tmp_path: Path):
    assert not any("pass" in fault for fault in faults(tmp_path, "kind: table\n"))
