"""Train a recipe on growing parts of its rows, and say what more rows would bring."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from embedrun.commands.command_line import Parser, seed_list
from embedrun.commands.reproduce import main_score, recipe_of, trained
from embedrun.console import clean, fitted, room, say, score_text, spread_text
from embedrun.errors import ConfigError
from embedrun.evaluation.seeds import Spread
from embedrun.runs.reading import RunFiles

if TYPE_CHECKING:
    from embedrun.study.learning_curve import PowerLaw

_EPILOG = """A seed draws the rows, and each part holds the smaller ones. What has finished is not run again.
The power law is checked on the largest part: the others predict it.

examples:
  embedrun learning-curve +experiment=quickstart --fractions 0.1,0.2,0.4,0.8 --seeds 1,2,3
  embedrun learning-curve +experiment=angle_stsb --dry-run"""


def parser() -> Parser:
    """The parser of `embedrun learning-curve`."""
    made = Parser(
        "embedrun learning-curve",
        usage="%(prog)s +experiment=NAME [option=value ...]\n"
        "                               [--fractions 0.05,0.1,0.2] [--seeds 1,2,3] [--dry-run]",
        description=__doc__,
        examples=_EPILOG,
    )
    add = made.add_argument
    add("words", nargs="*", metavar="option=value", help="the recipe, as of embedrun train")
    parts = "of the training rows, three or more; else 0.05,0.1,0.2,0.4,0.8"
    add("--fractions", default="0.05,0.1,0.2,0.4,0.8", metavar="F,F,F", help=parts)
    add("--seeds", default="1,2,3", metavar="1,2,3", help="else 1,2,3")
    add("--config-dir", "-cd", type=Path, metavar="DIR", help="your own YAML, laid out as conf/")
    add("--dry-run", action="store_true", help="list the runs and what they cost, run nothing")
    return made


def main(argv: Sequence[str]) -> int:
    """Run `embedrun learning-curve`; exit code 1 if a run failed."""
    given = parser().read(argv)
    given.seeds = seed_list(given.seeds, "learning-curve") or (1, 2, 3)
    fractions = _fractions(given.fractions)
    config = recipe_of(given)
    from embedrun.study.learning_curve import table_of

    table = table_of(given.overrides, fractions, given.seeds)
    more = {"hydra": given.hydra, "config_dir": given.config_dir, "dry_run": given.dry_run}
    runs = trained(table, given.overrides, **more)
    if isinstance(runs, int):
        return runs
    key = main_score(runs, "learning-curve")
    points = [
        (int(RunFiles(run.path).results["counts"]["train_rows"]), run.scores[key])
        for by_seed in runs.values()
        for run in by_seed.values()
    ]
    _show(points, key, str(config["name"]))
    return 0


def _fractions(text: str) -> list[float]:
    try:
        found = sorted({float(word) for word in text.split(",")})
    except ValueError:
        found = []
    if len(found) < 3 or found[0] <= 0 or found[-1] > 1:
        raise ConfigError(
            f"embedrun learning-curve: --fractions: {text!r} is not three or more shares of the rows, above "
            "0 and at most 1, as 0.1,0.2,0.4"
        )
    return found


def _show(points: Sequence[tuple[int, float]], key: str, name: str) -> None:
    from embedrun.plot import learning_curve
    from embedrun.study.learning_curve import fitted_law, held_out

    law = fitted_law(points)
    cells = [["rows", key, "power law", "95 % of a run"]]
    sizes = sorted({rows for rows, _ in points})
    for size in (*sizes, *((2 * sizes[-1], 4 * sizes[-1]) if law else ())):
        spread = Spread.of([score for rows, score in points if rows == size])
        own = spread_text(key, spread and spread.mean, spread and spread.sd)
        mean, *ends = law.at(size) if law else (None,)
        between = " to ".join(score_text(key, end) for end in ends)
        cells.append([f"{size:,}", own, score_text(key, mean), between])
    print(clean(fitted(cells, room(), right=(0, 1, 2))))
    print(_checked(held_out(points), key) if law else "the runs tell no power law; nothing is predicted")
    path = Path("outputs", "tables", f"learning_curve_{name}.png")
    path.parent.mkdir(parents=True, exist_ok=True)
    line = [(size, *law.at(size)) for size in np.geomspace(sizes[0], 4 * sizes[-1], 100)] if law else []
    learning_curve(points, line, ("training rows", key), path)
    say(f"plot  {path}")


def _checked(held: "tuple[int, float, PowerLaw | None]", key: str) -> str:
    """What the smaller parts predict of the largest, beside what was measured."""
    size, measured, law = held
    if law is None:
        return "\nwithout the largest part the runs tell no power law, so that the prediction is not checked"
    mean, low, high = law.at(size)
    standing = "inside" if low <= measured <= high else "OUTSIDE: do not rely on the prediction"
    told = f"{score_text(key, mean)} ({score_text(key, low)} to {score_text(key, high)}) at {size:,} rows"
    return f"\nchecked: the smaller parts predict {told}; {score_text(key, measured)} is measured, {standing}"
