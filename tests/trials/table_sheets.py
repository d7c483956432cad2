"""Small sheets to render."""

from dataclasses import replace

from embedrun.table.sheet import Entry, Origin, Sheet, SheetColumn, SheetRow

HOSTILE = (
    "a|b",
    r"\input{x} % $x$ #1 ~ ^ & _{}",
    "=1+2",
    "'quoted",
    "<script>alert(1)</script> & [link](http://example.org) www.example.org `code` *bold* _it_",
    "\x1b[2J\u202eesrever\x07",
    "é ß 中文 🙂",
    "two\nlines",
    "- list",
    "1. list",
    "# heading",
    "",
)


def entry(row: str = "first", column: str = "A", **changed: object) -> Entry:
    """One entry: 80.00 printed, 79.50 and 0.25 measured over 3 seeds."""
    base = Entry("angle/small", "", row, column, 80.0, 79.5, 0.25, 3, 3, None, -0.5, "within", "")
    return replace(base, **changed)  # type: ignore[arg-type]


def missing(row: str = "first", column: str = "A", **changed: object) -> Entry:
    """One entry that has not run."""
    empty = {"mean": None, "sd": None, "n": 0, "difference": None, "mark": "not run"}
    return entry(row, column, **{**empty, **changed})


def row(label: str, *entries: Entry, **changed: object) -> SheetRow:
    """One row of kind train."""
    base = SheetRow(label, label, "", "train", entries)
    return replace(base, **changed)  # type: ignore[arg-type]


def sheet(*rows: SheetRow, headings: tuple[str, ...] = ("A",), **changed: object) -> Sheet:
    """One table of a paper."""
    base = Sheet(
        name="angle/small",
        title="A table",
        source="a paper, Table 1",
        kind="table",
        columns=tuple(SheetColumn(heading, 2) for heading in headings),
        rows=rows,
        seeds=(1, 2, 3),
        tolerance=0.5,
    )
    return replace(base, **changed)  # type: ignore[arg-type]


def hostile() -> Sheet:
    """Every hostile text in every place that holds text."""
    rows = [
        row(
            text,
            entry(text, note=text),
            entry(text, "B", paper=text, mean=None, sd=None, difference=None, mark="in words"),
            id=text,
            group=text,
            notes=(text,),
            origins=(Origin((text,), 1, text),),
        )
        for text in HOSTILE
    ]
    return sheet(
        *rows,
        headings=("A", HOSTILE[1]),
        title=HOSTILE[1],
        source=HOSTILE[4],
        notes=HOSTILE,
        commands=HOSTILE,
    )
