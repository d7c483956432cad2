"""Finished runs as a table of a paper or of your own has them; or a table of the runs below folders."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from embedrun.commands.command_line import Parser, misplaced, seed_list, with_runs
from embedrun.config.check import nearest
from embedrun.console import clean, say
from embedrun.errors import ConfigError
from embedrun.evaluation.seeds import listed
from embedrun.files import publish, write_atomically
from embedrun.runs.listing import filters
from embedrun.runs.search import meant
from embedrun.table.formats import FORMATS, render
from embedrun.table.preset import FILE, load, load_scale, names

if TYPE_CHECKING:
    from embedrun.table.cells import Cells
    from embedrun.table.sheet import Sheet

_OUTPUTS = Path("outputs")
_EPILOG = """Nothing is trained: `embedrun reproduce TABLE` does that. Without an argument, the tables are
listed. A run fills a cell if its configuration is that of the cell, whatever the run is called. Give the
same overrides as to `reproduce`, such as backbone.name=DIR. A table with --scale is no reproduction. The
curve of a figure is written to outputs/tables.

examples:
  embedrun table angle/table4
  embedrun table raoe/table6 raoe/table8 --format latex -o tables.tex
  embedrun table arccse/figure4 --scale cpu_small backbone.name=DIR
  embedrun table my_table.yaml --marks --format latex -o mine.tex
  embedrun table my_table.yaml --check paper.tex
  embedrun table --new my_table.yaml --from outputs/angle_stsb
  embedrun table outputs/angle_stsb --format csv
  embedrun table outputs/quickstart --label loss --columns seed,training.lr
  embedrun table outputs/quickstart --filter kind=trial"""


def parser() -> Parser:
    """The parser of `embedrun table`."""
    made = Parser(
        "embedrun table",
        usage="%(prog)s [TABLE|DIR ...] [--format md|csv|latex|html|json] [-o FILE]\n"
        "                      [--marks] [--seeds 1,2,3] [--scale NAME] [--columns KEY,KEY]\n"
        "                      [--label KEY,KEY] [--filter KEY=VALUE] [option=value ...]",
        description=__doc__,
        examples=_EPILOG,
    )
    add = made.add_argument
    add(
        "words",
        nargs="*",
        metavar="TABLE|DIR",
        help="a table of a paper, as angle/table4, a file of your own, as my_table.yaml, a folder with runs, "
        "or the name of a run",
    )
    add("--format", choices=list(FORMATS), help="else by the ending of FILE, else md")
    marks = "best of each column in bold; a dagger where a test says that it is better"
    add("--marks", action="store_true", help=marks)
    add("--seeds", metavar="1,2,3", help="of a paper's table: only these seeds; else all that have finished")
    add("--scale", metavar="NAME", help="runs of this reduced setting, of conf/scale")
    columns = "in a list of runs: show these scores, groups (loss) and options; else the scores that all have"
    add("--columns", default="", metavar="KEY,KEY", help=columns)
    label = "in a list of runs: name the rows by these; else by what differs"
    add("--label", default="", metavar="KEY,KEY", help=label)
    where = "in a list of runs: as in embedrun runs; only trainings unless it has kind="
    add("--filter", action="append", default=[], metavar="KEY=VALUE", help=where)
    tex = "hold the numbers of a LaTeX file against the table, cell by cell; exit code 1 if one differs"
    add("--check", type=Path, metavar="PAPER.tex", help=tex)
    new = "write a table of your own there from the finished runs below --from; no file is overwritten"
    add("--new", type=Path, metavar="FILE.yaml", help=new)
    add("--from", type=Path, action="append", dest="sources", default=[], metavar="DIR", help="with --new")
    add(
        "--config-dir", "-cd", type=Path, metavar="DIR", help="a folder with your own YAML, laid out as conf/"
    )
    add("-o", "--output", type=Path, metavar="FILE", help="write there instead")
    add("--outputs", type=Path, default=_OUTPUTS, metavar="DIR", help="where the runs are; else outputs")
    add("--plot-format", choices=("png", "pdf", "svg"), default="png", help="file type of a figure's curve")
    data = "for data statistics: a data folder, or an output of collect or annotate; else EMBEDRUN_DATA"
    add("--data-dir", metavar="DIR", help=data)
    add("--tokenizer", type=Path, metavar="DIR", help="for lengths of texts: a folder with tokenizer.json")
    return made


def arguments_of(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments, with words taken apart into `tables`, `folders` and `overrides`.

    `seeds` is None for every seed with a finished run; `where` has values that runs must have, by column.
    """
    given = parser().read(argv)
    given.tables, given.folders, overrides, problems = _sorted(given.words)
    problems += [*_misused(given, overrides), *misplaced(overrides, "table")]
    if not given.outputs.is_dir() and given.outputs != _OUTPUTS:
        problems.append(f"embedrun table: --outputs: there is no folder {str(given.outputs)!r}")
    given.where, faults = filters(given.filter, "embedrun table")
    problems += faults
    try:
        given.seeds = seed_list(given.seeds, "table")
    except ConfigError as fault:
        problems += fault.problems
    if problems:
        raise ConfigError(problems)
    given.overrides = with_runs(overrides)
    suffix = "" if given.output is None else given.output.suffix.lower()
    given.format = given.format or next((form for form, end in FORMATS.items() if end == suffix), "md")
    return given


