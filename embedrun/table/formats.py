"""A table as Markdown, LaTeX, CSV and JSON."""

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from embedrun.console import before_training, clean
from embedrun.evaluation.seeds import listed
from embedrun.files import to_printed_json
from embedrun.table.sheet import Entry, Sheet, SheetRow

_NONE = "-"
# The marks in the order in which a row with several of them names them.
_COUNTED = (
    "within", "off", "reduced", "measured", "not compared", "not run", "not measured", "not reproducible",
    "quoted",
)  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """What is printed of a sheet: sentences above the table, and below it numbered notes and remarks.

    A line has a cell for each column; the heading of a group of rows has a single cell. The last column
    refers to the notes; the remarks are on the whole table. `words` are the columns that are aligned left.
    """

    heading: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    words: tuple[int, ...]
    about: tuple[str, ...]
    notes: tuple[str, ...]
    remarks: tuple[str, ...]
    commands: tuple[str, ...]


def laid_out(sheet: Sheet) -> Layout:
    """One line a row where the sheet has one column, else a line each for paper, ours and difference.

    A reduced setting has nothing of the paper.
    """
    if sheet.scale:  # nothing of the paper is shown, and some rows have nothing else
        sheet = replace(sheet, rows=tuple(row for row in sheet.rows if any(one.mark for one in row.entries)))
    notes = list(dict.fromkeys(text for row in sheet.rows for text in _texts(row)))  # equal ones are one
    label = "run" if sheet.kind == "runs" else "row"
    is_wide = len(sheet.columns) == 1 and sheet.kind != "runs"
    against = before_training() if sheet.scale else "paper"
    if is_wide:
        heading = [label, against, "ours", "clean", "difference", "n", "mark", "notes"]
    else:
        columns = [column.heading for column in sheet.columns]
        heading = [label, *sheet.told, "what", *columns, "n", "mark", "notes"]
    lines, group = [], ""
    for row in sheet.rows:
        lines += [(row.group,)] if row.group and row.group != group else []
        group = row.group
        numbers = ", ".join(str(notes.index(text) + 1) for text in _texts(row))
        own = [_wide(row, sheet.columns[0].digits)] if is_wide else _stacked(row, sheet, against)
        lines += [(*cells, numbers if cells is own[-1] else "") for cells in own]
    # Empty columns are left out, but not that of the labels.
    kept = [
        place
        for place in range(len(heading))
        if not place or any(line[place] for line in lines if len(line) > 1)
    ]
    words = {"", "what", "mark", "notes", label, *sheet.told}
    return Layout(
        heading=tuple(heading[place] for place in kept),
        lines=tuple(line if len(line) == 1 else tuple(line[place] for place in kept) for line in lines),
        words=tuple(new for new, place in enumerate(kept) if not place or heading[place] in words),
        about=tuple(_about(sheet)),
        notes=tuple(notes),
        remarks=sheet.notes,
        commands=sheet.commands,
    )


def number(value: float, digits: int, sign: str = "") -> str:
    """A number as it is printed; never `-0.00`."""
    return f"{value:{sign}z.{digits}f}"


def _texts(row: SheetRow) -> list[str]:
    return list(dict.fromkeys([*row.notes, *(entry.note for entry in row.entries if entry.note)]))


def _about(sheet: Sheet) -> Iterator[str]:
    if sheet.scale:
        yield f"Reduced setting {sheet.scale}: not a reproduction. {sheet.scale_title}"
    if sheet.source:
        seeds = f" Seeds: {listed(sheet.seeds)}." if sheet.seeds else ""
        yield f"Source: {sheet.source}.{seeds}"
    if sheet.overrides:
        yield f"Every run with {', '.join(sheet.overrides)}."
    if sheet.tolerance is not None and any(entry.mark in ("within", "off") for entry in sheet.entries):
        yield f"within: at most {sheet.tolerance:g} from the printed number; off: further away."


def _wide(row: SheetRow, digits: int) -> tuple[str, ...]:
    (entry,) = row.entries
    return row.label, _against(entry, digits), *_ours(entry, digits), _count(entry), entry.mark


def _stacked(row: SheetRow, sheet: Sheet, against: str) -> list[tuple[str, ...]]:
    both = [(entry, column.digits) for entry, column in zip(row.entries, sheet.columns, strict=True)]
    ours, clean, difference = zip(*(_ours(*one) for one in both), strict=True)
    cells = {
        against: [_against(*one) for one in both],
        "ours": ours,
        "clean": clean,
        "difference": difference,
    }
    filled = [what for what, texts in cells.items() if any(text not in ("", _NONE) for text in texts)]
    if not filled or any(entry.wanted for entry in row.entries):
        filled = [what for what in cells if what in filled or what == "ours"]
    is_run, lines = sheet.kind == "runs", []
    for what in filled:
        is_first, is_last = what == filled[0], what == filled[-1]
        lines.append(
            (
                row.label if is_first else "",
                *(row.told[name] if is_first else "" for name in sheet.told),
                "" if is_run and what != "clean" else what,
                *(text or _NONE for text in cells[what]),
                _count(*row.entries) if what == "ours" else "",
                _marks(row.entries) if is_last and not is_run else "",
            )
        )
    return lines


