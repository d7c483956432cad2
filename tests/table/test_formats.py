"""A table as Markdown, LaTeX, CSV and JSON."""

import csv
import io
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from table_sheets import HOSTILE, entry, hostile, missing, row, sheet

from embedrun.console import clean
from embedrun.errors import DataError
from embedrun.table.formats import (
    FORMATS,
    cell,
    from_csv,
    from_json,
    latex,
    latex_escaped,
    markdown,
    markdown_escaped,
    render,
    to_csv,
    to_json,
)
from embedrun.table.sheet import Entry


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


def test_a_reduced_table_says_so_in_bold_above_all():
    text = markdown(sheet(row("first", entry(mark="reduced")), scale="small", scale_title="a tenth"))
    assert text.splitlines()[2] == "**Reduced setting small: not a reproduction. a tenth**"


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


def test_a_text_begins_no_list_and_no_heading():
    text = markdown(
        sheet(row("first", entry()), notes=("- list", "# heading", "1. list", "2) list", "+ list"))
    )
    for line in (r"\- list", r"\# heading", r"1\. list", r"2\) list", r"\+ list"):
        assert line in text.splitlines()


def test_words_with_an_underscore_or_a_number_with_a_sign_stay_as_they_are():
    assert markdown_escaped("Only L_rank, -0.50, w/o ibn, 25 %") == "Only L_rank, -0.50, w/o ibn, 25 %"


def test_commands_end_no_fence():
    text = markdown(sheet(row("first", entry()), commands=("x ```` y",)))
    assert "`````\nx ```` y\n`````" in text


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


def test_every_special_letter_is_escaped():
    assert latex_escaped(r"a&b %$#_{}~^\\") == (
        r"a\&b \%\$\#\_\{\}\textasciitilde{}\textasciicircum{}\textbackslash{}\textbackslash{}"
    )


def test_letters_that_plain_latex_does_not_know_are_numbers():
    assert latex_escaped("é中\x1b") == "é{[}U+4E2D{]}{[}U+FFFD{]}"


def test_every_line_of_a_hostile_latex_table_has_the_same_cells():
    body = latex(hostile()).split(r"\toprule")[1].split(r"\bottomrule")[0]
    lines = [line for line in body.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
    assert len({len(re.findall(r"(?<!\\)&", line)) for line in lines}) == 1


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not on PATH")
def test_hostile_tables_compile_with_booktabs_alone(tmp_path: Path):
    document = (
        r"\documentclass{article}\usepackage{booktabs}\begin{document}" + latex(hostile()) + r"\end{document}"
    )
    (tmp_path / "table.tex").write_text(document, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "table.tex"]
    ended = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=120
    )
    assert ended.returncode == 0, ended.stdout[-3000:]
    assert (tmp_path / "table.pdf").stat().st_size > 1000


WORDS = st.text(st.characters(codec="utf-8"), max_size=20).map(clean)
NUMBERS = st.none() | st.floats(allow_nan=False, allow_infinity=False)


def test_an_entry_is_a_line_with_raw_numbers():
    assert to_csv([entry(mean=79.123456, note="a, b")]) == (
        "table,scale,row,column,paper,ours_mean,ours_sd,n,wanted,ours_clean,difference,mark,note,ours_before\n"
        'angle/small,,first,A,80.0,79.123456,0.25,3,3,,-0.5,within,"a, b",\n'
    )


def test_hostile_entries_come_back_but_for_control_characters():
    entries = hostile().entries
    back = from_csv(to_csv(entries))
    assert [one.paper for one in back] == [
        clean(one.paper) if isinstance(one.paper, str) else one.paper for one in entries
    ]
    assert [one.row for one in back] == [clean(one.row) for one in entries]


def test_no_word_begins_a_formula():
    for cells in csv.reader(io.StringIO(to_csv(hostile().entries))):
        for word in cells[:4]:
            assert not word.startswith(("=", "+", "-", "@"))


def test_negative_numbers_stay_numbers():
    (cells,) = list(csv.reader(io.StringIO(to_csv([missing(difference=-1.5)]))))[1:]
    assert cells[10] == "-1.5"


@given(
    words=st.tuples(WORDS, WORDS, WORDS, WORDS, WORDS),
    numbers=st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS),
)
def test_entries_round_trip(words: tuple, numbers: tuple):
    table, scale, row, column, note = words
    paper, mean, sd, clean_mean, difference = numbers
    one = Entry(table, scale, row, column, paper, mean, sd, 2, 3, clean_mean, difference, "off", note, mean)
    fact = Entry(table, scale, row, column, note, None, None, 0, 0, None, None, "in words", "")
    assert from_csv(to_csv([one, fact])) == [one, fact]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n", "expected the heading"),
        ("", "expected the heading"),
        (to_csv([entry()]).replace("79.5", "nan"), "line 2: mean: expected a number"),
        (to_csv([entry()]).replace("within", "great"), "line 2: unknown mark 'great'"),
        (to_csv([entry()]).replace(",3,3,", ",3,"), "line 2"),
    ],
)
def test_what_it_has_not_written_is_refused(text: str, said: str):
    with pytest.raises(DataError, match=said):
        from_csv(text)


def test_sheets_round_trip():
    sheets = [
        hostile(),
        sheet(row("first", missing()), scale="small", scale_title="t", tolerance=None, overrides=("a=1",)),
    ]
    assert from_json(to_json(sheets)) == sheets


def test_it_has_a_schema_number_and_pure_letters():
    text = to_json([hostile()])
    assert json.loads(text)["schema"] == 1
    assert text.isascii()


def test_a_number_that_is_none_is_never_written():
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_json([sheet(row("first", entry(mean=float("nan"))))])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"schema": 2, "tables": []}',
        '{"schema": 1, "tables": [NaN]}',
        '{"schema": 1, "tables": [{}]}',
    ],
)
def test_json_that_it_has_not_written_is_refused(text: str):
    with pytest.raises(DataError, match="JSON of tables"):
        from_json(text)


ONE, TWO = sheet(row("first", entry())), sheet(row("first", entry(mean=1.0)), name="angle/other")


@pytest.mark.parametrize("form", FORMATS)
def test_each_format_holds_every_table_in_order(form: str):
    text = render([ONE, TWO], form)
    assert -1 < text.find("79.5") < text.find("1.0")
    assert text.endswith("\n")


def test_csv_and_json_are_read_back_to_the_same_entries():
    entries = [*ONE.entries, *TWO.entries]
    assert from_csv(render([ONE, TWO], "csv")) == entries
    assert [one for back in from_json(render([ONE, TWO], "json")) for one in back.entries] == entries


@pytest.mark.parametrize(
    ("value", "written"),
    [("=1+1", "'=1+1"), ("-x", "'-x"), ("'a", "''a"), ("\n=1", "'\n=1"), ("a\x1b[31m", "a\ufffd[31m"),
     ("-5", "-5"), ("+1e-3", "+1e-3"), ("-inf", "'-inf"), ("\uff1d1", "'\uff1d1"), ("\t-5", "'\t-5"),
     (None, ""), (0.1, "0.1"), (3, "3")],
)  # fmt: skip
def test_what_looks_like_a_formula_is_text_and_a_number_stays_one(value, written):
    assert cell(value) == written


def test_json_that_nests_too_deeply_is_no_table():
    with pytest.raises(DataError, match="JSON of tables: cannot be read"):
        from_json("[" * 100_000)
