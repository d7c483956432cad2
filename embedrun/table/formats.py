"""A table as Markdown, LaTeX, HTML, CSV and JSON."""

import csv
import html
import io
import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby

from embedrun.console import before_training, clean
from embedrun.evaluation.seeds import listed
from embedrun.files import to_printed_json
from embedrun.table.sheet import Entry, Sheet, SheetRow

_NONE = "-"
DAGGER = "†"


class Bold(str):
    """A cell that is shown in bold: the best of its column."""

    __slots__ = ()


# The marks in the order in which a row with several of them names them.
_COUNTED = (
    "within", "off", "reduced", "measured", "not compared", "not run", "not measured", "not reproducible",
    "quoted",
)  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """The lines of a sheet, and the notes that are numbered below them.

    A line has a cell for each column; the heading of a group of rows has a single cell. The last column
    refers to the notes. `words` are the columns that are aligned left.
    """

    heading: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    words: tuple[int, ...]
    notes: tuple[str, ...]


def laid_out(sheet: Sheet) -> Layout:
    """One line a row where the sheet has one column, else a line each for paper, ours and difference."""
    # In a reduced setting nothing of the paper is shown, and some rows have nothing else.
    rows = [row for row in sheet.rows if not sheet.scale or any(entry.mark for entry in row.entries)]
    notes = list(dict.fromkeys(text for row in rows for text in _texts(row)))  # equal ones are one
    columns = [column.heading for column in sheet.columns]
    if len(columns) == 1 and sheet.kind != "runs":
        heading, lines_of = ["row", *_kinds(sheet), "n", "mark", "notes"], _wide
    else:
        label = "run" if sheet.kind == "runs" else "row"
        heading, lines_of = [label, *sheet.told, "what", *columns, "n", "mark", "notes"], _stacked
    lines: list[list[str]] = []
    for group, members in groupby(rows, key=lambda row: row.group):
        if group:
            lines.append([group])
        for row in members:
            lines += lines_of(row, sheet)
            lines[-1][-1] = ", ".join(str(notes.index(text) + 1) for text in _texts(row))
    if all(entry.paper is None for entry in sheet.entries) and not sheet.scale and sheet.kind != "runs":
        # Nothing is printed that ours is to be told from.
        usual = {"measured"} | ({_NONE} if lines_of is _wide else set())
        usual |= set() if any("clean" in line for line in lines) else {"ours"}
        heading = [columns[0] if lines_of is _wide and name == "ours" else name for name in heading]
        lines = [[line[0], *("" if cell in usual else cell for cell in line[1:])] for line in lines]
    return _without_empty(heading, lines, {heading[0], "what", "mark", "notes", *sheet.told}, notes)


def _without_empty(
    heading: Sequence[str], lines: Sequence[Sequence[str]], words: Collection[str], notes: Sequence[str]
) -> Layout:
    """The layout without empty columns, but with that of the labels; `words` are headings."""
    full = [line for line in lines if len(line) > 1]
    kept = [0, *(place for place in range(1, len(heading)) if any(line[place] for line in full))]
    return Layout(
        heading=tuple(heading[place] for place in kept),
        lines=tuple(tuple(line[place] for place in kept if place < len(line)) for line in lines),
        words=tuple(new for new, place in enumerate(kept) if heading[place] in words),
        notes=tuple(notes),
    )


def _kinds(sheet: Sheet) -> tuple[str, str, str, str]:
    """The names of the numbers of an entry: what ours is read against, and those of `_ours`."""
    if sheet.kind == "runs":  # nothing is there to tell ours from
        return "paper", "", "clean", "difference"
    return before_training() if sheet.scale else "paper", "ours", "clean", "difference"


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


def _wide(row: SheetRow, sheet: Sheet) -> list[list[str]]:
    (entry,) = row.entries
    return [[row.label, *_numbers(entry, sheet.columns[0].digits), _count(entry), entry.mark, ""]]


