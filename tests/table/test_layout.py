from dataclasses import replace

import pytest
from table_sheets import entry, missing, row, sheet

from embedrun.table.layout import laid_out, number


def test_one_column_is_a_line_a_row():
    layout = laid_out(sheet(row("first", entry()), row("second", missing("second"))))
    assert layout.heading == ("row", "paper", "ours", "difference", "n", "mark")
    assert [line.cells for line in layout.lines] == [
        ("first", "80.00", "79.50 ± 0.25", "-0.50", "3", "within"),
        ("second", "80.00", "-", "", "", "not run"),
    ]
    assert layout.words == (0, 5)


def test_a_clean_score_has_a_column_where_there_is_one():
    layout = laid_out(sheet(row("first", entry(clean=78.0))))
    assert layout.heading[2:4] == ("ours", "clean")
    assert layout.lines[0].cells[3] == "78.00"


def test_several_columns_are_a_line_each_for_paper_ours_and_difference():
    layout = laid_out(sheet(row("first", entry(), missing(column="B", paper=None)), headings=("A", "B")))
    assert layout.heading == ("row", "what", "A", "B", "n", "mark")
    assert [line.cells for line in layout.lines] == [
        ("first", "paper", "80.00", "-", "", ""),
        ("", "ours", "79.50 ± 0.25", "-", "3", ""),
        ("", "difference", "-0.50", "-", "", "1 within, 1 not run"),
    ]


def test_a_row_that_has_not_run_shows_that_ours_is_missing():
    layout = laid_out(sheet(row("first", missing(), missing(column="B")), headings=("A", "B")))
    assert layout.lines[1].cells == ("", "ours", "-", "-", "not run")


def test_a_quoted_row_has_no_line_of_ours():
    quoted = {"mark": "quoted", "wanted": 0}
    layout = laid_out(
        sheet(row("first", missing(**quoted), missing(column="B", **quoted)), headings=("A", "B"))
    )
    assert [line.cells[1:] for line in layout.lines] == [("paper", "80.00", "80.00", "quoted")]


def test_fewer_seeds_in_one_column_are_seen():
    layout = laid_out(sheet(row("first", entry(), entry(column="B", n=1)), headings=("A", "B")))
    assert layout.lines[1].cells[4] == "1-3"


def test_a_group_stands_above_its_rows_once():
    rows = [row(name, entry(name), group=group) for name, group in (("a", "G"), ("b", "G"), ("c", "H"))]
    assert [line.cells[0] for line in laid_out(sheet(*rows)).lines if line.is_group] == ["G", "H"]


def test_equal_notes_are_one_and_rows_name_their_numbers():
    rows = [row("a", entry("a", note="second"), notes=("first",)), row("b", entry("b"), notes=("second",))]
    layout = laid_out(sheet(*rows))
    assert layout.notes == ("first", "second")
    assert [line.cells[-1] for line in layout.lines] == ["1, 2", "2"]


def test_a_reduced_setting_is_said_first():
    reduced = sheet(row("first", entry(mark="reduced")), scale="small", scale_title="a tenth of the rows")
    assert laid_out(reduced).about[0] == "Reduced setting small: not a reproduction. a tenth of the rows"
    assert not any("within" in text for text in laid_out(reduced).about)


@pytest.mark.parametrize("columns", ["A", "AB"])
def test_a_reduced_setting_has_no_column_of_the_paper_and_no_row_that_is_its_alone(columns):
    own = [entry("first", column=name, paper=None, difference=None, mark="reduced") for name in columns]
    quoted = [entry("second", column=name, paper=None, mean=None, mark="") for name in columns]
    rows = [row("first", *own), row("second", *quoted, notes=("Numbers of another paper",))]
    layout = laid_out(sheet(*rows, headings=tuple(columns), scale="small"))
    assert [line.cells[0] for line in layout.lines] == ["first"]
    assert "paper" not in [*layout.heading, *layout.lines[0].cells]
    assert layout.notes == ()


def test_a_reduced_setting_is_read_against_the_scores_before_training():
    for columns, line in (
        ("A", ("first", "73.50", "79.50 ± 0.25")),
        ("AB", ("first", "before training", "73.50")),
    ):
        own = [
            entry("first", name, paper=None, scale="small", mark="reduced", before=73.5) for name in columns
        ]
        layout = laid_out(sheet(row("first", *own), headings=tuple(columns), scale="small"))
        assert layout.lines[0].cells[:3] == line
    assert laid_out(sheet(row("first", entry(before=73.5)))).heading[1] == "paper"


def test_overrides_of_every_run_are_said():
    changed = sheet(row("first", entry()), overrides=("training.max_steps=2", "pooling=max"))
    assert laid_out(changed).about[1] == "Every run with training.max_steps=2, pooling=max."


def test_runs_of_no_table_have_no_word_for_what_they_are():
    runs = sheet(row("first", entry(paper=None, difference=None, mark="measured")), kind="runs")
    assert laid_out(runs).heading == ("run", "A", "n")


def test_counts_have_no_digits_behind_the_point():
    one = sheet(row("first", entry(paper=9457, mean=9000.0, sd=None, difference=-457.0)))
    layout = laid_out(replace(one, columns=(replace(one.columns[0], digits=0),)))
    assert layout.lines[0].cells[1:4] == ("9457", "9000", "-457")


def test_no_number_is_minus_zero():
    assert number(-0.001, 2) == "0.00"
    assert number(-0.001, 2, "+") == "+0.00"
    assert number(-0.006, 2, "+") == "-0.01"
