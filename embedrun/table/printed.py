r"""The numbers of a paper's LaTeX held against a table: its `tabular`, and numbers in prose.

The tabular is the one with the most labels of the table's rows and columns. A label counts without TeX's
commands; where a paper has another one, `labels` of the table's file says which row or column it is. A
number agrees if ours, rounded to its digits, is the same. A number in prose is marked by the author:
`\embedrun{row}{column}{86.90}`, with `\newcommand{\embedrun}[3]{#3}` in the preamble.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from embedrun.config.check import nearest
from embedrun.table.sheet import Entry, Sheet

_COMMENT = re.compile(r"(?<!\\)%.*")
_TABULAR = re.compile(r"\\begin\{(tabular[*x]?)\}(.*?)\\end\{\1\}", re.DOTALL)
_RULE = re.compile(r"\\(top|mid|bottom|h|c(mid)?)(rule|line)\b(\[[^]]*\])?(\([^)]*\))?(\{[\d-]*\})?")
_SPAN = re.compile(r"\\multicolumn\{(\d+)\}\{[^}]*\}\s*")
_DAGGER = re.compile(r"\\(dagger|dag|textdagger)\b|†")
_MARKS = {
    "bold type": re.compile(r"\\(textbf|mathbf|bfseries|bf|boldsymbol)\b"),
    "a dagger": _DAGGER,
}
_OURS = ("", "n", "notes", "what", "clean")  # columns that `embedrun table --format latex` adds
_NUMBER = re.compile(r"[-+−]?\d+(?:\.\d+)?")
_SPREAD = re.compile(r"(?:\\pm|\\textpm|±)[\s{}$]*(\d+(?:\.\d+)?)")
_PROSE = re.compile(r"\\embedrun\{((?:[^{}]|\{[^{}]*\})*)\}\s*\{((?:[^{}]|\{[^{}]*\})*)\}\s*\{([^{}]*)\}")
_COMMAND = re.compile(r"\\[A-Za-z]+\*?|\\(?=[%&#_$ -])|[{}$]")


@dataclass(frozen=True)
class Checked:
    """How many numbers agree, and what does not, in sentences that name the line."""

    agree: int = 0
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Cell:
    text: str  # as in the source
    line: int

    @property
    def label(self) -> str:
        """What a reader sees, without marks."""
        text = _DAGGER.sub("", _SPAN.sub("", self.text)).replace("~", " ")
        return " ".join(_COMMAND.sub("", text).split())


def check(tex: str, sheet: Sheet, labels: Mapping[str, str | None]) -> Checked:
    """Hold a LaTeX source against a sheet with marks.

    `labels` has rows and columns of the sheet by the paper's own labels, None for one that is not ours.
    """
    source = _COMMENT.sub("", tex)
    rows = {row.id: row.id for row in sheet.rows} | {row.label: row.id for row in reversed(sheet.rows)}
    columns = {column.heading: column.heading for column in sheet.columns}
    known = _Known(rows, columns, labels, {(one.row, one.column): one for one in sheet.entries})
    tables = [_lines(source, match) for match in _TABULAR.finditer(source)]
    best = max(tables, key=known.matching, default=[])
    faults: list[str] = []
    agree = known.prose(source, faults)
    if known.matching(best):
        agree += known.compare(best, faults)
    elif tables or not _PROSE.search(source):
        faults.append(f"no tabular has a row and a column of {sheet.name}; its `labels` say what is what")
    return Checked(agree, faults)


def _lines(source: str, match: re.Match[str]) -> list[list[_Cell]]:
    """The cells of a tabular, line by line; one that spans several columns is followed by empty ones."""
    lines, place = [], match.start(2)
    for text in re.split(r"\\\\(?:\[[^]]*\])?", match[2]):
        cells: list[_Cell] = []
        start = place
        for part in re.split(r"(?<!\\)&", text):
            bare = _RULE.sub("", part)
            cell = _Cell(bare.strip(), source.count("\n", 0, start + part.find(bare.strip())) + 1)
            span = _SPAN.match(cell.text)
            cells += [cell, *[_Cell("", cell.line)] * ((int(span[1]) if span else 1) - 1)]
            start += len(part) + 1
        if any(cell.text for cell in cells):
            lines.append(cells)
        place = source.index(text, place) + len(text) + 2
    return lines


@dataclass(frozen=True)
class _Known:
    """The labels of a sheet, and its entries by row and column."""

    rows: Mapping[str, str]
    columns: Mapping[str, str]
    labels: Mapping[str, str | None]
    entries: Mapping[tuple[str, str], Entry]

    def row(self, label: str) -> str | None:
        return self.rows.get(self.labels.get(label, label) or "")

    def column(self, label: str) -> str | None:
        return self.columns.get(self.labels.get(label, label) or "")

    def matching(self, lines: Sequence[Sequence[_Cell]]) -> int:
        """How many rows a tabular has of ours; 0 if it has none of our columns."""
        rows = sum(self.row(line[0].label) is not None for line in lines)
        return rows * any(self.column(cell.label) is not None for line in lines for cell in line)

    def compare(self, lines: Sequence[Sequence[_Cell]], faults: list[str]) -> int:
        """Hold a tabular against the entries; how many numbers agree."""
        head = max(lines, key=lambda line: sum(self.column(cell.label) is not None for cell in line))
        below = [line for line in lines[lines.index(head) + 1 :] if sum(bool(cell.text) for cell in line) > 1]
        faults += self._unmatched(head, [line[0] for line in below])
        marks = {
            mark: any(form.search(cell.text) for line in below for cell in line[1:])
            for mark, form in _MARKS.items()
        }
        agree = 0
        for line in below:
            for top, cell in zip(head, line, strict=False):
                row, heading = self.row(line[0].label), self.column(top.label)
                if row is not None and heading is not None:
                    wrong = list(_unlike(cell, self.entries[row, heading], marks))
                    faults += [f"line {cell.line}: {row}, {heading}: {one}" for one in wrong]
                    agree += not wrong and _NUMBER.search(cell.text) is not None
        return agree

    def _unmatched(self, head: Sequence[_Cell], first: Sequence[_Cell]) -> Iterator[str]:
        """Labels that are not ours, and ours that the paper lacks."""
        measured = {row: None for (row, _), entry in self.entries.items() if entry.mean is not None}
        for what, cells, own, known in (
            ("column", head[1:], self.column, self.columns),
            ("row", first, self.row, measured),
        ):
            for cell in cells:
                label = cell.label
                if own(label) is None and label not in (*_OURS, *self.labels):
                    yield f"line {cell.line}: no {what} {label!r}{nearest(label, known)}"
            there = {own(cell.label) for cell in cells}
            yield from (
                f"line {head[0].line}: no {what} {one!r} is printed" for one in known if one not in there
            )

    def prose(self, source: str, faults: list[str]) -> int:
        """Hold the marked numbers in prose against the entries; how many agree."""
        agree = 0
        for match in _PROSE.finditer(source):
            place = source.count("\n", 0, match.start()) + 1
            row, heading = _Cell(match[1], place).label, _Cell(match[2], place).label
            entry = self.entries.get((self.row(row) or "", self.column(heading) or ""))
            if entry is None:
                faults.append(f"line {place}: the table has no row {row!r} with a column {heading!r}")
                continue
            wrong = list(_unlike(_Cell(match[3], place), entry, {}))
            faults += [f"line {place}: {row}, {heading}: {one}" for one in wrong]
            agree += not wrong
        return agree


def _unlike(cell: _Cell, entry: Entry, marks: Mapping[str, bool]) -> Iterator[str]:
    """What is not as in the entry; `marks` says which of them the paper uses at all."""
    number = _NUMBER.search(_SPREAD.sub("", _SPAN.sub("", cell.text)))
    if number is None or entry.mean is None:
        if number is not None:
            yield f"{number[0]} is printed, nothing is measured"
        elif entry.mean is not None:
            yield f"no number is printed, {entry.mean:.2f} is measured"
        return
    yield from _rounded(number[0].replace("−", "-"), entry.mean, "")
    if spread := _SPREAD.search(cell.text):
        if entry.sd is None:
            yield f"± {spread[1]} is printed, there is one seed"
        else:
            yield from _rounded(spread[1], entry.sd, "± ")
    for mark, is_so in (("bold type", entry.best), ("a dagger", entry.better)):
        if marks.get(mark) and is_so != (_MARKS[mark].search(cell.text) is not None):
            yield f"{number[0]} is to have {mark}" if is_so else f"{number[0]} is to be without {mark}"


def _rounded(printed: str, value: float, sign: str) -> Iterator[str]:
    digits = len(printed.partition(".")[2])
    own = f"{value:z.{digits}f}"
    if printed.lstrip("+") != own:
        yield f"{sign}{printed} is printed, {sign}{own} is measured"
