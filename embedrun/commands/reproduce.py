"""Run what a table of a paper lacks, and print the table with the measured beside the printed numbers."""

import re
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from embedrun.commands.command_line import Parser, misplaced, seed_list, with_runs
from embedrun.config.check import nearest
from embedrun.config.compose import composed
from embedrun.config.request import Request, task_overrides
from embedrun.config.safety import launcher_of
from embedrun.console import clean, say
from embedrun.errors import USAGE, ConfigError
from embedrun.launch import launcher
from embedrun.launch.sweep import new_folder
from embedrun.table.formats import render
from embedrun.table.preset import Row, Table, load, load_scale, names

if TYPE_CHECKING:
    from embedrun.study.reproduce import Arguments, CurrentRows, Plans, Task
    from embedrun.table.cells import Seeds


_EPILOG = """Cells that have finished with the same configuration on the same data are not run again, and
interrupted ones resume: after a kill, run the same command again. Overrides apply to every row that has the
option, after the row's own: backbone.name=DIR takes a model on this machine. hydra/launcher=joblib runs
several cells at a time. A cell that fails does not stop the others. At the end the table is printed; with
overrides and --only, just the named rows. Runs with --scale are no reproduction and are marked as such.

examples:
  embedrun reproduce angle/table4 --dry-run
  embedrun reproduce raoe/table6 --seeds 1,2,3 dataset.path=DIR
  embedrun reproduce angle/table4 --scale cpu_small backbone.name=DIR"""


def arguments_of(argv: Sequence[str]) -> "Arguments | None":
    """The arguments, or None where --help was printed.

    Raises:
        ConfigError: if the table, a row, the setting or an argument is unknown.
    """
    known = parser().read(argv)
    if known is None:
        return None
    from embedrun.study.reproduce import Arguments  # after parsing: torch comes with it

    words = [word for word in known.words if "=" not in word]
    overrides = with_runs([word for word in known.words if "=" in word])
    if len(words) != 1:
        there = f"one of {', '.join(names())}"
        raise ConfigError(
            f"embedrun reproduce: expected one table, {there}; got {', '.join(words) or 'none'}"
        )
    if words[0] not in names():
        hint = nearest(words[0], names())
        raise ConfigError(
            f"embedrun reproduce: no table {words[0]!r}{hint} (there are: {', '.join(names())})"
        )
    table = load(words[0])
    rows = [row for label in known.only or () for row in table.find(label)]
    own = task_overrides(overrides)
    hydra = tuple(one for one in overrides if one not in own)
    _check(hydra)
    _check_own(own, table, rows or table.rows)
    for row in rows:
        if (reason := _not_run(row, table)) is not None:
            say(f"{row.id}: {reason}; there is nothing to run")
    return Arguments(
        table=table,
        rows=tuple(dict.fromkeys(row.id for row in (rows or table.rows))),
        overrides=tuple(own),
        hydra=hydra,
        seeds=seed_list(known.seeds, "reproduce"),
        scale=None if known.scale is None else load_scale(known.scale),
        dry=known.dry_run,
        again=known.again,
    )


def parser() -> Parser:
    """The parser of `embedrun reproduce`."""
    made = Parser(
        "embedrun reproduce",
        usage="%(prog)s TABLE [--seeds 1,2,3] [--only LABEL] [--scale NAME]\n"
        "                          [--dry-run] [--again] [option=value ...]",
        description=__doc__,
        examples=_EPILOG,
        root="train",
    )
    made.add_argument("words", nargs="*", metavar="TABLE", help="a table of a paper, as angle/table4")
    made.add_argument("--seeds", metavar="1,2,3", help="of the runs; else as the table says")
    made.add_argument(
        "--only", action="append", metavar="LABEL", help="this row alone; may be given several times"
    )
    made.add_argument("--scale", metavar="NAME", help="a reduced setting, of conf/scale")
    made.add_argument("--dry-run", action="store_true", help="list cells and what they cost, run nothing")
    made.add_argument("--again", action="store_true", help="also rerun finished cells, from scratch")
    return made


def _check(hydra: Sequence[str]) -> None:
    """Refuse everything of Hydra's but its launcher, and what is unsafe of that.

    The overrides of every row are held against the same rules where cells are looked for.
    """
    others = [one for one in hydra if not re.match(r"\+*hydra[./]launcher\b", one)]
    if others:
        raise ConfigError(
            [
                f"{one.partition('=')[0]}: reproduce takes hydra/launcher and hydra.launcher alone"
                for one in others
            ]
        )
    launcher_of(hydra)
    if hydra:
        composed(Request("train", tuple(hydra)), strict=True)


