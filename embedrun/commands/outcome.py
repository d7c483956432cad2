"""How one run or job ended, and how its directory says so."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from embedrun.errors import EmbedrunError, RunFailed, exit_code, explain
from embedrun.run import Run


@dataclass(frozen=True)
class Outcome:
    """How a job ended.

    Args:
        directory: of the run, or None if none was made.
        main: name and value of the score that stands for it, or None.
        error: the message, or None where it finished.
        code: exit code of the job.
    """

    directory: str | None = None
    main: dict[str, Any] | None = None
    error: str | None = None
    code: int = 0


@contextlib.contextmanager
def recorded(make: Callable[[], Run]) -> Iterator[Run]:
    """Make a run directory; its `status.json` and `run.log` say how the block ended, however it did."""
    run = make()
    log = run.open_log()
    try:
        yield run
    except KeyboardInterrupt:
        log.warning("interrupted")
        run.end("interrupted", "interrupted")
        raise
    except BaseException as fault:
        log.error("%s", explain(fault), exc_info=fault)
        run.end("failed", explain(fault))
        if isinstance(fault, EmbedrunError) or not isinstance(fault, Exception):
            raise
        where = run.path / "run.log"
        raise RunFailed(
            f"{explain(fault)}; the traceback is in {where}", exit_code=exit_code(fault)
        ) from fault
    run.end("finished")
