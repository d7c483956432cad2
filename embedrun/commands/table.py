"""Finished runs beside the printed numbers of a paper's table; or a table of the runs below folders."""

import argparse
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from embedrun.commands.command_line import Parser, misplaced, seed_list, with_runs
from embedrun.config.check import nearest
from embedrun.console import clean, say
from embedrun.errors import ConfigError
from embedrun.files import whole_file
from embedrun.runs.listing import filters
from embedrun.runs.search import named
from embedrun.table.formats import FORMATS, render
from embedrun.table.preset import load, load_scale, names

if TYPE_CHECKING:
    from embedrun.table.preset import Scale
    from embedrun.table.search import Cells
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
  embedrun table outputs/angle_stsb --format csv
  embedrun table outputs/quickstart --label loss --columns seed,training.lr
  embedrun table outputs/quickstart --filter kind=trial"""


@dataclass(frozen=True)
class Arguments:
    """One command line, taken apart.

    Args:
        overrides: of the runs that are looked for.
        seeds: of them; None: every seed with a finished run.
        scale: name of their reduced setting, or None.
        form: one of md, csv, latex, json.
        output: file, or None for the terminal.
        outputs: folder with the runs.
        data_dir: what rows of statistics are counted in, or None for the store.
        tokenizer: folder with `tokenizer.json`, or None.
        columns: of a table of runs; empty: the scores that all have.
        label: what its rows are named by; empty: what differs.
        where: values that its runs must have, one of several, by column.
    """

    tables: tuple[str, ...]
    folders: tuple[Path, ...]
    overrides: tuple[str, ...]
    seeds: tuple[int, ...] | None
    scale: str | None
    form: str
    output: Path | None
    outputs: Path
    data_dir: str | None
    tokenizer: Path | None
    columns: tuple[str, ...] = ()
    label: tuple[str, ...] = ()
    where: Mapping[str, Collection[str]] = field(default_factory=dict)


def arguments_of(argv: Sequence[str]) -> Arguments | None:
    """The arguments, or None where --help was printed.

    Raises:
        ConfigError: with everything that is refused.
    """
    known = parser().read(argv)
    if known is None:
        return None
    return _arguments(known)


def parser() -> Parser:
    """The parser of `embedrun table`."""
    made = Parser(
        "embedrun table",
        usage="%(prog)s [TABLE|DIR ...] [--format md|csv|latex|json] [-o FILE]\n"
        "                      [--seeds 1,2,3] [--scale NAME] [--columns KEY,KEY]\n"
        "                      [--label KEY,KEY] [--filter KEY=VALUE] [option=value ...]",
        description=__doc__,
        examples=_EPILOG,
    )
    made.add_argument(
        "words",
        nargs="*",
        metavar="TABLE|DIR",
        help="a table of a paper, as angle/table4, a folder with runs in or below it, or the name of a run",
    )
    made.add_argument("--format", choices=list(FORMATS), help="else as the name of FILE says, else md")
    made.add_argument(
        "--seeds", metavar="1,2,3", help="of the runs; else all with which any run of the table has finished"
    )
    made.add_argument("--scale", metavar="NAME", help="runs of this reduced setting, of conf/scale")
    made.add_argument(
        "--columns",
        metavar="KEY,KEY",
        help="of a table of runs: these scores, choices (loss) and options; else the scores that all have",
    )
    made.add_argument(
        "--label", metavar="KEY,KEY", help="of a table of runs: what rows are named by; else what differs"
    )
    made.add_argument(
        "--filter",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="of a table of runs: as in embedrun runs; without kind=evaluation or kind=trial: trainings",
    )
    made.add_argument("-o", "--output", type=Path, metavar="FILE", help="write there instead")
    made.add_argument(
        "--outputs",
        type=Path,
        default=_OUTPUTS,
        metavar="DIR",
        help="where runs are looked for; else outputs",
    )
    made.add_argument(
        "--data-dir",
        metavar="DIR",
        help="for statistics of data: a store, or what collect or annotate wrote; else EMBEDRUN_DATA",
    )
    made.add_argument(
        "--tokenizer", type=Path, metavar="DIR", help="for lengths of texts: a folder with tokenizer.json"
    )
    return made


def _arguments(known: argparse.Namespace) -> Arguments:
    tables, folders, overrides, problems = _sorted(known.words)
    problems += _misused(known, overrides, folders)
    if not known.outputs.is_dir() and known.outputs != _OUTPUTS:
        problems.append(f"embedrun table: --outputs: there is no folder {str(known.outputs)!r}")
    if not (tables or folders or problems):
        problems += _without_table(known)
    problems += misplaced(overrides, "table")
    where, faults = filters(known.filter, "embedrun table")
    problems += faults
    try:
        seeds = seed_list(known.seeds, "table")
    except ConfigError as fault:
        seeds, problems = None, [*problems, *fault.problems]
    suffix = "" if known.output is None else known.output.suffix.lower()
    if problems:
        raise ConfigError(problems)
    return Arguments(
        tables=tuple(dict.fromkeys(tables)),
        folders=tuple(dict.fromkeys(folders)),
        overrides=tuple(with_runs(overrides)),
        seeds=seeds,
        scale=known.scale,
        form=known.format or next((form for form, own in FORMATS.items() if own == suffix), "md"),
        output=known.output,
        outputs=known.outputs,
        data_dir=known.data_dir,
        tokenizer=known.tokenizer,
        columns=_words(known.columns),
        label=_words(known.label),
        where=where,
    )


def _misused(known: argparse.Namespace, overrides: Sequence[str], folders: Sequence[Path]) -> list[str]:
    """Problems with what is of tables where folders are given, and the other way round."""
    if folders and (overrides or known.scale or known.seeds):
        return ["embedrun table: overrides, --scale and --seeds go with tables, not with folders of runs"]
    if (known.columns or known.label or known.filter) and not folders:
        return ["embedrun table: --columns, --label and --filter go with folders of runs, not with tables"]
    return []


def _words(text: str | None) -> tuple[str, ...]:
    return () if text is None else tuple(word.strip() for word in text.split(",") if word.strip())


def _sorted(words: Sequence[str]) -> tuple[list[str], list[Path], list[str], list[str]]:
    """Tables, folders with runs, overrides, and problems with the other words."""
    tables, folders, overrides, problems = [], [], [], []
    there = names()
    for word in words:
        if "=" in word and not Path(word).is_dir():
            overrides.append(word)
        elif word in there:
            tables.append(word)
        elif Path(word).is_dir():
            folders.append(Path(word))
        elif (run := named(word)) != word:
            folders.append(Path(run))
        else:
            problems.append(
                f"embedrun table: no table, folder or run {word!r}{nearest(word, there)} "
                f"(tables: {', '.join(there)})"
            )
    return tables, folders, overrides, problems


def _without_table(known: argparse.Namespace) -> list[str]:
    """A problem with options that need a table, where all tables are listed."""
    given = {
        "--format": known.format, "-o": known.output, "--seeds": known.seeds,
        "--data-dir": known.data_dir, "--tokenizer": known.tokenizer,
    }  # fmt: skip
    names = [name for name, value in given.items() if value is not None]
    return [f"embedrun table: {', '.join(names)}: of a table; name one, as angle/table4"] if names else []


def main(argv: Sequence[str]) -> int:
    """Run `embedrun table`; DataError if data of statistics cannot be read, or there is no finished run."""
    arguments = arguments_of(argv)
    if arguments is None:
        return 0
    if not arguments.tables and not arguments.folders:
        from embedrun.table.of_runs import list_of_tables

        print(list_of_tables(_cells(arguments)))
        return 0
    text = render(_sheets(arguments), arguments.form)
    if arguments.output is None:
        print(clean(text), end="")
    else:
        _write(arguments.output, text)
    return 0


def _scale(arguments: Arguments) -> "Scale | None":
    return None if arguments.scale is None else load_scale(arguments.scale)


def _cells(arguments: Arguments) -> "Cells":
    from embedrun.table.search import Cells

    return Cells([arguments.outputs], extra=arguments.overrides, scale=_scale(arguments))


def _sheets(arguments: Arguments) -> list["Sheet"]:
    sheets = []
    if arguments.tables:
        from embedrun.table.figure import sheet_for

        cells = _cells(arguments)
        plots = arguments.outputs / "tables"
        for name in arguments.tables:
            source = (arguments.data_dir, arguments.tokenizer)
            sheets.append(sheet_for(load(name), cells, arguments.seeds, plots=plots, statistics_from=source))
        if cells.scale is None and (other := cells.scales()):
            say(f"runs of reduced settings are in no table here: --scale {' or --scale '.join(other)}")
    if arguments.folders:
        from embedrun.table.of_runs import sheet_of_runs

        sheets.append(sheet_of_runs(arguments.folders, arguments.columns, arguments.label, arguments.where))
    return sheets


def _write(path: Path, text: str) -> None:
    try:
        with whole_file(path) as aside:
            aside.write_text(text, encoding="utf-8")
    except (OSError, ValueError) as fault:
        raise ConfigError(
            f"embedrun table: -o: {str(path)!r} cannot be written ({fault}); name another"
        ) from None
    say(f"written to {path}")
