"""A sheet laid out as lines of text cells, for Markdown and LaTeX alike."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from embedrun.console import before_training
from embedrun.evaluation.seeds import listed
from embedrun.table.sheet import Entry, Sheet, SheetRow

MISSING = "-"
# The marks in the order in which a row with several of them names them.
_COUNTED = (
    "within", "off", "reduced", "measured", "not compared", "not run", "not measured", "not reproducible",
    "quoted",
)  # fmt: skip


@dataclass(frozen=True)
class Line:
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
    lines: tuple[Line, ...]
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
            line if line.is_group else Line(tuple(line.cells[place] for place in kept)) for line in lines
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


def _grouped(sheet: Sheet) -> Iterator[tuple[SheetRow, Line | None]]:
    """The rows, each with the heading that stands above it where it is the first of its group."""
    group = ""
    for row in sheet.rows:
        yield row, Line((row.group,), True) if row.group and row.group != group else None
        group = row.group


def _wide(sheet: Sheet, notes: _Notes) -> tuple[list[str], list[Line]]:
    digits = sheet.columns[0].digits
    lines = []
    for row, above in _grouped(sheet):
        lines += [] if above is None else [above]
        (entry,) = row.entries
        cells = [row.label, _against(entry, digits), *_ours(entry, digits), _count(entry), entry.mark]
        lines.append(Line((*cells, notes.of(row))))
    against = before_training() if sheet.scale else "paper"
    return ["row", against, "ours", "clean", "difference", "n", "mark", "notes"], lines


def _stacked(sheet: Sheet, notes: _Notes) -> tuple[list[str], list[Line]]:
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
            filled = [cell or MISSING for cell in cells]
            what = what if sheet.kind != "runs" or what == "clean" else ""
            marks = "" if sheet.kind == "runs" else _marks(row.entries)
            tail = (marks, notes.of(row)) if last else ("", "")
            told = ["" if place else row.told[name] for name in sheet.told]
            lines.append(Line((label, *told, what, *filled, count if what in ("ours", "") else "", *tail)))
    headings = [column.heading for column in sheet.columns]
    return [sheet_label(sheet), *sheet.told, "what", *headings, "n", "mark", "notes"], lines


def _says_anything(cells: Sequence[str]) -> bool:
    return any(cell not in ("", MISSING) for cell in cells)


def _against(entry: Entry, digits: int) -> str:
    """What ours is read against: what is printed; in a reduced setting the score before training."""
    shown = entry.before if entry.scale else entry.paper
    if isinstance(shown, str):
        return shown
    return ("" if entry.scale else MISSING) if shown is None else number(shown, digits)


def _ours(entry: Entry, digits: int) -> tuple[str, str, str]:
    """What was measured, the same on clean rows, and the difference from the paper."""
    if entry.mark in ("quoted", "in words", ""):
        return "", "", ""
    if entry.mean is None:
        return MISSING, "", ""
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
