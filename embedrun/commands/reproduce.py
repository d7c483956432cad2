"""Run what a table of a paper lacks, and print the table with the measured beside the printed numbers."""

import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from embedrun.commands.reproduce_arguments import arguments_of
from embedrun.console import clean, say
from embedrun.errors import USAGE, ConfigError
from embedrun.study.reproduce.tasks import Arguments

if TYPE_CHECKING:
    from embedrun.study.reproduce.tasks import Plans, RowsOfNow, Task


def main(argv: Sequence[str]) -> int:
    """Run `embedrun reproduce`.

    Args:
        argv: what stands after `embedrun reproduce`.

    Returns:
        The exit code: 1 if a cell failed, else 0.

    Raises:
        ConfigError: if the command line is refused.
        KeyboardInterrupt: on a signal, once the running cells have saved and ended; no other is started.
    """
    arguments = arguments_of(__doc__ or "", argv)
    if arguments is None:
        return 0
    from embedrun.study.reproduce.tasks import Plans, RowsOfNow, tasks_of
    from embedrun.table.search import Cells

    rows = RowsOfNow(arguments.overrides)
    cells = Cells(extra=arguments.overrides, scale=arguments.scale, counts=rows.agree)
    seeds = arguments.seeds or cells.seeds(arguments.table)
    stages = tasks_of(cells, arguments.table, arguments.rows, seeds, again=arguments.again)
    plans = Plans(stages, arguments.scale)
    for line in plans.notices():
        say(line)
    if arguments.dry:
        from embedrun.study.reproduce.cost import listing

        print(listing(stages, plans, arguments.scale))
        return USAGE if plans.refused else 0
    if plans.refused and not plans.made:
        raise ConfigError(list(dict.fromkeys(plans.refused.values())))
    failed = _run(arguments, stages, plans, rows)
    _show(arguments, seeds, rows)
    return 1 if failed else 0


def _run(arguments: Arguments, stages: "Sequence[Sequence[Task]]", plans: "Plans", rows: "RowsOfNow") -> bool:
    """Run what is open, and say what became of it; whether any cell has no result."""
    from embedrun.launch import launcher
    from embedrun.study.reproduce.run import Reproduction

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
        _tell(reproduction)
        left = [task for stage in stages for task in stage if reproduction.is_left(task)]
        say(f"{shlex.join(['embedrun', *_way_on(arguments, left)])} goes on with what is left")
        raise stop.stop from None
    finally:
        for place in (folder, folder.parent, folder.parent.parent):
            with suppress(OSError):  # it is not there, or what cells have printed is in it
                place.rmdir()
    _tell(reproduction)
    return reproduction.failed


def _folder(arguments: Arguments) -> Path:
    """A folder of this command alone; what killed ones have left beside it is removed."""
    from embedrun.launch.launcher import JOBS, tidy
    from embedrun.launch.sweep import new_folder

    parent = Path("outputs", "reproduce", arguments.table.name.replace("/", "_"))
    tidy(parent.glob(f"*/{JOBS}"))
    return new_folder(parent, datetime.now().strftime("%Y-%m-%d_%H-%M-%S"))


def _way_on(arguments: Arguments, left: "Sequence[Task]") -> list[str]:
    """The words of the command that runs what is left; --again is of these rows alone then."""
    if not arguments.again:
        return sys.argv[1:]
    rows = dict.fromkeys(task.slot.row.id for task in left)
    words = [word for row in rows for word in ("--only", row)]
    words += ["--seeds", ",".join(map(str, sorted({task.seed for task in left}))), "--again"]
    words += [] if arguments.scale is None else ["--scale", arguments.scale.name]
    return ["reproduce", arguments.table.name, *words, *arguments.overrides, *arguments.hydra]


def _tell(reproduction) -> None:
    say("")
    say(reproduction.listing())


def _show(arguments: Arguments, seeds: Sequence[int], rows: "RowsOfNow") -> None:
    """Print the table; with overrides, only of the rows that they were for."""
    from embedrun.table.figure import sheet_for
    from embedrun.table.formats import render
    from embedrun.table.search import Cells

    cells = Cells(extra=arguments.overrides, scale=arguments.scale, counts=rows.agree)
    table = arguments.table
    own = tuple(row for row in table.rows if row.id in arguments.rows)
    part = bool(arguments.overrides) and len(own) < len(table.rows)
    say("")
    sheet = sheet_for(replace(table, rows=own) if part else table, cells, seeds)
    # The commands of a part of a table would be those of all of it.
    print(clean(render([replace(sheet, commands=()) if part else sheet])), end="")
