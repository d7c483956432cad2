"""A table as Markdown, LaTeX, CSV and JSON."""

import re

import pytest
from table_sheets import HOSTILE, entry, hostile, missing, row, sheet

from embedrun.table.formats import (
    cell,
    laid_out,
    latex,
    latex_escaped,
    markdown,
    to_csv,
)


def test_a_small_table_is_this_text():
    text = markdown(
        sheet(
            row("first", entry(), group="G"),
            row("second", missing("second"), notes=("a note",)),
            notes=("a remark",),
            commands=("embedrun reproduce angle/small",),
        )
    )
    assert (
        text
        == """\
### angle/small: A table

Source: a paper, Table 1. Seeds: 1, 2, 3.

within: at most 0.5 from the printed number; off: further away.

| row    | paper |         ours | difference |   n | mark    | notes |
| ------ | ----: | -----------: | ---------: | --: | ------- | ----- |
| **G**  |       |              |            |     |         |       |
| first  | 80.00 | 79.50 ± 0.25 |      -0.50 |   3 | within  |       |
| second | 80.00 |            - |            |     | not run | 1     |

1. a note

a remark

To fill what is missing:

```
embedrun reproduce angle/small
```
"""
    )


def test_every_line_of_a_hostile_table_has_the_same_cells():
    lines = [line for line in markdown(hostile()).splitlines() if line.startswith("| ")]
    bars = {len(re.findall(r"(?<!\\)\|", line)) for line in lines}
    assert len(lines) > 2 * len(HOSTILE)
    assert len(bars) == 1


def test_nothing_of_a_hostile_text_is_code_link_or_html():
    text = re.sub(r"(?s)^```.*?^```", "", markdown(hostile()), flags=re.MULTILINE)
    plain = re.sub(r"\\[^A-Za-z0-9 ]", "", text)  # what has a backslash before it is shown as it is
    for special in ("<", ">", "`", "[", "]", "$", "&", "://", "@"):
        assert special not in plain, special
    assert re.findall(r"[\x00-\x09\x0b-\x1f\u202e]", text) == []


def test_a_small_table_is_this_latex():
    text = latex(
        sheet(
            row("w/o_ibn", entry(), group="G"),
            row("second", missing("second"), notes=("100 %",)),
            commands=("embedrun reproduce angle/small",),
        )
    )
    caption = (
        "angle/small: A table. Source: a paper, Table 1. Seeds: 1, 2, 3. "
        "within: at most 0.5 from the printed number; off: further away."
    )
    assert (
        text
        == rf"""\begin{{table}}
\centering
\caption{{{caption}}}
\footnotesize
\begin{{tabular}}{{lrrrrll}}
\toprule
row & paper & ours & difference & n & mark & notes \\
\midrule
\multicolumn{{7}}{{l}}{{\textbf{{G}}}} \\
w/o\_ibn & 80.00 & 79.50 $\pm$ 0.25 & $-0.50$ & 3 & within &  \\
second & 80.00 & {{-}} &  &  & not run & 1 \\
\bottomrule
\end{{tabular}}
\par\raggedright 1. 100 \%
% embedrun reproduce angle/small
\end{{table}}
"""
    )


def test_every_line_of_a_hostile_latex_table_has_the_same_cells():
    body = latex(hostile()).split(r"\toprule")[1].split(r"\bottomrule")[0]
    lines = [line for line in body.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
    assert len({len(re.findall(r"(?<!\\)&", line)) for line in lines}) == 1


def test_an_entry_is_a_line_with_raw_numbers():
    assert to_csv([sheet(row("first", entry(mean=79.123456, note="a, b", best=True)))]) == (
        "table,scale,row,column,paper,ours_mean,ours_sd,n,wanted,ours_clean,difference,mark,note,ours_before,"
        "best,better\n"
        'angle/small,,first,A,80.0,79.123456,0.25,3,3,,-0.5,within,"a, b",,True,False\n'
    )


@pytest.mark.parametrize(
    ("value", "written"),
    [("=1+1", "'=1+1"), ("-x", "'-x"), ("'a", "''a"), ("\n=1", "'\n=1"), ("a\x1b[31m", "a\ufffd[31m"),
     ("-5", "-5"), ("+1e-3", "+1e-3"), ("-inf", "'-inf"), ("\uff1d1", "'\uff1d1"), ("\t-5", "'\t-5"),
     (None, ""), (0.1, "0.1"), (3, "3")],
)  # fmt: skip
def test_what_looks_like_a_formula_is_text_and_a_number_stays_one(value, written):
    assert cell(value) == written


def test_several_columns_are_a_line_each_for_paper_ours_and_difference():
    layout = laid_out(sheet(row("first", entry(), missing(column="B", paper=None)), headings=("A", "B")))
    assert layout.heading == ("row", "what", "A", "B", "n", "mark")
    assert list(layout.lines) == [
        ("first", "paper", "80.00", "-", "", ""),
        ("", "ours", "79.50 ± 0.25", "-", "3", ""),
        ("", "difference", "-0.50", "-", "", "1 within, 1 not run"),
    ]


def test_every_special_letter_is_escaped():
    assert latex_escaped(r"a&b %$#_{}~^\\") == (
        r"a\&b \%\$\#\_\{\}\textasciitilde{}\textasciicircum{}\textbackslash{}\textbackslash{}"
    )
