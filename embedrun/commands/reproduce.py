"""Run what a table of a paper, or of your own, lacks, and print it beside the printed numbers, if any."""

import argparse
import re
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
from embedrun.files import Plain
from embedrun.launch import launcher
from embedrun.runs.directory import new_folder
from embedrun.runs.reading import RunFiles
from embedrun.table.formats import render
from embedrun.table.preset import FILE, Table, load, load_scale, names

if TYPE_CHECKING:
    from embedrun.study.reproduce import CurrentRows, Plans, Task
    from embedrun.table.cells import Cells, Measured, Seeds

_EPILOG = """Cells that have finished with the same configuration on the same data are not run again, and
interrupted ones resume: after a kill, run the same command again. Overrides apply to every row that has the
option, after the row's own: backbone.name=DIR takes a model on this machine. hydra/launcher=joblib runs
several cells at a time. A cell that fails does not stop the others. At the end the table is printed; with
overrides and --only, just the named rows. --equal first runs the table as it is, since the runs tell what
they use. Runs with --scale are no reproduction and are marked as such.

examples:
  embedrun reproduce angle/table4 --dry-run
  embedrun reproduce raoe/table6 --seeds 1,2,3 dataset.path=DIR
  embedrun reproduce angle/table4 --scale cpu_small backbone.name=DIR
  embedrun reproduce my_table.yaml --equal tokens"""


def parser() -> Parser:
    """The parser of `embedrun reproduce`."""
    made = Parser(
        "embedrun reproduce",
        usage="%(prog)s TABLE [--seeds 1,2,3] [--only LABEL] [--scale NAME]\n"
        "                          [--dry-run] [--again] [option=value ...]",
        description=__doc__,
        examples=_EPILOG,
    )
    own = "a table of a paper, as angle/table4, or a file of your own, as my_table.yaml"
    made.add_argument("words", nargs="*", metavar="TABLE", help=own)
    made.add_argument("--seeds", metavar="1,2,3", help="for all rows; else those of each row or of the table")
    only = "this row alone; may be given several times"
    made.add_argument("--only", action="append", default=[], metavar="LABEL", help=only)
    made.add_argument("--scale", metavar="NAME", help="a reduced setting, of conf/scale")
    folder = "a folder with your own YAML, laid out as conf/"
    made.add_argument("--config-dir", "-cd", type=Path, metavar="DIR", help=folder)
    made.add_argument("--dry-run", action="store_true", help="list cells and what they cost, run nothing")
    equal = "then cut the steps of each row to what the least has used"
    made.add_argument("--equal", choices=("rows", "tokens", "flops", "minutes"), help=equal)
    made.add_argument("--again", action="store_true", help="also rerun finished cells, from scratch")
    return made


