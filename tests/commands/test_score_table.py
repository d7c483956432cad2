import math
from pathlib import Path

from embedrun.evaluation.scores import Scores
from embedrun.experiment.scoring import report, table


def test_scores_stand_beside_their_intervals():
    lines = table({"a": 82.031, "b": 7.0}, {}, {"a": (80.0, 84.056)}).splitlines()
    assert lines[0].split("  ") == ["score", "value", "   95 % interval"] or "95 % interval" in lines[0]
    assert lines[2].split() == ["a", "82.03", "80.00", "to", "84.06"]
    assert lines[3].split() == ["b", "7.00"]


def test_without_an_interval_there_is_no_column_for_it():
    assert "interval" not in table({"a": 1.0}, {}, {"b": (0.0, 1.0)})


def test_trained_scores_stand_beside_the_untrained_ones():
    lines = table({"a": 82.5, "new": 1.0}, {"a": 80.0}, {}).splitlines()
    assert lines[0].split() == ["score", "untrained", "trained", "difference"]
    assert lines[2].split() == ["a", "80.00", "82.50", "+2.50"]
    assert lines[3].split() == ["new", "-", "1.00", "-"]


def test_a_clean_score_stands_there_only_where_it_is_another():
    text = table({"a": 1.0, "a_clean": 1.0, "b": 2.0, "b_clean": 3.0}, {}, {})
    assert "a_clean" not in text
    assert "b_clean" in text


def test_scores_that_are_not_shown_are_counted(capsys):
    found = Scores({"a": 1.0, "a_clean": 2.0, "hidden": 3.0, "none": math.nan}, "a", shown=("a",))
    report({"task": found}, {}, Path("run"))
    said = capsys.readouterr()
    assert "a_clean" in said.out
    assert "hidden" not in said.out
    assert said.out.splitlines()[-1] == "run"
    assert "1 more score is in run/results.json" in said.err
    assert "warning: none is undefined" in said.err


def test_many_undefined_scores_are_one_line_and_no_table(capsys):
    report({"task": Scores({f"s{index}": math.nan for index in range(30)}, "s0")}, {}, Path("run"))
    said = capsys.readouterr()
    assert said.out == "run\n"
    assert "warning: s0, s1, s2, s3, s4 and 25 more are undefined" in said.err
    assert len(said.err.splitlines()) == 2
