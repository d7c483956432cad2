"""A table as Markdown, LaTeX, CSV and JSON.

A file of `embedrun table -o FILE.csv` is read in Python with `from_csv(FILE.read_text())`.

A file of `embedrun table -o FILE.json` is read in Python with `from_json(FILE.read_text())`.
"""

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NoReturn, get_args

from embedrun.console import clean
from embedrun.errors import DataError
from embedrun.files import Plain, to_printed_json
from embedrun.table.layout import Layout, laid_out
from embedrun.table.sheet import Entry, Mark, Origin, Sheet, SheetColumn, SheetRow

# Every character with a meaning in Markdown or HTML, and what would turn into a link by itself.
_SPECIAL = re.compile(r"[\\`*<>\[\]|~$&]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|:(?=//)|(?<=www)\.|@")


def markdown(sheet: Sheet) -> str:
    """The title, the table with its columns aligned, notes, and the commands that fill what is missing."""
    layout = laid_out(sheet)
    above, *rest = layout.about or ("",)
    name = f"{sheet.name}: " if sheet.name else ""
    parts = [f"### {markdown_escaped(name + sheet.title)}"]
    if above:
        parts.append(f"**{markdown_escaped(above)}**" if sheet.scale else _paragraph(above))
    parts += [_paragraph(text) for text in rest]
    rows = [
        [f"**{markdown_escaped(line.cells[0])}**", *[""] * (len(layout.heading) - 1)]
        if line.is_group
        else [markdown_escaped(cell) for cell in line.cells]
        for line in layout.lines
    ]
    parts.append(_table([markdown_escaped(cell) for cell in layout.heading], rows, layout.words))
    if layout.notes:
        numbered = enumerate(layout.notes, start=1)
        parts.append("\n".join(f"{place}. {_paragraph(text)}" for place, text in numbered))
    parts += [_paragraph(text) for text in layout.remarks]
    if layout.commands:
        commands = "\n".join(" ".join(clean(command).split()) for command in layout.commands)
        fence = "`" * (3 + max((len(run) for run in re.findall("`{3,}", commands)), default=0))
        parts.append(f"To fill what is missing:\n\n{fence}\n{commands}\n{fence}")
    return "\n\n".join(parts) + "\n"


def markdown_escaped(text: str) -> str:
    """The text on one line, escaped so that Markdown shows it unchanged."""
    flat = " ".join(clean(text).split())
    return _SPECIAL.sub(lambda found: "\\" + found[0], flat)


def _paragraph(text: str) -> str:
    """Like `markdown_escaped`, for a text that starts a line: it starts no heading and no list."""
    return re.sub(r"^([#=+-]|\d+(?=[.)]))", lambda found: _unlisted(found[0]), markdown_escaped(text))


def _unlisted(start: str) -> str:
    # A digit takes no backslash; the point or bracket after it does.
    return f"{start}\\" if start.isdigit() else f"\\{start}"


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]], words: Sequence[int]) -> str:
    widths = [max(3, *(len(row[column]) for row in [heading, *rows])) for column in range(len(heading))]
    rule = [
        "-" * width if column in words else "-" * (width - 1) + ":" for column, width in enumerate(widths)
    ]
    lines = [_line(heading, widths, words), "| " + " | ".join(rule) + " |"]
    return "\n".join([*lines, *(_line(row, widths, words) for row in rows)])


def _line(cells: Sequence[str], widths: Sequence[int], words: Sequence[int]) -> str:
    padded = [
        cell.ljust(width) if column in words else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "| " + " | ".join(padded) + " |"


_COMMANDS = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "%": r"\%", "$": r"\$", "&": r"\&", "#": r"\#",
    "_": r"\_", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "±": r"$\pm$", "×": r"$\times$",
    "°": r"$^\circ$", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    '"': r"{\char34}", "`": r"\textasciigrave{}",
    "[": "{[}", "]": "{]}",  # a bracket after `\\` would be taken for a distance
    "*": "{*}", "-": "{-}",  # no ligatures, and no star after `\\`
}  # fmt: skip
# Letters that every recent LaTeX knows without a package.
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
            lines += [
                r"\midrule",
                rf"\multicolumn{{{width}}}{{l}}{{\textbf{{{latex_escaped(line.cells[0])}}}}} \\",
            ]
        else:
            lines.append(" & ".join(_cell(cell) for cell in line.cells) + r" \\")
    if lines[:1] == [r"\midrule"]:
        del lines[0]  # the heading has one below it
    name = f"{sheet.name}: " if sheet.name else ""
    caption = " ".join(latex_escaped(text) for text in (f"{name}{sheet.title}.", *layout.about))
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


def latex_escaped(text: str) -> str:
    """The text on one line, escaped so that LaTeX prints it unchanged."""
    return "".join(_letter(letter) for letter in " ".join(clean(text).split()))


def _letter(letter: str) -> str:
    if letter in _COMMANDS:
        return _COMMANDS[letter]
    return letter if _LETTERS.fullmatch(letter) else f"{{[}}U+{ord(letter):04X}{{]}}"


def _cell(text: str) -> str:
    return f"${text}$" if _NUMBER.fullmatch(text) else latex_escaped(text)


def _below(layout: Layout) -> list[str]:
    """Notes and remarks; the commands that fill what is missing are a comment, as no paper prints them."""
    notes = [
        rf"\par\raggedright {place}. {latex_escaped(text)}"
        for place, text in enumerate(layout.notes, start=1)
    ]
    remarks = [rf"\par\raggedright {latex_escaped(text)}" for text in layout.remarks]
    return [*notes, *remarks, *("% " + " ".join(clean(command).split()) for command in layout.commands)]


