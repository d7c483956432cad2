"""How one run or job ended, and how its directory records it."""

import contextlib
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

from embedrun import signals
from embedrun.console import clean, say
from embedrun.errors import (
    DISK,
    OUT_OF_MEMORY,
    UNEXPECTED,
    DataError,
    EmbedrunError,
    RunFailed,
    exit_code,
    explain,
)
from embedrun.files import Plain
from embedrun.report.page import FILE, write_or_warn
from embedrun.runs.directory import Outcome, Run, holds_nothing
from embedrun.runs.reading import RunFiles, newest_first
from embedrun.runs.search import same_config


def finished(directory: str | None, config: Plain) -> Outcome | None:
    """How the run in a directory that the user named ended, if it has finished; that is also printed.

    Raises:
        ConfigError: if it is a run of another configuration.
    """
    if directory is None or not RunFiles.read(Path(directory), strict=False).is_finished:
        return None
    folder = Path(directory)
    same_config(folder, config)
    return _told(folder)


def ended(folder: Path, config: Plain) -> Outcome | None:
    """Mark a run as finished, and report it, if it was killed after everything was written.

    Raises:
        ConfigError: if it is a run of another configuration.
        EmbedrunError: exit 8, if another process writes into it.
    """
    if not (folder / "results.json").is_file():
        return None
    same_config(folder, config)
    complete(Run.claim(folder))
    return _told(folder)


def _told(folder: Path) -> Outcome:
    results = folder / "results.json"
    if not (main := RunFiles(folder).main):
        raise DataError(f"{results}: has no main score, though {folder} says that it has finished")
    say(f"{folder}: has finished; its scores are in {results}")
    return Outcome(str(folder), main)


# Failures that may not come again, unlike a loss that is not finite or a damaged checkpoint.
_MENDED = (DISK, OUT_OF_MEMORY, UNEXPECTED)


@contextlib.contextmanager
def recorded(make: Callable[[], Run]) -> Iterator[Run]:
    """Open a run directory; its `status.json` and `run.log` say how the block ended, in any case.

    Inside, every signal of `signals` ends the work as Ctrl-C does. A run that can be resumed says how.
    `make` makes or claims the directory.

    Raises:
        RunFailed: in place of an unexpected exception, with the place of its traceback.
    """
    with signals.raised():
        run = make()
        log = run.open_log()
        try:
            yield run
        except KeyboardInterrupt:
            log.warning("interrupted")
            _end(run, "interrupted", "interrupted")
            _say_how_to_go_on(run)
            raise
        except BaseException as fault:
            log.error("%s", explain(fault), exc_info=fault)
            _end(run, "failed", explain(fault))
            if exit_code(fault) in _MENDED and "embedrun resume" not in str(fault):
                _say_how_to_go_on(run)
            if isinstance(fault, EmbedrunError) or not isinstance(fault, Exception):
                raise
            where = run.path / "run.log"
            raise RunFailed(
                f"{explain(fault)}; the traceback is in {where}", exit_code=exit_code(fault)
            ) from fault
        complete(run)
        print("\n".join(way_on(run.path)), flush=True)


def way_on(folder: Path) -> list[str]:
    """Where the model and the page of a finished run are, and what to type next: three lines."""
    run, page = RunFiles(folder, strict=False), folder / FILE
    model = folder / "model"
    report = page.resolve().as_uri() if page.is_file() else f"embedrun report {shlex.quote(str(folder))}"
    return [
        clean(f"model   {model if model.is_dir() else run.config.get('model', '-')}"),
        clean(f"report  {report}"),
        clean(f"next    {_next(run)}"),
    ]


def _next(run: RunFiles) -> str:
    """The command of its tracker, else one that compares it with the run before it, else one that uses it."""
    folder, tracking = shlex.quote(str(run.path)), run.config.get("tracking") or {}
    if any(run.path.glob("wandb/offline-run-*")):
        return f"wandb sync {folder}/wandb/offline-run-*"
    if tracking.get("tensorboard"):
        return f"tensorboard --logdir {folder}/tensorboard"
    others = [RunFiles(path, strict=False) for path in run.path.parent.iterdir() if path != run.path]
    if before := newest_first(one for one in others if one.is_finished):
        return f"embedrun runs --diff {shlex.quote(str(before[0].path))} {folder}"
    return f"embedrun export {folder} my-model" if (run.path / "model").is_dir() else "embedrun runs"


def complete(run: Run) -> None:
    """Mark a run as finished, and write its page; a page that cannot be written is a warning."""
    run.end("finished")
    write_or_warn(run.path)


def _end(run: Run, state: str, error: str | None) -> None:
    """Record how a run ended; that this fails on a full disk must not hide what ended it."""
    with contextlib.suppress(OSError):
        run.end(state, error)


def _say_how_to_go_on(run: Run) -> None:
    if RunFiles(run.path).has_begun:
        say(
            f"embedrun resume {shlex.quote(str(run.path))} continues from what is done, with the same options"
        )
    elif holds_nothing(run.path):
        say(f"{run.path} holds nothing yet and can be deleted")