def _misused(given: argparse.Namespace, overrides: Sequence[str]) -> list[str]:
    """Problems with what is of tables where folders are given, and the other way round."""
    of_runs, of_tables = (given.columns, given.label, given.filter), (overrides, given.scale, given.seeds)
    of_one = (overrides, given.format, given.output, given.seeds, given.data_dir)
    if bool(given.sources) != (given.new is not None) or (given.new and (given.tables or given.folders)):
        return ["embedrun table: --new FILE.yaml --from DIR go together, and with no other table or folder"]
    if given.new is not None and not str(given.new).endswith(FILE):
        return [f"embedrun table: --new: {str(given.new)!r} is to end in .yaml"]
    if given.check is not None and (len(given.tables) != 1 or given.folders):
        return ["embedrun table: --check PAPER.tex goes with one table"]
    given.marks = given.marks or given.check is not None  # they are held against the paper's
    if given.folders and any(of_tables):
        return ["embedrun table: overrides, --scale and --seeds go with tables, not with folders of runs"]
    if not given.folders and any(of_runs):
        return ["embedrun table: --columns, --label and --filter go with folders of runs, not with tables"]
    if not given.folders and not given.tables and any(of_one):
        options = "overrides, --format, -o, --seeds and --data-dir"
        return [f"embedrun table: {options}: of a table; name one, as angle/table4"]
    return []


def _sorted(words: Sequence[str]) -> tuple[list[str], list[Path], list[str], list[str]]:
    tables, folders, overrides, problems = [], [], [], []
    there = names()
    for word in words:
        if "=" in word and not Path(word).is_dir():
            overrides.append(word)
        elif word in there or word.endswith(FILE):
            tables.append(word)
        elif (folder := meant(Path(word))).is_dir():
            folders.append(folder)
        else:
            problems.append(
                f"embedrun table: no table, folder or run {word!r}{nearest(word, there)} "
                f"(tables: {', '.join(there)})"
            )
    return tables, folders, overrides, problems


def main(argv: Sequence[str]) -> int:
    """Run `embedrun table`; DataError if data of statistics cannot be read, or there is no finished run."""
    given = arguments_of(argv)
    if given.new is not None:
        _write_new(given)
        return 0
    if not given.tables and not given.folders:
        from embedrun.table.of_runs import list_of_tables

        print(list_of_tables(_cells(given)))
        return 0
    if given.check is not None:
        return _check(given)
    text = render(_sheets(given), given.format)
    if given.output is None:
        print(clean(text), end="")
        return 0
    try:
        write_atomically(given.output, text)
    except (OSError, ValueError) as fault:
        path = str(given.output)
        raise ConfigError(f"embedrun table: -o: {path!r} cannot be written ({fault}); name another") from None
    say(f"written to {given.output}")
    return 0


def _check(given: argparse.Namespace) -> int:
    from embedrun.table.printed import check

    try:
        source = given.check.read_text(encoding="utf-8")
    except (OSError, ValueError) as fault:
        raise ConfigError(f"embedrun table: --check: {str(given.check)!r} cannot be read ({fault})") from None
    (sheet,) = _sheets(given)
    checked = check(source, sheet, load(given.tables[0]).labels)
    for fault in checked.faults:
        say(f"{given.check}, {fault}")
    say(f"{given.check}: {checked.agree} numbers agree with {sheet.name}; faults: {len(checked.faults)}")
    return 1 if checked.faults else 0


def _write_new(given: argparse.Namespace) -> None:
    from embedrun.table.of_runs import table_of_runs

    if given.new.exists():
        raise ConfigError(f"embedrun table: --new: {str(given.new)!r} exists; name another file")
    written = yaml.safe_dump(table_of_runs(given.sources), sort_keys=False, width=110, allow_unicode=True)
    try:
        publish(given.new, written.encode())
    except OSError as fault:
        told = f"{str(given.new)!r} cannot be written ({fault}); name another"
        raise ConfigError(f"embedrun table: --new: {told}") from None
    table = load(str(given.new))
    size = f"{len(table.rows)} rows, {len(table.columns)} columns, seeds {listed(table.seeds)}"
    say(f"wrote {given.new}: {size}")
    given.outputs = given.sources[0]
    lacking = [slot.row.id for slot in _cells(given).find(table) if slot.run is None]
    if lacking:
        say(f"not found again, so look at their overrides: {', '.join(dict.fromkeys(lacking))}")


def _cells(given: argparse.Namespace) -> "Cells":
    from embedrun.table.cells import Cells

    scale = None if given.scale is None else load_scale(given.scale)
    return Cells([given.outputs], extra=given.overrides, scale=scale, config_dir=given.config_dir)


def _keys(text: str) -> list[str]:
    return list(filter(None, map(str.strip, text.split(","))))


def _sheets(given: argparse.Namespace) -> list["Sheet"]:
    sheets = []
    if given.tables:
        from embedrun.table.of_paper import sheet_for

        cells = _cells(given)
        source = {"data_dir": given.data_dir, "tokenizer": given.tokenizer, "plot_format": given.plot_format}
        for table in map(load, dict.fromkeys(given.tables)):
            sheet = sheet_for(table, cells, given.seeds, plots=given.outputs / "tables", **source)
            if given.marks or any(column.test for column in table.columns):
                from embedrun.study.marks import judged

                sheet = judged(sheet, table, cells.find(table, given.seeds), marks=given.marks)
            sheets.append(sheet)
        other = sorted({run.scale for run in cells.measured if run.scale is not None})
        if cells.scale is None and other:
            say(f"runs of reduced settings are in no table here: --scale {' or --scale '.join(other)}")
    if given.folders:
        from embedrun.table.of_runs import sheet_of_runs

        folders = tuple(dict.fromkeys(given.folders))
        sheets.append(sheet_of_runs(folders, _keys(given.columns), _keys(given.label), given.where))
    return sheets