def _stacked(row: SheetRow, sheet: Sheet) -> list[list[str]]:
    """A line for each kind of numbers that the row has, of ours also where they are missing."""
    digits, kinds = [column.digits for column in sheet.columns], _kinds(sheet)
    columns = map(_numbers, row.entries, digits)
    cells = dict(zip(kinds, zip(*columns, strict=True), strict=True))
    filled = {kind for kind, texts in cells.items() if {*texts} - {"", _NONE}}
    if not filled or any(entry.wanted for entry in row.entries):
        filled.add(kinds[1])
    lines = {
        kind: ["", *[""] * len(sheet.told), kind, *(text or _NONE for text in cells[kind]), "", "", ""]
        for kind in kinds
        if kind in filled
    }
    ordered = list(lines.values())
    ordered[0][: 1 + len(sheet.told)] = row.label, *(row.told[name] for name in sheet.told)
    if kinds[1] in lines:
        lines[kinds[1]][-3] = _count(*row.entries)
    if sheet.kind != "runs":
        ordered[-1][-2] = _marks(row.entries)
    return ordered


def _numbers(entry: Entry, digits: int) -> tuple[str, str, str, str]:
    return _against(entry, digits), *_ours(entry, digits)


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
    ours = number(entry.mean, digits) + spread + (DAGGER if entry.better else "")
    return (
        Bold(ours) if entry.best else ours,
        "" if entry.clean is None else number(entry.clean, digits),
        "" if entry.difference is None else number(entry.difference, digits, "+"),
    )


def _count(*entries: Entry) -> str:
    """Seeds behind the means; from the fewest to the most where they differ."""
    counts = sorted({entry.n for entry in entries if entry.n})
    return "-".join(map(str, dict.fromkeys((counts[0], counts[-1])))) if counts else ""


def _marks(entries: Sequence[Entry]) -> str:
    """The mark that all share, else how many there are of each."""
    marks = [entry.mark for entry in entries if entry.mark in _COUNTED]
    if len(set(marks)) == 1:
        return marks[0]
    return ", ".join(f"{marks.count(mark)} {mark}" for mark in _COUNTED if mark in marks)


# Every character with a meaning in Markdown or HTML, and what would turn into a link by itself.
_SPECIAL = re.compile(r"[\\`*<>\[\]|~$&]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|:(?=//)|(?<=www)\.|@")


def markdown(sheet: Sheet) -> str:
    """The title, the table with its columns aligned, notes, and the commands that fill what is missing."""
    layout = laid_out(sheet)
    about = [_paragraph(text) for text in _about(sheet)]
    if sheet.scale:
        about[0] = f"**{about[0]}**"
    rows = [_markdown_cells(line, len(layout.heading)) for line in (layout.heading, *layout.lines)]
    notes = [f"{place}. {_paragraph(text)}" for place, text in enumerate(layout.notes, start=1)]
    remarks = [_paragraph(text) for text in sheet.notes]
    parts = [f"### {markdown_escaped(_title(sheet))}", *about, _aligned(rows, layout.words)]
    parts += ["\n".join(notes), *remarks]
    if sheet.commands:
        commands = "\n".join(map(_flat, sheet.commands))
        parts.append(f"To fill what is missing:\n\n```\n{commands}\n```")
    return "\n\n".join(filter(None, parts)) + "\n"


def _markdown_cells(line: Sequence[str], width: int) -> list[str]:
    cells = [
        f"**{markdown_escaped(cell)}**" if isinstance(cell, Bold) else markdown_escaped(cell) for cell in line
    ]
    return cells if len(cells) > 1 else [f"**{cells[0]}**", *[""] * (width - 1)]


def _aligned(rows: Sequence[Sequence[str]], words: Collection[int]) -> str:
    """The lines of a Markdown table, columns of `words` to the left; the first row is the heading."""
    padded = []
    for place, column in enumerate(zip(*rows, strict=True)):
        size = max(3, *map(len, column))
        pad, end = (str.ljust, "") if place in words else (str.rjust, ":")
        heading, *cells = (pad(cell, size) for cell in column)
        padded.append([heading, pad(end, size, "-"), *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in zip(*padded, strict=True))


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
    "°": r"$^\circ$", DAGGER: r"$^\dagger$", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
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
    lines = [_latex_line(line, len(columns)) for line in layout.lines]
    table = "\n".join([_latex_line(layout.heading, len(columns)), r"\midrule", *lines])
    caption = " ".join(latex_escaped(text) for text in (f"{_title(sheet)}.", *_about(sheet)))
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{caption}}}",
            r"\footnotesize",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            table.replace("\\midrule\n\\midrule", r"\midrule"),  # a group may come first
            r"\bottomrule",
            r"\end{tabular}",
            *_below(layout.notes, sheet),
            r"\end{table}",
            "",
        ]
    )


