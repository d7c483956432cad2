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
class _Line:
    """One line, with a cell for each column; the heading of a group of rows has a single cell."""

    cells: tuple[str, ...]
    is_group: bool = False


@dataclass(frozen=True)
class Layout:
    """What is printed of a sheet: sentences above the table, and below it numbered notes and remarks.

    The last column refers to the notes; the remarks are on the whole table. `words` are the columns of text,
    which are aligned left.
    """

    heading: tuple[str, ...]
    lines: tuple[_Line, ...]
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
    notes = _Notes(sheet)
    wide = len(sheet.columns) == 1 and sheet.kind != "runs"
    heading, lines = _wide(sheet, notes) if wide else _stacked(sheet, notes)
    cells = [line.cells for line in lines if not line.is_group]
    # Empty columns are left out, but not that of the labels.
    kept = [place for place in range(len(heading)) if not place or any(own[place] for own in cells)]
    words = {"", "what", "mark", "notes", sheet_label(sheet), *sheet.told}
    return Layout(
        heading=tuple(heading[place] for place in kept),
        lines=tuple(
            line if line.is_group else _Line(tuple(line.cells[place] for place in kept)) for line in lines
        ),
        words=tuple(new for new, place in enumerate(kept) if not place or heading[place] in words),
        about=tuple(_about(sheet)),
        notes=tuple(notes.texts),
        remarks=sheet.notes,
        commands=sheet.commands,
    )


def sheet_label(sheet: Sheet) -> str:
    """The heading of the column of labels."""
    return "run" if sheet.kind == "runs" else "row"


def number(value: float, digits: int, sign: str = "") -> str:
    """A number as it is printed; never `-0.00`."""
    return f"{value:{sign}z.{digits}f}"


class _Notes:
    """Numbers the notes in the order in which rows have them; equal ones are one."""

    def __init__(self, sheet: Sheet) -> None:
        self.texts = list(dict.fromkeys(text for row in sheet.rows for text in _texts(row)))

    def of(self, row: SheetRow) -> str:
        return ", ".join(str(self.texts.index(text) + 1) for text in _texts(row))


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


def _grouped(sheet: Sheet) -> Iterator[tuple[SheetRow, _Line | None]]:
    """The rows, each with the heading that stands above it where it is the first of its group."""
    group = ""
    for row in sheet.rows:
        yield row, _Line((row.group,), True) if row.group and row.group != group else None
        group = row.group


def _wide(sheet: Sheet, notes: _Notes) -> tuple[list[str], list[_Line]]:
    digits = sheet.columns[0].digits
    lines = []
    for row, above in _grouped(sheet):
        lines += [] if above is None else [above]
        (entry,) = row.entries
        cells = [row.label, _against(entry, digits), *_ours(entry, digits), _count(entry), entry.mark]
        lines.append(_Line((*cells, notes.of(row))))
    against = before_training() if sheet.scale else "paper"
    return ["row", against, "ours", "clean", "difference", "n", "mark", "notes"], lines


def _stacked(sheet: Sheet, notes: _Notes) -> tuple[list[str], list[_Line]]:
    digits = [column.digits for column in sheet.columns]
    lines = []
    for row, above in _grouped(sheet):
        lines += [] if above is None else [above]
        against = [_against(*both) for both in zip(row.entries, digits, strict=True)]
        ours, clean, difference = zip(
            *(_ours(*both) for both in zip(row.entries, digits, strict=True)), strict=True
        )
        own = {before_training() if sheet.scale else "paper": against, "ours": ours}
        own |= {"clean": clean, "difference": difference}
        shown = {what: cells for what, cells in own.items() if _says_anything(cells)}
        if not shown or any(entry.wanted for entry in row.entries):
            shown = {what: cells for what, cells in own.items() if what in shown or what == "ours"}
        count = _count(*row.entries)
        for place, (what, cells) in enumerate(shown.items()):
            label = "" if place else row.label
            last = what == list(shown)[-1]
            filled = [cell or _NONE for cell in cells]
            what = what if sheet.kind != "runs" or what == "clean" else ""
            marks = "" if sheet.kind == "runs" else _marks(row.entries)
            tail = (marks, notes.of(row)) if last else ("", "")
            told = ["" if place else row.told[name] for name in sheet.told]
            lines.append(_Line((label, *told, what, *filled, count if what in ("ours", "") else "", *tail)))
    headings = [column.heading for column in sheet.columns]
    return [sheet_label(sheet), *sheet.told, "what", *headings, "n", "mark", "notes"], lines


def _says_anything(cells: Sequence[str]) -> bool:
    return any(cell not in ("", _NONE) for cell in cells)


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
