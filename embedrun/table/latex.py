"""A sheet as LaTeX, for a document that has `\\usepackage{booktabs}`."""

import re

from embedrun.console import clean
from embedrun.table.layout import Layout, laid_out
from embedrun.table.sheet import Sheet

_COMMANDS = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "%": r"\%", "$": r"\$", "&": r"\&", "#": r"\#",
    "_": r"\_", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "±": r"$\pm$", "×": r"$\times$",
    "°": r"$^\circ$", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    '"': r"\textquotedbl{}", "`": r"\textasciigrave{}",
    "[": "{[}", "]": "{]}",  # a bracket behind a line's end would be taken for a distance
    "*": "{*}", "-": "{-}",  # no ligatures, and no star behind a line's end
}  # fmt: skip
# Letters that every LaTeX of the last years knows without a package.
_LETTERS = re.compile("[ -~À-ÖØ-öø-ÿ]")
_NUMBER = re.compile(r"[+-]\d[\d.]*")


def latex(sheet: Sheet) -> str:
    """A `table` environment; titles, labels and notes are escaped.

    A letter that plain LaTeX does not know is shown by its number, as `[U+4E2D]`.
    """
    layout = laid_out(sheet)
    columns = "".join("l" if place in layout.words else "r" for place in range(len(layout.heading)))
    width = len(layout.heading)
    lines = []
    for line in layout.lines:
        if line.is_group:
            lines += [r"\midrule", rf"\multicolumn{{{width}}}{{l}}{{\textbf{{{escaped(line.cells[0])}}}}} \\"]
        else:
            lines.append(" & ".join(_cell(cell) for cell in line.cells) + r" \\")
    if lines[:1] == [r"\midrule"]:
        del lines[0]  # the heading has one below it
    name = f"{sheet.name}: " if sheet.name else ""
    caption = " ".join(escaped(text) for text in (f"{name}{sheet.title}.", *layout.about))
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{caption}}}",
            r"\footnotesize",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            " & ".join(_cell(cell) for cell in layout.heading) + r" \\",
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            *_below(layout),
            r"\end{table}",
            "",
        ]
    )


def escaped(text: str) -> str:
    """The text on one line, so that LaTeX prints it as it is."""
    return "".join(_letter(letter) for letter in " ".join(clean(text).split()))


def _letter(letter: str) -> str:
    if letter in _COMMANDS:
        return _COMMANDS[letter]
    return letter if _LETTERS.fullmatch(letter) else f"{{[}}U+{ord(letter):04X}{{]}}"


def _cell(text: str) -> str:
    return f"${text}$" if _NUMBER.fullmatch(text) else escaped(text)


def _below(layout: Layout) -> list[str]:
    """Notes and remarks; the commands that fill what is missing are no part of a paper, and are a comment."""
    notes = [
        rf"\par\raggedright {place}. {escaped(text)}" for place, text in enumerate(layout.notes, start=1)
    ]
    remarks = [rf"\par\raggedright {escaped(text)}" for text in layout.remarks]
    return [*notes, *remarks, *("% " + " ".join(clean(command).split()) for command in layout.commands)]
