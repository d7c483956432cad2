"""A paper's LaTeX held against a table: each change of it is found, in its line."""

import re

import pytest
from table_sheets import entry, row, sheet

from embedrun.table.formats import latex
from embedrun.table.printed import check
from embedrun.table.sheet import Sheet

PAPER = r"""\documentclass{article}
\newcommand{\embedrun}[3]{#3}
% \begin{tabular}{l} a comment \end{tabular}
We reach \embedrun{AnglE}{STS-B}{86.9}.
\begin{tabular}{lcc}
\toprule
 & \multicolumn{2}{c}{Spearman} \\
Model & STS-B & SICK-R \\
\midrule
GloVe & 58.02 & 53.76 \\
\multicolumn{3}{l}{\textit{Trained}} \\
CoSENT & $85.10_{\pm 0.3}$ & \textbf{80.05} $\pm$ 0.21 \\
AnglE (ours) & \textbf{86.90}$^\dagger$ $\pm$ 0.2 & 79.99 $\pm$ 0.10 \\
\bottomrule
\end{tabular}
"""
LABELS = {"GloVe": None, "AnglE (ours)": "AnglE"}
MEANS = {
    ("CoSENT", "STS-B"): (85.104, 0.31),
    ("CoSENT", "SICK-R"): (80.0451, 0.21),
    ("AnglE", "STS-B"): (86.899, 0.2),
    ("AnglE", "SICK-R"): (79.986, 0.1),
}


def ours() -> Sheet:
    best = {("AnglE", "STS-B"), ("CoSENT", "SICK-R")}
    rows = []
    for name in ("CoSENT", "AnglE"):
        entries = [
            entry(name, heading, paper=None, mean=mean, sd=sd, best=(name, heading) in best, difference=None,
                  better=(name, heading) == ("AnglE", "STS-B"), mark="measured")
            for (one, heading), (mean, sd) in MEANS.items() if one == name
        ]  # fmt: skip
        rows.append(row(name, *entries))
    return sheet(*rows, headings=("STS-B", "SICK-R"))


def test_what_is_written_of_a_single_column_agrees():
    of_one = [
        row(
            "CoSENT",
            entry("CoSENT", "STS-B", paper=None, mean=85.1, clean=84.9, difference=None, mark="measured"),
        )
    ]
    one = sheet(*of_one, headings=("STS-B",))
    assert check(latex(one), one, {}).faults == []
    assert check(latex(one), one, {}).agree == 1


def test_a_paper_that_agrees_has_no_fault():
    checked = check(PAPER, ours(), LABELS)
    assert checked.faults == []
    assert checked.agree == 5


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("86.90}", "86.80}", ["line 13: AnglE, STS-B: 86.80 is printed, 86.90 is measured"]),
        ("\\pm$ 0.10", "\\pm$ 0.30", ["line 13: AnglE, SICK-R: ± 0.30 is printed, ± 0.10 is measured"]),
        ("\\textbf{86.90}", "86.90", ["line 13: AnglE, STS-B: 86.90 is to have bold type"]),
        ("79.99", "\\textbf{79.99}", ["line 13: AnglE, SICK-R: 79.99 is to be without bold type"]),
        ("80.05} $", "80.05}$^\\dagger$ $", ["line 12: CoSENT, SICK-R: 80.05 is to be without a dagger"]),
        ("{86.9}", "{86.8}", ["line 4: AnglE, STS-B: 86.8 is printed, 86.9 is measured"]),
        ("{AnglE}{STS-B}", "{Angle}{STS-B}", ["line 4: the table has no row 'Angle' with a column 'STS-B'"]),
        ("GloVe", "BERT", ["line 10: no row 'BERT'"]),
        ("& SICK-R", "& AVG", ["line 8: no column 'AVG'", "line 8: no column 'SICK-R' is printed"]),
        ("80.05", "-", ["line 12: CoSENT, SICK-R: no number is printed, 80.05 is measured"]),
    ],
)  # fmt: skip
def test_each_change_is_found_in_its_line(before: str, after: str, found: list[str]):
    assert PAPER.count(before) == 1
    assert check(PAPER.replace(before, after), ours(), LABELS).faults == found


def test_swapped_rows_and_a_row_left_out_are_found():
    swapped = re.sub(r"(CoSENT)(.*?\\\\\n)(AnglE \(ours\))", r"\3\2\1", PAPER, flags=re.DOTALL)
    faults = check(swapped, ours(), LABELS).faults
    assert "line 12: AnglE, STS-B: 85.10 is printed, 86.90 is measured" in faults
    assert "line 13: CoSENT, SICK-R: 79.99 is printed, 80.05 is measured" in faults
    without = re.sub(r"CoSENT.*\n", "", PAPER)
    assert "line 8: no row 'CoSENT' is printed" in check(without, ours(), LABELS).faults
    (fault,) = check(r"\begin{tabular}{l} a & b \\ \end{tabular}", ours(), LABELS).faults
    assert fault == "no tabular has a row and a column of angle/small; its `labels` say what is what"


def test_our_own_latex_agrees():
    checked = check(latex(ours()), ours(), {})
    assert checked.faults == []
    assert checked.agree == 4
