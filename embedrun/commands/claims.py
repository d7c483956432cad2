"""Decide claims that were written down before the first run; seal them; plan how many seeds they take."""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from embedrun.commands.command_line import Parser, misplaced, with_runs
from embedrun.console import clean, fitted, room, say
from embedrun.errors import ConfigError

if TYPE_CHECKING:
    from embedrun.study.claims import Runs
    from embedrun.study.registration import Registration

_OUTPUTS = Path("outputs")
_EPILOG = """A claim names two rows of a table and which is better. It is decided over all seeds and test rows
together; all claims of the file are corrected together. The verdict is yes or no if the interval excludes 0
and the difference is large enough to matter, else undecided, with the difference that these runs could have
shown. Exit code 0 whatever the verdicts. The table is trained by `embedrun reproduce`.

examples:
  embedrun claims claims.yaml --plan --sd 0.5
  embedrun claims claims.yaml --seal
  embedrun claims claims.yaml"""


def parser() -> Parser:
    """The parser of `embedrun claims`."""
    made = Parser(
        "embedrun claims",
        usage="%(prog)s FILE.yaml [--seal | --plan [--sd POINTS]] [option=value ...]",
        description=__doc__,
        examples=_EPILOG,
    )
    add = made.add_argument
    add("words", nargs="+", metavar="FILE.yaml", help="the claims; overrides as given to `reproduce`")
    what = made.add_mutually_exclusive_group()
    seal = "write the file's hash, the date and the commit beside it; refused once a run has begun"
    made.actions.append(what.add_argument("--seal", action="store_true", help=seal))
    plan = "how many seeds tell the smallest difference that matters from 0, at 80 %% power"
    made.actions.append(what.add_argument("--plan", action="store_true", help=plan))
    sd = "with --plan: standard deviation of a difference over seeds; else that of finished runs"
    add("--sd", type=float, metavar="POINTS", help=sd)
    rows = "with --sd: standard deviation of a difference over test rows; else 0"
    add("--rows-sd", type=float, default=0.0, metavar="POINTS", help=rows)
    add("--difference", type=float, metavar="POINTS", help="with --plan: in place of the file's `least`")
    add("--config-dir", "-cd", type=Path, metavar="DIR", help="your own YAML, laid out as conf/")
    add("--outputs", type=Path, default=_OUTPUTS, metavar="DIR", help="where the runs are; else outputs")
    return made


def main(argv: Sequence[str]) -> int:
    """Run `embedrun claims`; DataError where a claim lacks runs."""
    given = _arguments(argv)
    from embedrun.plot import write_plot
    from embedrun.study import registration
    from embedrun.table.cells import Cells

    file = registration.read(given.file)
    slots = []
    if given.sd is None:
        slots = Cells([given.outputs], extra=given.overrides, config_dir=given.config_dir).find(file.of)
    if given.seal:
        made = file.make_seal(slots)
        say(f"sealed {made['sealed']}, commit {made['commit'] or 'unknown: this is no repository'}")
        say(f"wrote {file.seal}")
        return 0
    if given.plan:
        print(clean(_planned(file, {} if given.sd is not None else file.runs(slots), given)))
        return 0
    say(file.standing())
    decisions = file.decide(file.runs(slots))
    print(clean(file.shown(decisions, room(sys.stdout))))
    of = Path(file.table).stem if Path(file.table).suffix else file.table.replace("/", "_")
    path = given.outputs / "tables" / f"{of}_{file.path.stem}.png"
    if write_plot(path, partial(file.plot, decisions)):
        say(f"the differences are drawn in {path}")
    return 0


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    given = parser().read(argv)
    paths = [word for word in given.words if "=" not in word]
    given.overrides = with_runs([word for word in given.words if "=" in word])
    problems = misplaced(given.overrides, "claims")
    if len(paths) != 1:
        problems.append(f"embedrun claims: expected one file of claims, got {' '.join(paths) or 'none'}")
    if (given.sd is not None or given.difference is not None) and not given.plan:
        problems.append("embedrun claims: --sd and --difference go with --plan")
    if given.rows_sd and given.sd is None:
        problems.append("embedrun claims: --rows-sd goes with --sd")
    if any(value is not None and value < 0 for value in (given.sd, given.rows_sd)):
        problems.append("embedrun claims: --sd, --rows-sd: a standard deviation is 0 or more")
    if given.difference is not None and given.difference <= 0:
        problems.append("embedrun claims: --difference: must be above 0")
    if problems:
        raise ConfigError(problems)
    given.file = paths[0]
    return given


def _planned(file: "Registration", runs: "Runs", given: argparse.Namespace) -> str:
    """For each claim the seeds that it takes, from finished runs or for a stated deviation."""
    from embedrun.study.claims import MOST, POWER, Spreads, estimate, sides_of

    difference = given.difference or file.least
    if not difference:
        raise ConfigError(
            f"{file.name}: least is 0, which no number of seeds tells from 0; give --difference"
        )
    largest: dict[str, float] = {}
    if given.sd is not None:
        found = {"every claim": Spreads(given.sd, given.rows_sd)}
    else:
        found = {}
        for stated, claim in zip(file.claims, file.stated, strict=True):
            _, sides = sides_of(claim, runs)
            if min(map(len, sides)) > 1:
                found[stated.title] = Spreads.of(sides)
                largest[stated.title] = max(map(abs, estimate(*sides).interval()))
    if not found:
        raise ConfigError(
            f"{file.name}: --plan: no claim has two finished seeds a side; give --sd, or train two or more "
            f"with embedrun reproduce {file.table}"
        )
    cells = [["claim", "sd of seeds", "sd of rows", "seeds", "seeds, if sd is at its upper end"]]
    cells[0] += ["largest", "seeds for that"] if largest else []
    for name, spreads in found.items():
        asked = [(spreads, difference), (spreads.upper, difference)]
        asked += [(spreads, largest[name])] if largest else []
        needed = (one.needed(wanted, file.strictest) for one, wanted in asked)
        seeds = [f"over {MOST}" if one is None else str(one) for one in needed]
        if largest:
            seeds.insert(2, f"{largest[name]:.2f}")
        cells.append([name, f"{spreads.seeds:.2f}", f"{spreads.rows:.2f}", *seeds])
    told = "largest: the end of the 95 % interval of the difference so far that is farther from 0"
    return "\n".join([
        fitted(cells, room(sys.stdout), right=range(1, len(cells[0]))),
        "",
        f"to tell a true difference of {difference:g} from 0 with {POWER:.0%} power, at the level "
        f"{file.strictest:.2g} of the first claim of {len(file.claims)}",
        "upper end: the sd that these few runs underestimate in one of five studies",
        *([told] if largest else []),
    ])  # fmt: skip
