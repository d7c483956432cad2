"""Run what a table of a paper lacks, and print the table with the measured beside the printed numbers."""

import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from embedrun.commands.reproduce_arguments import Arguments, arguments_of
from embedrun.console import clean, say


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
    from embedrun.commands import launch
    from embedrun.commands.reproduce_run import Reproduction
    from embedrun.commands.reproduce_tasks import tasks_of
    from embedrun.commands.table_cells import Cells

    cells = Cells(extra=arguments.overrides, scale=arguments.scale)
    seeds = arguments.seeds or cells.seeds(arguments.table)
    stages = tasks_of(cells, arguments.table, arguments.rows, seeds, again=arguments.again)
    if arguments.dry:
        from embedrun.commands.reproduce_cost import listing

        print(listing(stages, arguments.scale))
        return 0
    folder = _folder(arguments)
    reproduction = Reproduction(arguments, folder)
    try:
        for stage in stages:
            reproduction.run(stage)
    except launch.Interrupted as stop:
        _tell(reproduction)
        say(f"{shlex.join(['embedrun', *sys.argv[1:]])} goes on with what is left")
        raise stop.stop from None
    finally:
        for place in (folder, folder.parent, folder.parent.parent):
            with suppress(OSError):  # it is not there, or what cells have printed is in it
                place.rmdir()
    _tell(reproduction)
    _show(arguments, seeds)
    return 1 if reproduction.failed else 0


def _folder(arguments: Arguments) -> Path:
    stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    return Path("outputs", "reproduce", arguments.table.name.replace("/", "_"), stamp)


def _tell(reproduction) -> None:
    say("")
    say(reproduction.listing())


def _show(arguments: Arguments, seeds: Sequence[int]) -> None:
    from embedrun.commands.table_cells import Cells
    from embedrun.commands.table_sheet import sheet_for
    from embedrun.table.render import render

    cells = Cells(extra=arguments.overrides, scale=arguments.scale)
    say("")
    print(clean(render([sheet_for(arguments.table, cells, seeds)])), end="")