# What it would compute, the wide signs among it, and our mark of it.
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\t", "\r", "\n", "'")


def cell(value: object) -> str:
    """A value as a cell: nothing for None, a number with all digits, a `'` before what looks like a formula.

    A text that is a number, such as the `-5` of an option, gets no `'`.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        return repr(value)
    text = clean(value)
    return f"'{text}" if text.startswith(_FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        return text == text.strip() and math.isfinite(float(text))
    except ValueError:
        return False


# heading: field of `Entry`.
_FIELDS = {
    "table": "table", "scale": "scale", "row": "row", "column": "column", "paper": "paper",
    "ours_mean": "mean", "ours_sd": "sd", "n": "n", "wanted": "wanted", "ours_clean": "clean",
    "difference": "difference", "mark": "mark", "note": "note", "ours_before": "before",
}  # fmt: skip
_WORDS = ("table", "scale", "row", "column", "mark", "note")
_COUNTS = ("n", "wanted")


def to_csv(entries: Iterable[Entry], told: Mapping[str, Mapping[str, str]] | None = None) -> str:
    """The entries below a header line; behind them the columns of `told`, which are by row.

    Words that a spreadsheet would take for a formula have a `'` before them; numbers stay numbers.
    """
    told = told or {}
    more = dict.fromkeys(name for own in told.values() for name in own)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*_FIELDS, *map(cell, more)])
    for entry in entries:
        own = told.get(entry.row, {})
        words = [cell(own.get(name)) for name in more]
        writer.writerow([*(cell(getattr(entry, name)) for name in _FIELDS.values()), *words])
    return out.getvalue()


def from_csv(text: str) -> list[Entry]:
    """The entries that `to_csv` wrote.

    Raises:
        DataError: for anything else, with the line.
    """
    rows = csv.reader(io.StringIO(text, newline=""))
    heading = next(rows, [])
    if heading[: len(_FIELDS)] != list(_FIELDS):
        raise DataError(f"CSV of a table: expected the heading {','.join(_FIELDS)}")
    entries = []
    for row in rows:
        try:
            if len(row) != len(heading):
                raise ValueError(f"expected {len(heading)} cells, got {len(row)}")
            named = dict(zip(_FIELDS.values(), row, strict=False))
            entries.append(Entry(**{name: _read(name, cell, named["mark"]) for name, cell in named.items()}))
        except ValueError as fault:
            raise DataError(f"CSV of a table: line {rows.line_num}: {fault}") from None
    return entries


def _read(name: str, cell: str, mark: str) -> Any:
    if name in _WORDS or (name == "paper" and mark == "in words"):
        text = cell.removeprefix("'")
        if name == "mark" and text not in get_args(Mark):
            raise ValueError(f"unknown mark {text!r}")
        return text
    if name in _COUNTS:
        return int(cell)
    if not cell:
        return None
    number = float(cell)
    if not math.isfinite(number):
        raise ValueError(f"{name}: expected a number, got {cell!r}")
    return number


SCHEMA = 1


def to_json(sheets: Sequence[Sheet]) -> str:
    """One object with a schema number and all sheets."""
    data = {"schema": SCHEMA, "tables": [asdict(sheet) for sheet in sheets]}
    return to_printed_json(data) + "\n"


def from_json(text: str) -> list[Sheet]:
    """The sheets that `to_json` wrote.

    Raises:
        DataError: for anything else.
    """
    try:
        data = json.loads(text, parse_constant=_refuse)
        if data["schema"] != SCHEMA:
            raise DataError(f"JSON of tables: schema {data['schema']!r}, and this version reads {SCHEMA}")
        return [_sheet(one) for one in data["tables"]]
    except (ValueError, LookupError, TypeError, RecursionError) as fault:
        raise DataError(f"JSON of tables: cannot be read ({fault})") from None


def _sheet(data: Plain) -> Sheet:
    return Sheet(
        **{
            **data,
            "columns": tuple(SheetColumn(**one) for one in data["columns"]),
            "rows": tuple(_row(one) for one in data["rows"]),
            **{name: tuple(data[name]) for name in ("seeds", "overrides", "notes", "commands")},
            "told": tuple(data.get("told", ())),
        }
    )


def _row(data: Plain) -> SheetRow:
    origins = [Origin(**{**one, "columns": tuple(one["columns"])}) for one in data["origins"]]
    return SheetRow(
        **{
            **data,
            "entries": tuple(Entry(**one) for one in data["entries"]),
            "notes": tuple(data["notes"]),
            "origins": tuple(origins),
        }
    )


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"holds {constant}")


FORMATS = {"md": ".md", "csv": ".csv", "latex": ".tex", "json": ".json"}  # with the suffix of their files


def render(sheets: Sequence[Sheet], form: str = "md") -> str:
    """All sheets as one text in one of `FORMATS`."""
    match form:
        case "csv":
            told = {row.id: row.told for sheet in sheets for row in sheet.rows if row.told}
            return to_csv((entry for sheet in sheets for entry in sheet.entries), told)
        case "latex":
            return "\n".join(latex(sheet) for sheet in sheets)
        case "json":
            return to_json(sheets)
    return "\n".join(markdown(sheet) for sheet in sheets)