def arguments_of(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments, with a `table`, ids of `rows`, and `overrides` of runs and of `hydra`."""
    given = parser().read(argv)
    given.table = _table([word for word in given.words if "=" not in word])
    rows = [row for label in given.only for row in given.table.find(label)] or given.table.rows
    given.rows = tuple(dict.fromkeys(row.id for row in rows))
    overrides = with_runs([word for word in given.words if "=" in word])
    given.overrides = task_overrides(overrides)
    given.hydra = [override for override in overrides if override not in given.overrides]
    idle = [row for row in rows if all(cell.not_runnable is not None for cell in row.cells)]
    _refuse(given, has_nothing_to_run=len(idle) == len(rows))
    for row in idle if given.only else ():
        say(f"{row.id}: there is nothing to run; {row.not_runnable or f'its numbers are of {row.source}'}")
    given.seeds = seed_list(given.seeds, "reproduce")
    given.scale = None if given.scale is None else load_scale(given.scale)
    return given


def _table(words: Sequence[str]) -> Table:
    if len(words) == 1 and words[0].endswith(FILE):
        return load(words[0])
    if len(words) != 1 or words[0] not in names():
        hint = "".join(nearest(word, names()) for word in words)
        raise ConfigError(
            f"embedrun reproduce: expected one table, no table {' '.join(words)!r}{hint} "
            f"(there are: {', '.join(names())})"
        )
    return load(words[0])


def _refuse(given: argparse.Namespace, *, has_nothing_to_run: bool) -> None:
    problems = misplaced(given.overrides, "reproduce")
    problems += [
        f"{override.partition('=')[0]}: reproduce takes hydra/launcher and hydra.launcher alone"
        for override in given.hydra
        if not re.match(r"\+*hydra[./]launcher\b", override)
    ]
    if has_nothing_to_run:
        nothing = f"no row takes it: {given.table.name} has nothing to run"
        problems += [f"{override}: {nothing}" for override in given.overrides]
    if problems:
        raise ConfigError(problems)
    launcher_of(given.hydra)
    if given.hydra:
        composed(Request("train", tuple(given.hydra)), strict=True)


def main(argv: Sequence[str]) -> int:
    """Run `embedrun reproduce`; exit code 1 if a cell failed."""
    given = arguments_of(argv)
    from embedrun.study.reproduce import CurrentRows, Plans, listing, tasks_of

    rows = CurrentRows(given.overrides)
    cells = _cells(given, rows)
    seeds = given.seeds or cells.asked(given.table)
    stages = tasks_of(cells, given.table, given.rows, seeds, again=given.again)
    plans = Plans(stages, given.scale, given.config_dir)
    for line in plans.notices:
        say(line)
    if given.dry_run:
        say(listing(stages, plans, given.scale), sys.stdout)
        return USAGE if plans.refused else 0
    if plans.refused and not plans.made:
        raise ConfigError(list(dict.fromkeys(plans.refused.values())))
    failed = run_stages(given.table, stages, plans, rows, hydra=given.hydra, again=given.again)
    if given.equal and not failed:
        failed = _equalled(given, seeds, rows)
    _show(given, seeds, rows)
    return 1 if failed else 0


def _equalled(given: argparse.Namespace, seeds: "Seeds", rows: "CurrentRows") -> bool:
    """Run the table with equal amounts, which is then the table; whether any cell failed."""
    from embedrun.study.equal import equalled
    from embedrun.study.reproduce import Plans, tasks_of

    given.table = equalled(given.table, _cells(given, rows).find(given.table, seeds), given.equal)
    given.rows = tuple(row.id for row in given.table.rows if row.id in given.rows)
    stages = tasks_of(_cells(given, rows), given.table, given.rows, seeds)
    plans = Plans(stages, given.scale, given.config_dir)
    return run_stages(given.table, stages, plans, rows, hydra=given.hydra, again=False)


def _cells(given: argparse.Namespace, rows: "CurrentRows") -> "Cells":
    from embedrun.table.cells import Cells

    return Cells(
        extra=given.overrides,
        scale=given.scale,
        counts=lambda run: not rows.changed(run),
        config_dir=given.config_dir,
    )


def run_stages(
    table: Table,
    stages: "Sequence[Sequence[Task]]",
    plans: "Plans",
    rows: "CurrentRows",
    *,
    hydra: Sequence[str],
    again: bool,
) -> bool:
    """Run what is planned, and print what became of it; whether any cell failed."""
    from embedrun.study.reproduce import Reproduction

    for stage in stages:
        for task in stage:
            if task.known in plans.refused:
                say(f"{task.label} will not run: {plans.refused[task.known]}")
    time = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    folder = new_folder(Path("outputs", "reproduce", _folder_of(table)), time)
    reproduction = Reproduction(plans, rows, folder, hydra=hydra, again=again)
    try:
        for stage in stages:
            reproduction.run(stage)
    except launcher.Interrupted as stop:
        alone = " with --only for each of the rows that are left" if again else ""
        say(f"\n{reproduction.listing()}\nrun the same command{alone} to resume")
        raise stop.stop from None
    finally:
        for place in (folder, folder.parent, folder.parent.parent):
            with suppress(OSError):  # it is not there, or what cells have printed is in it
                place.rmdir()
    say(f"\n{reproduction.listing()}")
    return reproduction.failed


def recipe_of(given: argparse.Namespace) -> Plain:
    """The recipe that is typed as of `train`, composed; `given` gets its `overrides` and those of `hydra`."""
    overrides = with_runs(given.words)
    given.overrides = task_overrides(overrides)
    given.hydra = [override for override in overrides if override not in given.overrides]
    launcher_of(given.hydra)
    return composed(Request("train", tuple(given.overrides), config_dir=given.config_dir)).config


Trained = dict[str, dict[int, "Measured"]]  # by row, then by seed


def trained(
    table: Table,
    overrides: Sequence[str],
    *,
    hydra: Sequence[str] = (),
    config_dir: Path | None = None,
    again: bool = False,
    dry_run: bool = False,
) -> Trained | int:
    """Run what a table of trainings lacks; its runs, or the exit code where there is nothing to show.

    `overrides` are those that all cells have; of these only `data_dir` says something that the cells do not.
    """
    from embedrun.study.reproduce import CurrentRows, Plans, listing, tasks_of
    from embedrun.table.cells import Cells

    rows, labels = CurrentRows(overrides), [row.id for row in table.rows]

    def cells() -> Cells:
        return Cells(counts=lambda run: not rows.changed(run), config_dir=config_dir)

    stages = tasks_of(cells(), table, labels, table.seeds, again=again)
    plans = Plans(stages, None, config_dir)
    if plans.refused:
        raise ConfigError(list(dict.fromkeys(plans.refused.values())))
    if dry_run:
        say(listing(stages, plans, None), sys.stdout)
        return 0
    if run_stages(table, stages, plans, rows, hydra=hydra, again=again):
        return 1
    runs: Trained = {label: {} for label in labels}
    for slot in cells().find(table, table.seeds):
        if slot.run is not None:
            runs[slot.row.id][slot.seed] = slot.run
    return runs


def main_score(runs: Trained, command: str) -> str:
    """The key of the score that stands for the runs; ConfigError if they have none."""
    first = next(run for by_seed in runs.values() for run in by_seed.values())
    key = RunFiles(first.path).main.get("name")
    if not key:
        raise ConfigError(f"embedrun {command}: the runs have no score; choose an evaluation")
    return str(key)


def _folder_of(table: Table) -> str:
    name = Path(table.name).stem if table.name.endswith(FILE) else table.name
    return name.replace("/", "_")


def _show(given: argparse.Namespace, seeds: "Seeds", rows: "CurrentRows") -> None:
    from embedrun.study.marks import judged
    from embedrun.table.of_paper import sheet_for

    cells = _cells(given, rows)
    table, is_part = given.table, bool(given.overrides) and len(given.rows) < len(given.table.rows)
    if is_part:
        table = replace(table, rows=[row for row in table.rows if row.id in given.rows])
    sheet = judged(sheet_for(table, cells, seeds), table, cells.find(table, seeds), marks=False)
    say("")
    # The commands of a part of a table would be those of all of it.
    print(clean(render([replace(sheet, commands=()) if is_part else sheet])), end="")
