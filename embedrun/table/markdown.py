"""A sheet as Markdown that also reads well in a terminal."""

import re
from collections.abc import Sequence

from embedrun.console import clean
from embedrun.table.layout import laid_out
from embedrun.table.sheet import Sheet

# Every character that begins something in Markdown or HTML, and what would turn into a link by itself.
_SPECIAL = re.compile(r"[\\`*<>\[\]|~$&]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|:(?=//)|(?<=www)\.|@")


def markdown(sheet: Sheet) -> str:
    """The title, the table with its columns aligned, notes, and the commands that fill what is missing."""
    layout = laid_out(sheet)
    above, *rest = layout.about or ("",)
    name = f"{sheet.name}: " if sheet.name else ""
    parts = [f"### {escaped(name + sheet.title)}"]
    if above:
        parts.append(f"**{escaped(above)}**" if sheet.scale else _paragraph(above))
    parts += [_paragraph(text) for text in rest]
    rows = [
        [f"**{escaped(line.cells[0])}**", *[""] * (len(layout.heading) - 1)]
        if line.is_group
        else [escaped(cell) for cell in line.cells]
        for line in layout.lines
    ]
    parts.append(_table([escaped(cell) for cell in layout.heading], rows, layout.words))
    if layout.notes:
        numbered = enumerate(layout.notes, start=1)
        parts.append("\n".join(f"{place}. {_paragraph(text)}" for place, text in numbered))
    parts += [_paragraph(text) for text in layout.remarks]
    if layout.commands:
        commands = "\n".join(" ".join(clean(command).split()) for command in layout.commands)
        fence = "`" * (3 + max((len(run) for run in re.findall("`{3,}", commands)), default=0))
        parts.append(f"To fill what is missing:\n\n{fence}\n{commands}\n{fence}")
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
    """The text on one line, so that Markdown shows it as it is."""
    flat = " ".join(clean(text).split())
    return _SPECIAL.sub(lambda found: "\\" + found[0], flat)


def _paragraph(text: str) -> str:
    """Like `escaped`, of a text that begins a line: it begins no heading and no list."""
    return re.sub(r"^([#=+-]|\d+(?=[.)]))", lambda found: _unlisted(found[0]), escaped(text))


def _unlisted(start: str) -> str:
    # A digit has no backslash; its point or bracket, which follows, has.
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
