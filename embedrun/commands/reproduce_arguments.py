"""The command line of `embedrun reproduce`, taken apart."""

import argparse
import re
from collections.abc import Sequence

from embedrun.commands.arguments import Parser
from embedrun.commands.seed_list import misplaced, seed_list
from embedrun.config.check import nearest
from embedrun.config.compose import Request, composed, task_overrides
from embedrun.console import say
from embedrun.errors import ConfigError
from embedrun.launch.launcher import plugin
from embedrun.study.reproduce.tasks import Arguments
from embedrun.table.preset import Row, Table, load, load_scale, names

_EPILOG = """Cells that have finished with the same configuration on the same data are not run again, and
interrupted ones go on where they stopped: the same command goes on after a kill. Overrides come behind those
of the rows that have such an option: backbone.name=DIR for a model on this machine; hydra/launcher=joblib is
for several cells at a time. A cell that fails leaves the others running; at the end the table is printed,
with overrides that of the rows which --only names. What a --scale has made is no reproduction, and marked so
everywhere.

examples:
  embedrun reproduce angle/table4 --dry-run
  embedrun reproduce raoe/table6 --seeds 1,2,3 dataset.path=DIR
  embedrun reproduce angle/table4 --scale cpu_small backbone.name=DIR"""


def arguments_of(description: str, argv: Sequence[str]) -> Arguments | None:
    """The arguments, or None where --help was printed.

    Raises:
        ConfigError: if the table, a row, the setting or an argument is unknown.
    """
    try:
        known = _parser(description).parse_intermixed_args(argv)
    except SystemExit:  # --help has been printed; what is refused is a ConfigError
        return None
    words = [word for word in known.words if "=" not in word]
    overrides = [word for word in known.words if "=" in word]
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
            say(f"{row.id}: {reason}; nothing is to be run")
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


def _parser(description: str) -> Parser:
    parser = Parser(
        prog="embedrun reproduce",
        usage="%(prog)s TABLE [--seeds 1,2,3] [--only LABEL] [--scale NAME] [--dry-run] [--again]\n"
        "                          [option=value ...]",
        description=description,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("words", nargs="*", metavar="TABLE", help="a table of a paper, as angle/table4")
    parser.add_argument("--seeds", metavar="1,2,3", help="of the runs; else as the table says")
    parser.add_argument(
        "--only", action="append", metavar="LABEL", help="this row alone; may be given several times"
    )
    parser.add_argument("--scale", metavar="NAME", help="a reduced setting, of conf/scale")
    parser.add_argument("--dry-run", action="store_true", help="list cells and what they cost, run nothing")
    parser.add_argument("--again", action="store_true", help="run finished cells anew, too")
    return parser


def _check(hydra: Sequence[str]) -> None:
    """Refuse all about Hydra that is not about its launcher, and what is unsafe of that.

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
    plugin(hydra)
    if hydra:
        composed(Request("train", tuple(hydra)), strict=True)


def _check_own(own: Sequence[str], table: Table, rows: Sequence[Row]) -> None:
    """Refuse overrides of what has an option of its own here, and any where there is nothing to run."""
    problems = misplaced(own, "reproduce")
    if own and all(_not_run(row, table) is not None for row in rows):
        which = table.name if len(rows) == len(table.rows) else ", ".join(row.id for row in rows)
        problems += [f"{one}: no row takes it, since nothing of {which} is to be run" for one in own]
    if problems:
        raise ConfigError(problems)


def _not_run(row: Row, table: Table) -> str | None:
    """Why no run is made for a row; None where there is one."""
    if any(cell.not_runnable is None for cell in row.cells):
        return None
    if row.kind == "quoted":
        return f"is printed as the paper quotes it ({row.source})"
    if row.kind == "statistics" and table.statistics is not None:
        return f"is counted in what this writes: {table.statistics.command}"
    return row.not_runnable or "; ".join(dict.fromkeys(cell.not_runnable or "" for cell in row.cells))
