"""How a run starts, new or from a resume point, and how its directory says that it has ended."""

import contextlib
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
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
from embedrun.runs import search
from embedrun.runs.directory import Outcome, Run, config_hash, holds_nothing
from embedrun.runs.reading import RunFiles, newest_first
from embedrun.store import hub


@dataclass(frozen=True)
class Start:
    """What a configuration means on this machine now, settled before anything is planned.

    Args:
        config: with a directory for each ``run:NAME`` and a commit for each branch of the hub.
        resumed: the run directory to resume; None: a new run.
        asked: hash of the configuration before it was settled; None: settling changed nothing.
        result: that of the finished run which the configuration means; there is nothing left to do.
    """

    config: Plain
    resumed: Path | None = None
    asked: str | None = None
    result: Outcome | None = None


def settled(plain: Plain, directory: str | None, resumed: Path | None, *, automatic: bool) -> Start:
    """Settle where a training starts; `automatic`: look for a run to resume, or one that has finished."""
    if automatic:  # a resumed run must find the model that it began with, whatever has finished since
        config = search.settled_as_begun(plain, directory, hub.pinned)
        if directory is not None and RunFiles.read(Path(directory), strict=False).is_finished:
            search.same_config(Path(directory), config)
            return Start(config, result=result_of(Path(directory)))
        resumed = search.unfinished(str(config.get("name")), config, directory)
    else:
        config = search.settled_for(plain, resumed, hub.pinned)
    if resumed is not None:
        search.same_config(resumed, config)
        if automatic and (resumed / "results.json").is_file():  # it was killed when all was written
            mark_finished(Run.claim(resumed))
            return Start(config, result=result_of(resumed))
    return Start(config, resumed, None if config == plain else config_hash(plain))


def resumes(plain: Mapping[str, object]) -> bool:
    """Whether `training.resume=auto` is asked for, of a configuration that has not been checked."""
    training = plain.get("training")
    return isinstance(training, Mapping) and training.get("resume") == "auto"


def result_of(folder: Path) -> Outcome:
    """The result of a finished run, which is also printed."""
    results = folder / "results.json"
    if not (main := RunFiles(folder).main):
        raise DataError(f"{results}: has no main score, though {folder} says that it has finished")
    say(f"{folder}: has finished; its scores are in {results}")
    return Outcome(str(folder), main)


# Failures that may not come again, unlike a loss that is not finite or a damaged checkpoint.
_PASSING = (DISK, OUT_OF_MEMORY, UNEXPECTED)


@contextlib.contextmanager
def open_run_directory(make: Callable[[], Run]) -> Iterator[Run]:
    """Open a run directory; its `status.json` and `run.log` say how the block ended, in any case.

    Inside, every signal of `signals` ends the work as Ctrl-C does. A run that can be resumed says how.
    """
    with signals.raised():
        run = make()
        log = run.open_log()
        try:
            yield run
        except KeyboardInterrupt:
            log.warning("interrupted")
            _end(run, "interrupted", "interrupted")
            _say_how_to_resume(run)
            raise
        except BaseException as fault:
            log.error("%s", explain(fault), exc_info=fault)
            _end(run, "failed", explain(fault))
            if exit_code(fault) in _PASSING and "embedrun resume" not in str(fault):
                _say_how_to_resume(run)
            if isinstance(fault, EmbedrunError) or not isinstance(fault, Exception):
                raise
            where = run.path / "run.log"
            raise RunFailed(
                f"{explain(fault)}; the traceback is in {where}", exit_code=exit_code(fault)
            ) from fault
        mark_finished(run)
        print("\n".join(next_steps(run.path)), flush=True)


def mark_finished(run: Run) -> None:
    """Mark a run as finished, and write its page; a page that cannot be written is a warning."""
    run.end("finished")
    write_or_warn(run.path)


def _end(run: Run, state: str, error: str | None) -> None:
    """Save how a run ended; that this fails on a full disk must not hide what ended it."""
    with contextlib.suppress(OSError):
        run.end(state, error)


def _say_how_to_resume(run: Run) -> None:
    if RunFiles(run.path).has_begun:
        say(
            f"embedrun resume {shlex.quote(str(run.path))} continues from what is done, with the same options"
        )
    elif holds_nothing(run.path):
        say(f"{run.path} holds nothing yet and can be deleted")


def next_steps(folder: Path) -> list[str]:
    """Where the model and the page of a finished run are, and what to type next: three lines."""
    run, page, model = RunFiles(folder, strict=False), folder / FILE, folder / "model"
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
    if before := newest_first(other for other in others if other.is_finished):
        return f"embedrun runs --diff {shlex.quote(str(before[0].path))} {folder}"
    return f"embedrun export {folder} my-model" if (run.path / "model").is_dir() else "embedrun runs"