def _latex_line(line: Sequence[str], width: int) -> str:
    if len(line) > 1:
        return " & ".join(map(_cell, line)) + r" \\"
    return "\\midrule\n" rf"\multicolumn{{{width}}}{{l}}{{\textbf{{{latex_escaped(line[0])}}}}} \\"


def latex_escaped(text: str) -> str:
    """The text on one line, escaped so that LaTeX prints it unchanged."""
    return "".join(map(_letter, _flat(text)))


def _letter(letter: str) -> str:
    if letter in _COMMANDS:
        return _COMMANDS[letter]
    return letter if _LETTERS.fullmatch(letter) else f"{{[}}U+{ord(letter):04X}{{]}}"


def _cell(text: str) -> str:
    shown = f"${text}$" if _NUMBER.fullmatch(text) else latex_escaped(text)
    return rf"\textbf{{{shown}}}" if isinstance(text, Bold) else shown


def _below(numbered: Sequence[str], sheet: Sheet) -> list[str]:
    notes = [f"{place}. {latex_escaped(text)}" for place, text in enumerate(numbered, start=1)]
    texts = [*notes, *map(latex_escaped, sheet.notes)]
    commands = [f"% {_flat(command)}" for command in sheet.commands]
    return [*(rf"\par\raggedright {text}" for text in texts), *commands]


def to_html(sheet: Sheet) -> str:
    """A `table` element with its caption, and the notes below; no style and no script."""
    layout = laid_out(sheet)
    lines = [_html_line(line, layout, "td") for line in layout.lines]
    notes = [f"<li>{html.escape(_flat(text))}</li>" for text in layout.notes]
    caption = " ".join(_flat(text) for text in (f"{_title(sheet)}.", *_about(sheet)))
    return "\n".join([
        "<table>",
        f"<caption>{html.escape(caption)}</caption>",
        f"<thead>{_html_line(layout.heading, layout, 'th')}</thead>",
        "<tbody>",
        *lines,
        "</tbody>",
        "</table>",
        *(["<ol>", *notes, "</ol>"] if notes else []),
        *(f"<p>{html.escape(_flat(text))}</p>" for text in sheet.notes),
        "",
    ])  # fmt: skip


def _html_line(line: Sequence[str], layout: Layout, tag: str) -> str:
    if len(line) == 1:
        return f'<tr><th colspan="{len(layout.heading)}">{html.escape(_flat(line[0]))}</th></tr>'
    cells = []
    for place, text in enumerate(line):
        shown = html.escape(_flat(text)).replace(DAGGER, f"<sup>{DAGGER}</sup>")
        align = "" if place in layout.words else ' align="right"'
        cells.append(f"<{tag}{align}>{f'<b>{shown}</b>' if isinstance(text, Bold) else shown}</{tag}>")
    return f"<tr>{''.join(cells)}</tr>"


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
    "difference": "difference", "mark": "mark", "note": "note", "ours_before": "before", "best": "best",
    "better": "better",
}  # fmt: skip


def to_csv(sheets: Iterable[Sheet]) -> str:
    """The entries below a header line; behind them what tells the runs of a row from others."""
    rows = [row for sheet in sheets for row in sheet.rows]
    more = dict.fromkeys(name for row in rows for name in row.told)
    lines: list[list[object]] = [[*_FIELDS, *more]]
    for row in rows:
        words = [row.told.get(name) for name in more]
        lines += [[*(getattr(entry, name) for name in _FIELDS.values()), *words] for entry in row.entries]
    return csv_text(lines)


def csv_text(lines: Iterable[Iterable[object]]) -> str:
    """The lines as CSV, each value as a `cell`."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(map(cell, line) for line in lines)
    return out.getvalue()


FORMATS = {
    "md": ".md",
    "csv": ".csv",
    "latex": ".tex",
    "html": ".html",
    "json": ".json",
}  # with the suffix of their files


def render(sheets: Sequence[Sheet], form: str = "md") -> str:
    """All sheets as one text in one of `FORMATS`."""
    if form == "csv":
        return to_csv(sheets)
    if form == "json":
        return to_printed_json({"schema": 1, "tables": [asdict(sheet) for sheet in sheets]}) + "\n"
    return "\n".join(map({"latex": latex, "html": to_html}.get(form, markdown), sheets))
