"""conf/table and conf/scale as checked, typed data."""

from pathlib import Path

import pytest

from embedrun.errors import ConfigError
from embedrun.table import Cell, load
from embedrun.table.preset import Scale, changes, load_scale, read, scales

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


def test_a_row_is_one_run_with_the_overrides_that_all_share_first(conf: Path):
    table = load(written(conf, SMALL), conf)
    row = table.rows[0]
    assert row.cells == (Cell("train", ("+experiment=angle_stsb", "seed=1"), ("A", "B")),)
    assert row.published == {"A": 86.26, "Both": 80, "Size": "110M"}
    assert (row.source, table.seeds, table.tolerance) == ("a paper, Table 1", [42], 0.5)


def test_a_row_in_parts_is_a_run_for_each_column_that_can_be_run(conf: Path):
    row = load(written(conf, SMALL), conf).rows[1]
    assert row.cells == (
        Cell("train", ("+experiment=angle_stsb", "seed=2"), ("A",)),
        Cell("train", (), ("B",), "no data"),
    )
    assert (row.published, row.source) == ({"B": 1.5}, "another paper")


def test_a_row_of_kind_evaluate_scores_the_model_that_it_names(conf: Path):
    (cell,) = load(written(conf, SMALL), conf).rows[2].cells
    assert (cell.command, cell.overrides) == ("evaluate", ("model=run:angle_bert",))


def test_rows_are_found_by_id_or_by_label_in_any_group(conf: Path):
    table = load(written(conf, SMALL), conf)
    assert [row.id for row in table.find("first")] == ["first", "Several/first"]
    assert [row.id for row in table.find("Several/second")] == ["Several/second"]
    with pytest.raises(ConfigError, match="table angle/small: no row 'secnd'; did you mean 'second'"):
        table.find("secnd")


HEAD = "title: A\npaper: angle\nsource: B\nkind: table\ncolumns: {X: sts/stsb/spearman}\n"
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
        ("a: [", "cannot be read: not valid YAML: while parsing"),
        (HEAD + ROW + "titel: A\n", "titel: unknown key; did you mean 'title'?"),
    ],
)
def test_a_fault_is_named_with_its_place(tmp_path: Path, text: str, fault: str):
    assert any(found.startswith(fault) for found in faults(tmp_path, text)), faults(tmp_path, text)


def test_a_setting_says_where_a_run_computes_or_what_it_changes(tmp_path: Path):
    same = ("gpu=cpu", "data_dir=D", "dataset.path=D", "tracking=wandb", f"backbone.name={tmp_path}")
    other = ("training.max_steps=2", "loss=raoe", "model=someone/other")
    assert tuple(filter(changes, (*same, *other))) == other


@pytest.fixture
def scale_conf(tmp_path: Path) -> Path:
    (tmp_path / "scale").mkdir()
    return tmp_path


def scale_written(conf: Path, text: str) -> Path:
    (conf / "scale" / "cpu_small.yaml").write_text(text, encoding="utf-8")
    return conf


def test_a_setting_is_its_title_overrides_and_seeds(scale_conf: Path):
    scale_written(scale_conf, "{title: small, train: [training.max_steps=5], seeds: [1, 2]}")
    assert scales(scale_conf) == ["cpu_small"]
    assert load_scale("cpu_small", scale_conf) == Scale(
        "cpu_small", "small", ["training.max_steps=5"], [], [1, 2]
    )
