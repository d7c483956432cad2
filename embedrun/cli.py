"""The `embedrun` command: one word picks one module of `embedrun.commands`."""

import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from embedrun import __version__, cycles, signals
from embedrun.config.check import nearest
from embedrun.console import clean, ignore_broken_pipes, masked, say
from embedrun.errors import USAGE, EmbedrunError, exit_code, explain

# By heading, word: what it does. The module is embedrun.commands.<word>.
GROUPS = {
    "train": {
        "train": "train, score and record one model, or with -m a multirun",
        "check": "compose and validate a training run, and say what it would do",
        "resume": "resume a run or an evaluation that did not finish",
        "tune": "hyperparameter search with optuna, by the best dev score; resumes, shares trials",
    },
    "score": {
        "evaluate": "score any encoder: a hub model, a folder, a finished run",
    },
    "compare": {
        "runs": "list runs, or compare two: the options that differ, their scores with confidence intervals",
        "report": "the page of a run, or of all runs below a folder: scores and curves in one HTML file",
        "table": "finished runs beside a paper's printed numbers, or a table of the runs below folders",
        "reproduce": "run the rows of a table, a paper's or your own, that are not done yet, then print it",
        "claims": "decide claims that were sealed before the first run, or plan how many seeds they take",
        "learning-curve": "the score by the number of training rows, and what more rows would bring",
        "pack": "a table with the runs, predictions and claims behind it, in one file for a reader",
        "verify": "recompute a packed table from its predictions, and list all that differs",
        "ablate": "train a recipe and variants without one thing each, and say what each is worth",
    },
    "data": {
        "data": "the local data store: list, fetch, verify and audit its files",
    },
    "make data": {
        "annotate": "score labelled pairs by the cosines of teacher encoders, in shards that resume",
        "generate": "let language models write pairs: same and opposite meaning, in shards that resume",
        "collect": "collect duplicate issues of GitHub repositories into a data set of pairs",
    },
    "ship": {
        "encode": "sentences to vectors: from a file or standard input to .npy or Parquet",
        "merge": "the mean of the weights of several runs, or of a run and its start",
        "export": "a finished run as a folder for transformers and sentence-transformers, with a model card",
    },
    "this machine": {
        "doctor": "versions, device and precision, data, hub, disk",
        "completion": "the shell completion script of bash or zsh",
    },
}
COMMANDS = {word: what for group in GROUPS.values() for word, what in group.items()}

_USAGE = """usage: embedrun COMMAND [ARGUMENT ...]

Train, score and reproduce sentence-embedding models.

{}

embedrun COMMAND --help says more; --version prints the version.

examples:
  embedrun train +experiment=quickstart
  embedrun evaluate model=sentence-transformers/all-MiniLM-L6-v2 evaluation=sts"""


def usage() -> str:
    """The text of `embedrun --help`."""
    width = max(map(len, COMMANDS))
    blocks = [
        "\n".join([f"{heading}:", *(f"  {word.ljust(width)}  {what}" for word, what in group.items())])
        for heading, group in GROUPS.items()
    ]
    return _USAGE.format("\n".join(blocks))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the process's exit code; never raises for a user's mistake."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments[1:]
    try:
        # Every command ends on a signal as it does on Ctrl-C: what is half done is cleared up.
        with signals.raised():
            return _run(arguments[:1] + [argument for argument in arguments[1:] if argument != "--debug"])
    except KeyboardInterrupt as stop:
        say("interrupted")
        return exit_code(stop)
    except SystemExit as stop:  # --help has been printed, or what Hydra displays
        return stop.code if isinstance(stop.code, int) else USAGE
    except Exception as fault:
        if debug:
            print(clean(masked(traceback.format_exc())), end="", file=sys.stderr)
        say(explain(fault))
        if not debug and not isinstance(fault, EmbedrunError):
            say("add --debug for the traceback")
        return exit_code(fault)


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage())
        return 0 if arguments else USAGE
    if arguments[0] == "--version":
        print(f"embedrun {__version__}")
        return 0
    word, *rest = arguments
    if word not in COMMANDS:
        say(f"embedrun has no command {word!r}{nearest(word, COMMANDS)} (it has: {', '.join(COMMANDS)})")
        return USAGE
    return import_module(f"embedrun.commands.{word.replace('-', '_')}").main(rest)


def entry() -> NoReturn:
    """The console script."""
    # OpenMP's threads spin while they wait, which on a machine with other work costs several times the
    # work itself. Read when torch is imported, so this is the last place to say it.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    cycles.starting()
    ignore_broken_pipes()
    signals.leave(main())
