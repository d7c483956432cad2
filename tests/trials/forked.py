"""`embedrun` commands in forked processes: each on its own, without the seconds that imports take."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.context import ForkProcess
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, NoReturn

import pytest

from embedrun import signals
from embedrun.cli import main
from embedrun.launch import job

# What a training run imports at one time or another; a fork has it at once.
_IMPORTS = (
    "embedrun.commands.resume",
    "embedrun.experiment.training",
    "embedrun.launch.start",
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
_LOOK = 0.01  # seconds between two looks at a process

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

    def kill(self, *, jobs: bool = False) -> None:
        """`kill -9`, with the processes that it has started, where `forked_jobs` is around it, or without."""
        with contextlib.suppress(ProcessLookupError):
            if jobs:
                os.killpg(self.pid, signal.SIGKILL)
        self.process.kill()
        self.process.join()

    def left(self) -> list[int]:
        """Processes of its group that live on; it has a group where `forked_jobs` is around it."""
        return [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/stat") if self._has(path)]

    def _has(self, stat: Path) -> bool:
        try:
            state, _, group = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:  # it has just ended
            return False
        return state != "Z" and int(group) == self.pid


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


@contextlib.contextmanager
def forked_jobs() -> Iterator[None]:
    """Inside, the jobs of this command are forked, too, and they and it are one group of processes."""
    os.setpgrp()
    with pytest.MonkeyPatch.context() as patch:
        known = SimpleNamespace(Popen=_ForkedJob, TimeoutExpired=subprocess.TimeoutExpired)
        patch.setattr(job, "subprocess", known)
        yield


class _ForkedJob:
    """Stands in for `Popen` of a job: the same files and signals, no interpreter to be started."""

    def __init__(
        self,
        _: Sequence[str],
        *,
        stdin: IO[str],
        env: object,
        stdout: IO[bytes] | None = None,
        stderr: IO[bytes] | None = None,
        cwd: str | None = None,
        start_new_session: bool = False,
        pass_fds: Sequence[int] = (),
    ) -> None:
        sys.stdout.flush()
        self._code: int | None = None
        self.pid = os.fork()
        if not self.pid:  # without a session of its own, so that a test finds the whole group
            os.chdir(cwd or ".")
            _be_job(stdin.fileno(), None if stdout is None else stdout.fileno(), pass_fds)

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""
        if self._code is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if ended else None
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code."""
        until = time.monotonic() + (_LONG if timeout is None else timeout)
        while (code := self.poll()) is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired("job", timeout or _LONG)
            time.sleep(_LOOK)
        return code

    def kill(self) -> None:
        """As `kill -9`."""
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: int) -> None:
        """To it alone."""
        os.kill(self.pid, number)


def _be_job(given: int, output: int | None, keep: Sequence[int]) -> NoReturn:
    """The rest of a forked process's life: that of an interpreter started for `embedrun.launch.job`."""
    code = 1
    try:
        os.dup2(given, 0)
        for standard in (1, 2) if output is not None else ():
            os.dup2(output or 0, standard)
        # Locks of the process that forked it must not live on in it.
        for name in os.listdir("/proc/self/fd"):
            if int(name) > 2 and int(name) not in keep:
                with contextlib.suppress(OSError):
                    os.close(int(name))
        sys.stdin = os.fdopen(0, closefd=False)
        sys.stdout = sys.stderr = os.fdopen(1, "w", encoding="utf-8", closefd=False)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, signal.SIG_DFL)
        code = job.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(code)