def _against(entry: Entry, digits: int) -> str:
    """What ours is read against: what is printed; in a reduced setting the score before training."""
    shown = entry.before if entry.scale else entry.paper
    if isinstance(shown, str):
        return shown
    return ("" if entry.scale else _NONE) if shown is None else number(shown, digits)


def _ours(entry: Entry, digits: int) -> tuple[str, str, str]:
    """What was measured, the same on clean rows, and the difference from the paper."""
    if entry.mark in ("quoted", "in words", ""):
        return "", "", ""
    if entry.mean is None:
        return _NONE, "", ""
    spread = "" if entry.sd is None else f" ± {number(entry.sd, digits)}"
    return (
        number(entry.mean, digits) + spread,
        "" if entry.clean is None else number(entry.clean, digits),
        "" if entry.difference is None else number(entry.difference, digits, "+"),
    )


def _count(*entries: Entry) -> str:
    """Seeds behind the means; from the fewest to the most where they differ."""
    found = sorted({entry.n for entry in entries if entry.n})
    return "-".join(map(str, dict.fromkeys((found[0], found[-1])))) if found else ""


def _marks(entries: Sequence[Entry]) -> str:
    """The mark that all share, else how many there are of each."""
    found = [entry.mark for entry in entries if entry.mark in _COUNTED]
    if len(set(found)) == 1:
        return found[0]
    return ", ".join(f"{found.count(mark)} {mark}" for mark in _COUNTED if mark in found)


# Every character with a meaning in Markdown or HTML, and what would turn into a link by itself.
_SPECIAL = re.compile(r"[\\`*<>\[\]|~$&]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|:(?=//)|(?<=www)\.|@")


def markdown(sheet: Sheet) -> str:
    """The title, the table with its columns aligned, notes, and the commands that fill what is missing."""
    layout = laid_out(sheet)
    above, *rest = layout.about or ("",)
    parts = [f"### {markdown_escaped(_title(sheet))}"]
    if above:
        parts.append(f"**{markdown_escaped(above)}**" if sheet.scale else _paragraph(above))
    parts += [_paragraph(text) for text in rest]
    width = len(layout.heading)
    lines = [
        [f"**{markdown_escaped(line[0])}**", *[""] * (width - 1)]
        if len(line) == 1
        else [markdown_escaped(cell) for cell in line]
        for line in layout.lines
    ]
    lines = [[markdown_escaped(cell) for cell in layout.heading], *lines]
    widths = [max(3, *(len(line[column]) for line in lines)) for column in range(width)]
    rule = [
        "-" * size if column in layout.words else "-" * (size - 1) + ":" for column, size in enumerate(widths)
    ]
    lines = [
        [
            cell.ljust(size) if column in layout.words else cell.rjust(size)
            for column, (cell, size) in enumerate(zip(line, widths, strict=True))
        ]
        for line in lines
    ]
    parts.append("\n".join(f"| {' | '.join(line)} |" for line in [lines[0], rule, *lines[1:]]))
    if layout.notes:
        numbered = enumerate(layout.notes, start=1)
        parts.append("\n".join(f"{place}. {_paragraph(text)}" for place, text in numbered))
    parts += [_paragraph(text) for text in layout.remarks]
    if layout.commands:
        commands = "\n".join(_flat(command) for command in layout.commands)
        parts.append(f"To fill what is missing:\n\n```\n{commands}\n```")
    return "\n\n".join(parts) + "\n"


def _title(sheet: Sheet) -> str:
    return f"{sheet.name}: {sheet.title}" if sheet.name else sheet.title


def _flat(text: str) -> str:
    return " ".join(clean(text).split())


def markdown_escaped(text: str) -> str:
    """The text on one line, escaped so that Markdown shows it unchanged."""
    return _SPECIAL.sub(r"\\\g<0>", _flat(text))


def _paragraph(text: str) -> str:
    """Like `markdown_escaped`, for a text that starts a line: it starts no heading and no list."""
    return re.sub(r"^(\d*)([#=+.)-])", r"\1\\\2", markdown_escaped(text))


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
    lines = []
    for line in layout.lines:
        label, *cells = line
        if cells:
            lines.append(" & ".join(map(_cell, line)) + r" \\")
        else:
            lines += [r"\midrule"] if lines else []  # the heading has one below it
            lines.append(rf"\multicolumn{{{len(columns)}}}{{l}}{{\textbf{{{latex_escaped(label)}}}}} \\")
    caption = " ".join(latex_escaped(text) for text in (f"{_title(sheet)}.", *layout.about))
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{caption}}}",
            r"\footnotesize",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            " & ".join(map(_cell, layout.heading)) + r" \\",
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
    return "".join(map(_letter, _flat(text)))


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
    return [*notes, *remarks, *(f"% {_flat(command)}" for command in layout.commands)]


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


def to_json(sheets: Sequence[Sheet]) -> str:
    """One object with a schema number and all sheets."""
    data = {"schema": 1, "tables": [asdict(sheet) for sheet in sheets]}
    return to_printed_json(data) + "\n"


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
