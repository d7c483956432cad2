import re
import shutil
import subprocess
from pathlib import Path

import pytest
from table_sheets import entry, hostile, missing, row, sheet

from embedrun.table.formats import latex, latex_escaped


def test_a_small_table_is_this_text():
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


def test_every_line_of_a_hostile_table_has_the_same_cells():
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
