"""Train a recipe and variants with one thing left out or replaced, and say what each thing is worth."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from embedrun.commands.command_line import Parser, seed_list
from embedrun.commands.reproduce import main_score, recipe_of, trained
from embedrun.console import clean, fitted, room, say, spread_text
from embedrun.errors import ConfigError

if TYPE_CHECKING:
    from embedrun.study.ablate import Worth
    from embedrun.table.cells import Measured

_EPILOG = """Each variant differs from the recipe in one thing, and runs with the same seeds. What has
finished is not run again; after a kill, run the same command again. The table has the difference between the
recipe and each variant, its 95 % interval over seeds and test rows together, and a verdict: yes if the
interval, corrected by Holm's procedure, excludes 0 and the difference is at least 0.3 points.

examples:
  embedrun ablate +experiment=quickstart --drop loss.terms
  embedrun ablate +experiment=angle_stsb --drop loss.terms --set pooling=mean,last_token --seeds 1,2,3,4,5"""


def parser() -> Parser:
    """The parser of `embedrun ablate`."""
    made = Parser(
        "embedrun ablate",
        usage="%(prog)s +experiment=NAME [option=value ...] [--drop loss.terms]\n"
        "                       [--set OPTION=VALUE,VALUE] [--seeds 1,2,3] [--dry-run]",
        description=__doc__,
        examples=_EPILOG,
    )
    add = made.add_argument
    add("words", nargs="*", metavar="option=value", help="the recipe, as of embedrun train")
    drop = "leave out each term of the loss, or one (loss.terms.angle); may be given several times"
    add("--drop", action="append", default=[], metavar="loss.terms", help=drop)
    replaced = "replace an option or a group by each value; may be given several times"
    add("--set", action="append", default=[], metavar="OPTION=A,B", help=replaced)
    add("--seeds", default="1,2,3", metavar="1,2,3", help="two or more; else 1,2,3")
    add("--config-dir", "-cd", type=Path, metavar="DIR", help="your own YAML, laid out as conf/")
    add("--dry-run", action="store_true", help="list the runs and what they cost, run nothing")
    return made


def main(argv: Sequence[str]) -> int:
    """Run `embedrun ablate`; exit code 1 if a run failed."""
    given = parser().read(argv)
    given.seeds = seed_list(given.seeds, "ablate") or ()
    if len(given.seeds) < 2:
        raise ConfigError("embedrun ablate: --seeds: a difference needs two seeds or more, as 1,2,3")
    config = recipe_of(given)
    from embedrun.study import ablate

    found = ablate.changes(config, given.drop, given.set)
    table = ablate.table_of(given.overrides, found, given.seeds)
    more = {"hydra": given.hydra, "config_dir": given.config_dir, "dry_run": given.dry_run}
    runs = trained(table, given.overrides, **more)
    if isinstance(runs, int):
        return runs
    key = main_score(runs, "ablate")
    _show(ablate.worths(runs, key), runs, key, str(config["name"]))
    return 0


def _show(
    worths: "Sequence[Worth]", runs: "Mapping[str, Mapping[int, Measured]]", key: str, name: str
) -> None:
    from embedrun.evaluation.seeds import Spread
    from embedrun.plot import forest
    from embedrun.study.ablate import FULL

    full = Spread.of([run.scores[key] for run in runs[FULL].values()])
    cells = [["variant", key, "recipe - variant", "95 % interval", "p", "verdict"]]
    cells.append([FULL, spread_text(key, full and full.mean, full and full.sd), "", "", "", ""])
    bars = {}
    for worth in worths:
        decision, difference = worth.decision, worth.decision.estimate
        low, high = difference.interval(decision.level)
        bars[worth.label] = difference.mean, (low, high)
        spread = spread_text(key, worth.spread and worth.spread.mean, worth.spread and worth.spread.sd)
        cells.append([worth.label, spread, *decision.cells()])
    print(clean(fitted(cells, room(), right=(1, 2, 4))))
    path = Path("outputs", "tables", f"ablate_{name}.png")
    path.parent.mkdir(parents=True, exist_ok=True)
    forest(bars, f"recipe - variant, {key}", path)
    say(f"plot  {path}")
