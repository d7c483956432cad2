"""How each job of a multirun ended, and which was best: what the summary says."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from embedrun.errors import INTERRUPTED, TERMINATED
from embedrun.runs.directory import Outcome
from embedrun.runs.reading import SELECTED_BY

FINISHED, BEFORE, FAILED, STOPPED, WAITING = (
    "finished", "finished before", "failed", "interrupted", "not started",
)  # fmt: skip
_DEV = "_dev/spearman"  # ends the key of the score that selects where none is named


@dataclass(frozen=True)
class Result:
    """One job.

    Args:
        number: in the multirun.
        overrides: of the job.
        state: finished, finished before, failed, interrupted, or not started.
        main: key and value of the score that stands for it; empty where there is none.
        dev: the same of the dev score that selects.
        directory: of the run, or None.
        reason: why it failed; empty where it has not.
        lowest: whether a lower dev score is better.
    """

    number: int
    overrides: tuple[str, ...]
    state: str
    main: tuple[str, float] | None = None
    dev: tuple[str, float] | None = None
    directory: str | None = None
    reason: str = ""
    lowest: bool = False

    @property
    def options(self) -> dict[str, str]:
        """The overrides by option, as they were typed."""
        parts = (override.lstrip("+~").partition("=") for override in self.overrides)
        return {key: value for key, _, value in parts}


@dataclass(frozen=True)
class Results:
    """All jobs of a multirun.

    Args:
        jobs: in order.
        metric: key of the score by which the best is told; None where no job has one.
        lowest: whether a lower one is better.
    """

    jobs: Sequence[Result]
    metric: str | None = field(init=False)
    lowest: bool = field(init=False)

    def __post_init__(self) -> None:
        done = [job for job in self.jobs if job.main is not None or job.dev is not None]
        dev = _common(done, "dev")
        object.__setattr__(self, "metric", _common(done, "main") if dev is None else dev)
        object.__setattr__(self, "lowest", dev is not None and all(job.lowest for job in done))

    def score(self, job: Result) -> float | None:
        """Its score by `metric`."""
        own = [pair[1] for pair in (job.dev, job.main) if pair is not None and pair[0] == self.metric]
        return own[0] if own else None

    @property
    def best(self) -> Result | None:
        """The job with the best score, the first of several."""
        scored = [(score, job) for job in self.jobs if (score := self.score(job)) is not None]
        sign = 1 if self.lowest else -1
        return min(scored, key=lambda pair: sign * pair[0])[1] if scored else None

    @property
    def swept(self) -> list[str]:
        """The options whose values differ."""
        options = [job.options for job in self.jobs]
        keys = dict.fromkeys(key for own in options for key in own)
        return [key for key in keys if len({own.get(key) for own in options}) > 1]

    def counted(self) -> dict[str, int]:
        """How many jobs are in each state."""
        states = [job.state for job in self.jobs]
        return {state: states.count(state) for state in (FINISHED, BEFORE, FAILED, STOPPED, WAITING)}


def result(
    number: int,
    overrides: Sequence[str],
    config: Mapping[str, Any],
    outcome: Outcome,
    *,
    before: bool = False,
) -> Result:
    """What became of one job.

    Args:
        number: in the multirun.
        overrides: of the job.
        config: resolved plain data.
        outcome: of the job; its directory may be that of a run that failed.
        before: whether it had finished in an earlier attempt.
    """
    training = config.get("training")
    chosen = training if isinstance(training, Mapping) else {}
    main = outcome.main or {}
    found = _found(outcome.directory) if not outcome.error else {}
    reason = " ".join((outcome.error or "").split())
    return Result(
        number=number,
        overrides=tuple(overrides),
        state=_state(outcome, reason, before=before),
        main=_pair(main.get("name"), main.get("value")),
        dev=_dev(chosen.get("select_by"), found),
        directory=outcome.directory,
        reason=reason,
        lowest=bool(chosen.get("select_lowest")),
    )


def _state(outcome: Outcome, reason: str, *, before: bool) -> str:
    if not outcome.error:
        return BEFORE if before else FINISHED
    if reason == WAITING:
        return WAITING
    return STOPPED if outcome.code in (INTERRUPTED, TERMINATED) else FAILED


def _common(jobs: Sequence[Result], name: str) -> str | None:
    """The key that all jobs have."""
    pairs = [getattr(job, name) for job in jobs]
    keys = {None if pair is None else pair[0] for pair in pairs}
    return keys.pop() if len(keys) == 1 else None


def _dev(chosen: Any, found: Mapping[str, Any]) -> tuple[str, float] | None:
    """The score that selected; of a run that has not noted its key, what the configuration says."""
    scores, notes = _mapping(found.get("scores")), _mapping(found.get("notes"))
    known = notes.get(SELECTED_BY) or chosen
    key = known if isinstance(known, str) else next((key for key in scores if key.endswith(_DEV)), "")
    return _pair(key, scores.get(key))


def _pair(key: Any, value: Any) -> tuple[str, float] | None:
    return (key, float(value)) if isinstance(key, str) and isinstance(value, int | float) else None


def _mapping(found: Any) -> Mapping[str, Any]:
    return found if isinstance(found, Mapping) else {}


def _found(directory: str | None) -> dict[str, Any]:
    try:
        return dict(json.loads((Path(directory or "") / "results.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}
