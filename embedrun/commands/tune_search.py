"""The search itself: claim a trial, run it, write down how it ended, until there are enough."""

from collections.abc import Callable, Mapping
from typing import Any

from embedrun.commands.tune_claim import Claim, Ended
from embedrun.commands.tune_study import Row, Study
from embedrun.console import say
from embedrun.errors import RunFailed

_MOST_FAILURES = 5  # in a row; what fails so often fails always


def search(study: Study, wanted: int, run: Callable[[Claim], Ended], after: Callable[[], None]) -> None:
    """Run trials until the study has as many as are wanted, or all combinations of values have been tried.

    Args:
        study: that is open.
        wanted: finished and pruned trials, in all and of all processes.
        run: runs one trial.
        after: called when one has ended.

    Raises:
        RunFailed: if so many trials in a row failed that the others would, too.
    """
    failures = 0
    while (claim := study.claim(wanted, _say_waiting)) is not None:
        say(f"trial {claim.number} {'goes on' if claim.again else 'begins'}: {shown(claim.values)}")
        ended = study.finish(claim, run(claim))
        say(_line(claim.number, ended, study, wanted))
        after()
        failures = failures + 1 if ended.reason is not None else 0
        if failures == _MOST_FAILURES:
            raise RunFailed(
                f"{failures} trials in a row failed, the last because: {ended.reason}; mend that, and the "
                f"same command goes on. What each printed is in {study.folder}"
            )


def shown(values: Mapping[str, Any]) -> str:
    """Values of searched options on one line."""
    return " ".join(f"{name}={value}" for name, value in values.items())


def score_text(row: Row) -> str:
    """A score as a table shows it."""
    return "" if row.score is None else f"{row.score:.2f}"


def _line(number: int, ended: Ended, study: Study, wanted: int) -> str:
    best = study.best()
    so_far = "none finished yet" if best is None else f"best {score_text(best)} of trial {best.number}"
    if ended.reason is not None:
        return f"trial {number} failed: {' '.join(ended.reason.split())} ({so_far})"
    row = study.rows()[number]
    what = "pruned at" if ended.pruned else study.metric
    return f"trial {number} ({study.done()} of {wanted}): {what} {score_text(row)} ({so_far})"


def _say_waiting(numbers: list[int]) -> None:
    which = f"trial{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
    say(f"waiting for {which}, which another process runs; Ctrl-C leaves it to that")
