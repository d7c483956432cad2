"""Search options for the best dev score; after a stop, run the same command to resume the search."""

import argparse
import shlex
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from embedrun.commands.command_line import Parser, with_runs
from embedrun.commands.reproduce import main_score, trained
from embedrun.config.yaml_file import expanded
from embedrun.console import clean, fitted, room, say, score_text, spread_text
from embedrun.errors import ConfigError, RunFailed, install_extra
from embedrun.evaluation.seeds import Spread
from embedrun.table.preset import Cell, Row, Table

if TYPE_CHECKING:
    from embedrun.study.trials import Study
    from embedrun.study.tune import TunePlan

_EPILOG = """distributions of a searched option; all other overrides are as in embedrun train:
  loguniform(a,b)   a number, its logarithm uniform
  uniform(a,b)      a number
  int(a,b[,step])   a whole number
  logint(a,b)       a whole number, its logarithm uniform
  choice(x,y,...)   one of these: numbers, words, or choices of a group

Trials are compared by their best dev score, which also selects the checkpoint. Test sets are scored only with
evaluation=..., and never decide. The folder outputs/NAME/tune/STUDY has journal.log, study.csv, best.yaml,
plots, and a run directory for each trial. If you start the command several times at once, also on machines
that share the folder, the processes share the trials; CUDA_VISIBLE_DEVICES gives each its own device.

examples:
  embedrun tune +experiment=quickstart --trials 20 \\
      'training.lr=loguniform(1e-4,1e-2)'
  embedrun tune +experiment=quickstart --trials 20 --confirm 5 \\
      'training.lr=loguniform(1e-4,1e-2)'
  embedrun tune +experiment=angle_stsb --trials 30 --study first \\
      'training.lr=loguniform(1e-6,1e-4)' 'pooling=choice(cls,mean)'"""


def parser() -> Parser:
    """The parser of `embedrun tune`."""
    made = Parser(
        "embedrun tune",
        usage="%(prog)s [group=choice|option=value|option=DISTRIBUTION ...]\n                     --trials N",
        description=__doc__,
        examples=_EPILOG,
        root="train",
    )
    add = made.add_argument
    searched = "a YAML file of options, and Hydra overrides, some with a distribution"
    add("overrides", nargs="*", metavar="FILE.yaml|option=DISTRIBUTION", help=searched)
    trials = "stop when the study has N finished or pruned trials, earlier ones included"
    add("--trials", type=int, required=True, metavar="N", help=trials)
    add("--study", metavar="NAME", help="name of the study; else a hash of the options and distributions")
    confirm = "then train the best three trials with N new seeds each, and say what is left of their scores"
    add("--confirm", type=int, default=0, metavar="N", help=confirm)
    add("--no-prune", action="store_true", help="do not stop trials worse than the median of the others")
    add("--config-dir", "-cd", type=Path, help="a folder with your own YAML, laid out as conf/")
    add("--debug", action="store_true", help="show the traceback of a failure")
    return made


def main(argv: Sequence[str]) -> int:
    """Run `embedrun tune`; every fault of options, at the ends of ranges, or of data comes first."""
    given = parser().read(argv)
    if given.trials < 1:
        raise ConfigError(f"--trials: must be at least 1, got {given.trials}")
    if given.confirm < 0:
        raise ConfigError(f"--confirm: must be at least 0, got {given.confirm}")
    if find_spec("optuna") is None:
        raise ConfigError(f"tune needs optuna; {install_extra('hpo')}")
    from embedrun.study.trials import Study
    from embedrun.study.tune import draw, marks, plan_tune, run, search, table, write

    plan = plan_tune(with_runs(expanded(given.overrides, "train")), given.config_dir, given.study)
    data = marks(plan)
    study = Study(
        plan.folder(given.study),
        plan.searched,
        seed=plan.config["seed"],
        lowest=plan.lowest,
        prunes=not given.no_prune,
    )
    study.check(plan.options, data)
    say(f"study {study.folder}: {study.done()} of {given.trials} trials are done")
    try:
        search(study, given.trials, lambda claim: run(plan, study, claim), lambda: write(study, plan))
    except KeyboardInterrupt:
        say(f"{study.done()} of {given.trials} trials are done; run the same command to resume")
        raise
    best = study.best()
    if best is None:
        raise RunFailed(f"{study.folder}: no trial has finished; study.csv says why each failed")
    if study.done() < given.trials:
        say(f"every combination of values has been tried: {study.done()} trials, not {given.trials}")
    draw(study, plan.searched)
    print(table(study, plan.searched))
    folder = plan.request.config_dir
    place = [] if folder is None else ["--config-dir", str(folder)]
    print(f"\n{clean(shlex.join(['embedrun', 'train', *plan.overrides(best.values), *place]))}")
    return _confirm(given, plan, study) if given.confirm else 0


_FINALISTS = 3


def _confirm(given: argparse.Namespace, plan: "TunePlan", study: "Study") -> int:
    """Train the best trials with new seeds, and show what they have then; 1 if one failed."""
    finalists, first = study.ranking()[:_FINALISTS], int(plan.config["seed"]) + 1
    words = {f"trial {row.number}": tuple(plan.overrides(row.values)) for row in finalists}
    rows = [Row(label, cells=(Cell("train", own, ("score",)),)) for label, own in words.items()]
    seeds = list(range(first, first + given.confirm))
    table = Table(name="confirm", title="Finalists", rows=rows, seeds=seeds, columns=())
    runs = trained(table, plan.typed, config_dir=given.config_dir)
    if isinstance(runs, int):
        return runs
    key, main_key = study.metric or "score", main_score(runs, "tune")
    cells = [["trial", f"{key} found", f"{key} on new seeds", main_key]]
    for row, by_seed in zip(finalists, runs.values(), strict=True):
        spreads = []
        for name in (key, main_key):
            one = Spread.of([run.scores[name] for run in by_seed.values() if name in run.scores])
            spreads.append(spread_text(name, one and one.mean, one and one.sd))
        cells.append([str(row.number), score_text(key, row.score), *spreads])
    print(f"\n{clean(fitted(cells, room(), right=(0, 1, 2, 3)))}\n")
    say(f"{given.confirm} seeds each, from {first} on; what was found is the best of {study.done()} trials")
    return 0
