"""Finished runs beside the printed numbers of a paper's table; or a table of the runs below folders."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from embedrun.commands.table_arguments import Arguments, arguments_of
from embedrun.console import clean, say
from embedrun.errors import ConfigError
from embedrun.table.formats import render

if TYPE_CHECKING:
    from embedrun.table.preset import Scale
    from embedrun.table.search import Cells
    from embedrun.table.sheet import Sheet


def main(argv: Sequence[str]) -> int:
    """Run `embedrun table`.

    Args:
        argv: what stands after `embedrun table`.

    Returns:
        The exit code: 0.

    Raises:
        ConfigError: if the command line is refused.
        DataError: if the data of statistics is there and cannot be read, or folders hold no finished run.
    """
    arguments = arguments_of(__doc__ or "", argv)
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
    from embedrun.table.preset import load_scale

    return None if arguments.scale is None else load_scale(arguments.scale)


def _cells(arguments: Arguments) -> "Cells":
    from embedrun.table.search import Cells

    return Cells([arguments.outputs], extra=arguments.overrides, scale=_scale(arguments))


def _sheets(arguments: Arguments) -> list["Sheet"]:
    sheets = []
    if arguments.tables:
        from embedrun.table.figure import sheet_for
        from embedrun.table.preset import load

        cells = _cells(arguments)
        plots = arguments.outputs / "tables"
        for name in arguments.tables:
            source = (arguments.data_dir, arguments.tokenizer)
            sheets.append(sheet_for(load(name), cells, arguments.seeds, plots=plots, statistics_from=source))
        if cells.scale is None and (other := cells.scales()):
            say(f"runs of reduced settings are in no table here: --scale {' or --scale '.join(other)}")
    if arguments.folders:
        from embedrun.table.of_runs import sheet_of_runs

        sheets.append(sheet_of_runs(arguments.folders))
    return sheets


def _write(path: Path, text: str) -> None:
    from embedrun.files import write_atomically

    try:
        write_atomically(path, text)
    except (OSError, ValueError) as fault:
        raise ConfigError(
            f"embedrun table: -o: {str(path)!r} cannot be written ({fault}); name another"
        ) from None
    say(f"written to {path}")