def _check_own(own: Sequence[str], table: Table, rows: Sequence[Row]) -> None:
    """Refuse overrides of what has an option here, and any override where there is nothing to run."""
    problems = misplaced(own, "reproduce")
    if own and all(_not_run(row, table) is not None for row in rows):
        which = table.name if len(rows) == len(table.rows) else ", ".join(row.id for row in rows)
        problems += [f"{one}: no row takes it: {which} has nothing to run" for one in own]
    if problems:
        raise ConfigError(problems)


def _not_run(row: Row, table: Table) -> str | None:
    """Why a row is not run; None where it is."""
    if any(cell.not_runnable is None for cell in row.cells):
        return None
    if row.kind == "quoted":
        return f"is printed as the paper quotes it ({row.source})"
    if row.kind == "statistics" and table.statistics is not None:
        return f"is counted in what this writes: {table.statistics.command}"
    return row.not_runnable or "; ".join(dict.fromkeys(cell.not_runnable or "" for cell in row.cells))


def main(argv: Sequence[str]) -> int:
    """Run `embedrun reproduce`; exit code 1 if a cell failed.

    Raises:
        KeyboardInterrupt: on a signal, once the running cells have saved and ended; no other is started.
    """
    arguments = arguments_of(argv)
    if arguments is None:
        return 0
    from embedrun.study.reproduce import CurrentRows, Plans, listing, tasks_of
    from embedrun.table.cells import Cells

    rows = CurrentRows(arguments.overrides)
    cells = Cells(extra=arguments.overrides, scale=arguments.scale, counts=rows.agree)
    seeds = arguments.seeds or cells.asked(arguments.table)
    stages = tasks_of(cells, arguments.table, arguments.rows, seeds, again=arguments.again)
    plans = Plans(stages, arguments.scale)
    for line in plans.notices():
        say(line)
    if arguments.dry:
        say(listing(stages, plans, arguments.scale), sys.stdout)
        return USAGE if plans.refused else 0
    if plans.refused and not plans.made:
        raise ConfigError(list(dict.fromkeys(plans.refused.values())))
    failed = _run(arguments, stages, plans, rows)
    _show(arguments, seeds, rows)
    return 1 if failed else 0


def _run(
    arguments: "Arguments", stages: "Sequence[Sequence[Task]]", plans: "Plans", rows: "CurrentRows"
) -> bool:
    """Run what is open, and report the outcome; returns whether a cell has no result."""
    from embedrun.study.reproduce import Reproduction

    for stage in stages:
        for task in stage:
            if task.known in plans.refused:
                say(f"{task.label} will not run: {plans.refused[task.known]}")
    folder = _folder(arguments)
    reproduction = Reproduction(arguments, folder, plans, rows)
    try:
        for stage in stages:
            reproduction.run(stage)
    except launcher.Interrupted as stop:
        say(f"\n{reproduction.listing()}")
        left = [task for stage in stages for task in stage if reproduction.is_left(task)]
        say(f"{shlex.join(['embedrun', *_way_on(arguments, left)])} runs what is left")
        raise stop.stop from None
    finally:
        for place in (folder, folder.parent, folder.parent.parent):
            with suppress(OSError):  # it is not there, or what cells have printed is in it
                place.rmdir()
    say(f"\n{reproduction.listing()}")
    return reproduction.failed


def _folder(arguments: "Arguments") -> Path:
    """A folder of this process alone."""
    parent = Path("outputs", "reproduce", arguments.table.name.replace("/", "_"))
    return new_folder(parent, datetime.now().strftime("%Y-%m-%d_%H-%M-%S"))


def _way_on(arguments: "Arguments", left: "Sequence[Task]") -> list[str]:
    """The words of the command that runs what is left; --again is only of these rows then."""
    if not arguments.again:
        return sys.argv[1:]
    rows = dict.fromkeys(task.slot.row.id for task in left)
    words = [word for row in rows for word in ("--only", row)]
    words += ["--seeds", ",".join(map(str, sorted({task.seed for task in left}))), "--again"]
    words += [] if arguments.scale is None else ["--scale", arguments.scale.name]
    return ["reproduce", arguments.table.name, *words, *arguments.overrides, *arguments.hydra]


def _show(arguments: "Arguments", seeds: "Seeds", rows: "CurrentRows") -> None:
    """Print the table; with overrides, only the rows that they were for."""
    from embedrun.table.cells import Cells
    from embedrun.table.of_paper import sheet_for

    cells = Cells(extra=arguments.overrides, scale=arguments.scale, counts=rows.agree)
    table = arguments.table
    own = tuple(row for row in table.rows if row.id in arguments.rows)
    part = bool(arguments.overrides) and len(own) < len(table.rows)
    say("")
    sheet = sheet_for(replace(table, rows=own) if part else table, cells, seeds)
    # The commands of a part of a table would be those of all of it.
    print(clean(render([replace(sheet, commands=()) if part else sheet])), end="")
