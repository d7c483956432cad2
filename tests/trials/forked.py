"""`embedrun` commands in forked processes: each on its own, without the seconds that imports take."""

import contextlib
import multiprocessing
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

from embedrun import signals
from embedrun.cli import main

# What a training run imports at one time or another; a fork has it at once.
_IMPORTS = (
    "embedrun.commands.resume",
    "embedrun.experiment.training",
    "embedrun.commands.command_line",
    "embedrun.launch.sweep",
    "embedrun.commands.train",
    "embedrun.training.workers",
    "embedrun.backbone.ran",
    "hydra",
    "matplotlib.backends.backend_agg",
    "matplotlib.figure",
    "pandas",
    "pyarrow.compute",
    "pyarrow.parquet",
    "scipy.stats",
    "tokenizers.trainers",
    "transformers.convert_slow_tokenizer",
    "transformers.models.auto.modeling_auto",
    "transformers.models.bert.modeling_bert",
    "transformers.models.bert.tokenization_bert",
    "yaml",
)

_LONG = 300.0  # seconds

Around = Callable[[], contextlib.AbstractContextManager[Any]]


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Args:
        code: its exit code; the negative number of a signal that killed it.
        said: on standard output and error.
    """

    code: int
    said: str


@dataclass(frozen=True)
class Started:
    """A command that runs."""

    process: ForkProcess
    output: Path

    @property
    def pid(self) -> int:
        """Its number."""
        assert self.process.pid is not None
        return self.process.pid

    def end(self) -> Ended:
        """Wait for it."""
        self.process.join(_LONG)
        code = self.process.exitcode
        self.process.kill()  # what still runs hangs
        said = self.output.read_text(encoding="utf-8")
        assert code is not None, said
        return Ended(code, said)

    def kill(self) -> None:
        """`kill -9`."""
        self.process.kill()
        self.process.join()


def warm_up() -> None:
    """Import what the commands need, so that they need not."""
    for name in _IMPORTS:
        import_module(name)


def start(folder: Path, *arguments: str, around: Around = contextlib.nullcontext) -> Started:
    """Start a command.

    Args:
        folder: where it runs; what it says is in `output.txt` there.
        arguments: of `embedrun`.
        around: entered in its process first; what is to go wrong there.
    """
    output = folder / "output.txt"
    process = multiprocessing.get_context("fork").Process(target=_run, args=(folder, arguments, around))
    process.start()
    return Started(process, output)


def run(folder: Path, *arguments: str, around: Around = contextlib.nullcontext) -> Ended:
    """Run a command to its end."""
    return start(folder, *arguments, around=around).end()


def _run(folder: Path, arguments: tuple[str, ...], around: Around) -> None:
    os.chdir(folder)
    with Path("output.txt").open("w", encoding="utf-8") as file:
        sys.stdout = sys.stderr = file
        for descriptor in (1, 2):  # what is not Python writes there
            os.dup2(file.fileno(), descriptor)
        with around():
            signals.leave(main(arguments))
