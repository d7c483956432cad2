from pathlib import Path

import pytest

from embedrun.errors import ConfigError
from embedrun.table import Cell, load, names

SMALL = """
title: A table
paper: angle
source: a paper, Table 1
kind: table
columns: {A: sts/stsb/spearman, B: qqp_dev/spearman, Both: {mean: [A, B]}, Size: {printed: true}}
shared: {train: [+experiment=angle_stsb]}
rows:
  - {label: first, overrides: [seed=1], published: [86.26, null, 80, 110M]}
  - label: second
    group: Several
    parts: {A: [seed=2], B: {not_runnable: no data}}
    published: {B: 1.5}
    source: another paper
  - {label: first, group: Several, kind: evaluate, overrides: ["model=run:angle_bert"]}
  - {label: third, kind: quoted, published: [1, 2, 3, "-"]}
"""


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    return tmp_path


def written(conf: Path, text: str, name: str = "angle/small") -> str:
    file = conf / "table" / f"{name}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return name


def test_names_are_paths_below_the_folder_sorted(conf: Path):
    for name in ("raoe/table1", "angle/table2", "angle/figure1"):
        written(conf, SMALL, name)
    assert names(conf) == ["angle/figure1", "angle/table2", "raoe/table1"]


def test_a_row_is_one_run_with_the_overrides_that_all_share_first(conf: Path):
    table = load(written(conf, SMALL), conf)
    row = table.rows[0]
    assert row.cells == (Cell("train", ("+experiment=angle_stsb", "seed=1"), ("A", "B")),)
    assert row.published == {"A": 86.26, "Both": 80, "Size": "110M"}
    assert (row.source, table.seeds, table.tolerance) == ("a paper, Table 1", (42,), 0.5)


def test_a_row_in_parts_is_a_run_for_each_column_that_can_be_run(conf: Path):
    row = load(written(conf, SMALL), conf).rows[1]
    assert row.cells == (
        Cell("train", ("+experiment=angle_stsb", "seed=2"), ("A",)),
        Cell("train", (), ("B",), "no data"),
    )
    assert (row.published, row.source) == ({"B": 1.5}, "another paper")


def test_an_evaluation_needs_the_run_that_it_names(conf: Path):
    (cell,) = load(written(conf, SMALL), conf).rows[2].cells
    assert (cell.command, cell.needs) == ("evaluate", ("angle_bert",))


def test_a_quoted_row_has_no_run(conf: Path):
    row = load(written(conf, SMALL), conf).rows[3]
    assert (row.cells, row.published["Size"]) == ((), "-")


def test_rows_are_found_by_id_or_by_label_in_any_group(conf: Path):
    table = load(written(conf, SMALL), conf)
    assert [row.id for row in table.find("first")] == ["first", "Several/first"]
    assert [row.id for row in table.find("Several/second")] == ["Several/second"]
    with pytest.raises(ConfigError, match="table angle/small: no row 'secnd'; did you mean 'second'"):
        table.find("secnd")


def test_an_unknown_table_is_answered_with_the_nearest(conf: Path):
    written(conf, SMALL, "angle/table2")
    with pytest.raises(ConfigError, match="no table 'angel/table2'; did you mean 'angle/table2'"):
        load("angel/table2", conf)


def test_statistics_have_paths_and_a_figure_has_axes(conf: Path):
    name = written(
        conf,
        """
        {title: A, paper: raoe, source: B, kind: figure, columns: {Pairs: {statistic: true}},
         figure: {x: margin, y: stsb_dev/spearman, best: 2, line: r1, best_line: 0.5},
         statistics: {command: c, file: f.json},
         rows: [{label: "2", kind: statistics, x: 2, line: 0.5, keys: {Pairs: [a/b, c/d]}}]}
        """,
    )
    table = load(name, conf)
    assert table.figure is not None
    assert (table.figure.best, table.figure.best_line, table.rows[0].x) == (2, 0.5, 2)
    assert table.rows[0].keys == {"Pairs": ("a/b", "c/d")}
    assert table.statistics is not None
    assert table.statistics.file == "f.json"
