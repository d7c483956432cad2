"""A study on disk: optuna's journal, claimed trials, and the values of the next one."""

import itertools
import math
import time
import warnings
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState
from scipy.stats.qmc import Sobol

from embedrun.console import clean, say
from embedrun.errors import ConfigError, DataError
from embedrun.files import Lock, Plain, unwritable
from embedrun.runs.reading import SAME_CODE, as_text
from embedrun.study.distributions import Searched

_EVEN = 8  # trials before any is proposed by the scores of others; a power of two, as the sequence asks for
_DRAWS = 50  # proposals that may all have been tried before; only a small search space needs more than one
_MOST = 100_000  # combinations of values that are listed to find those that are left
POLL = 1.0  # seconds between checks of the trials of other processes
_STARTUP = 5  # finished trials before any is pruned: a median of fewer means little
_WIDTH = 60  # characters of an option's value in a message
_REASON = 300  # characters of a failed trial's message that the journal keeps
_STATES = {"COMPLETE": "finished", "FAIL": "failed"}  # optuna's; the others are words already


@dataclass(frozen=True)
class Ended:
    """How one trial ended: with its best value of the dev score `metric`, pruned, or failed for a reason."""

    metric: str | None = None
    score: float | None = None
    pruned: bool = False
    reason: str | None = None


@dataclass(frozen=True)
class Row:
    """The record of one trial: finished, pruned, failed, running or waiting.

    `score` is the best dev score, of a pruned trial the last one; `values` are by option; `seconds` is the
    duration with all attempts, and `reason` says why it failed.
    """

    number: int
    state: str
    score: float | None
    values: Plain
    seconds: float | None
    reason: str | None


class Claim:
    """A trial that this process runs, until `Study.finish` or the end of the process.

    The `lock` is held; a child that shares it keeps the trial claimed. `again` is whether an earlier process
    began the trial, `number` counts trials from 0, and `values` are by option.
    """

    def __init__(self, trial: optuna.Trial, lock: Lock, *, again: bool) -> None:
        self.trial, self.lock, self.again = trial, lock, again
        self.number: int = trial.number
        self.values: dict[str, Any] = dict(trial.params)
        self._reported = set(trial.study.trials[self.number].intermediate_values)  # by an earlier attempt

    def report(self, step: int, score: float) -> bool:
        """Record a dev score as it arrives; true if the trial does worse than the median of the others."""
        if step in self._reported:
            return False
        self._reported.add(step)
        self.trial.report(score, step)
        return self.trial.should_prune()


def propose(
    trials: Sequence[FrozenTrial], searched: Sequence[Searched], *, seed: int, number: int, lowest: bool
) -> dict[str, Any] | None:
    """Values that no trial has had; None where all have been tried.

    The first eight trials are points of a scrambled Sobol sequence, which cover every range evenly; one time
    in three, eight independent draws leave a third of a range out. Later trials are from a tree-structured
    Parzen estimator. Both are seeded with `seed`, of the search, and `number`, of the trial: a search that
    was killed proposes what it would have proposed, and two workers propose different values.
    """
    tried = {_key(trial.params) for trial in trials}
    left = _untried(searched, tried)
    if left == []:
        return None
    if number < _EVEN:
        point = Sobol(len(searched), rng=seed).random(_EVEN)[number].tolist()  # (options,)
        values = {option.name: option.at(share) for option, share in zip(searched, point, strict=True)}
        if _key(values) not in tried:
            return values
    state = int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what optuna calls experimental
        memory = optuna.create_study(
            direction="minimize" if lowest else "maximize",
            # Options are sampled jointly; running trials count as bad, so that they are not proposed again.
            sampler=optuna.samplers.TPESampler(
                seed=state, n_startup_trials=_EVEN, multivariate=True, constant_liar=True
            ),
        )
        memory.add_trials([trial for trial in trials if trial.state != TrialState.WAITING])
        for _ in range(_DRAWS):
            drawn = memory.ask({option.name: option.distribution for option in searched})
            values = {option.name: option.rounded(drawn.params[option.name]) for option in searched}
            if _key(values) not in tried:
                return values
            memory.tell(drawn, state=TrialState.FAIL)
    return left[0] if left else None


def _key(values: Plain) -> Hashable:
    return frozenset(values.items())


def _untried(searched: Sequence[Searched], tried: set[Hashable]) -> list[dict[str, Any]] | None:
    """The combinations of values that no trial has had; None if a float is searched, or of very many."""
    every = [values for option in searched if (values := option.every()) is not None]
    if len(every) < len(searched) or math.prod(map(len, every)) > _MOST:
        return None
    combinations = (
        dict(zip((option.name for option in searched), values, strict=True))
        for values in itertools.product(*every)
    )
    return [values for values in combinations if _key(values) not in tried]


class Study:
    """A study in its folder, new or resumed: optuna's journal, and a lock file for each running trial.

    `prunes` is whether trials that do worse than the median are stopped early, `lowest` whether a lower score
    is better.
    """

    def __init__(
        self, folder: Path, searched: Sequence[Searched], *, seed: int, lowest: bool, prunes: bool
    ) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.folder, self.lowest = folder, lowest
        self._searched, self._seed, self._locks = tuple(searched), seed, folder / ".locks"
        if why := unwritable(self._locks):
            raise ConfigError(f"--study: {why}; start the search in another folder")
        self._locks.mkdir(parents=True, exist_ok=True)
        self._claiming = Lock(self._locks / "study")
        journal = folder / "journal.log"
        # optuna's own locks are files that a killed process leaves behind, and the next one waits for.
        lock = Lock(self._locks / "journal")
        with self._claiming:
            with lock:
                _end_at_a_line(journal)
            try:
                self._storage = JournalStorage(JournalFileBackend(str(journal), lock))  # type: ignore[arg-type]
                self._study = optuna.create_study(
                    study_name=folder.name,
                    storage=self._storage,
                    direction="minimize" if lowest else "maximize",
                    pruner=optuna.pruners.MedianPruner(_STARTUP) if prunes else optuna.pruners.NopPruner(),
                    load_if_exists=True,
                )
            except (ValueError, LookupError, TypeError, AssertionError) as fault:
                raise DataError(
                    f"{journal}: cannot be read ({fault!r}); restore an earlier copy of it, or start another "
                    "study with --study"
                ) from fault

    def check(self, options: Plain, data: Mapping[str, list[str]]) -> None:
        """Refuse to resume with other options or data than the study began with, which are recorded first.

        `options` are those that decide the results besides the searched ones, by dotted key; `data` has the
        sorted fingerprints of what the trials read, by name.
        """
        now = {**options, **{option.name: option.text for option in self._searched}}
        with self._claiming:
            began = self._began_with("options", now)
            other = {key: None for key in {**began, **now} if began.get(key) != now.get(key)}
            marks = {} if other else self._began_with("data", data)
        problems = [
            f"{key}: {as_text(began.get(key), _WIDTH)} -> {as_text(now.get(key), _WIDTH)} since "
            f"study {self.folder.name} began; change it back, or name another study with --study"
            for key in other
        ] or [
            f"{name}: is not what study {self.folder.name} began with; restore it, or name another study "
            "with --study"
            for name, mark in data.items()
            if [SAME_CODE.get(value, value) for value in marks.get(name, mark)] != mark
        ]
        if problems:
            raise ConfigError(problems)

    def _began_with(self, what: str, now: Plain) -> Plain:
        if what not in self._study.user_attrs:
            self._study.set_user_attr(what, dict(now))
        return self._study.user_attrs[what]

    @property
    def metric(self) -> str | None:
        """Key of the dev score; None before the first trial has one."""
        return self._study.user_attrs.get("metric")

    def rows(self) -> list[Row]:
        """All trials, in the order in which they began."""
        return [
            Row(
                trial.number,
                _STATES.get(trial.state.name, trial.state.name.lower()),
                trial.value,
                trial.params,
                None if trial.duration is None else round(trial.duration.total_seconds(), 3),
                trial.user_attrs.get("reason"),
            )
            for trial in self._study.get_trials(deepcopy=False)
        ]

    def done(self) -> int:
        """Number of finished and pruned trials, which are those that count."""
        return sum(row.state in ("finished", "pruned") for row in self.rows())

    def ranking(self) -> list[Row]:
        """The finished trials, the best first; the first of equals before the others."""
        finished = [row for row in self.rows() if row.state == "finished" and row.score is not None]
        return sorted(finished, key=lambda row: (row.score or 0) * (1 if self.lowest else -1))

    def best(self) -> Row | None:
        """The finished trial with the best score."""
        return next(iter(self.ranking()), None)

    def claim(self, wanted: int) -> Claim | None:
        """The next trial to run; None once `wanted` trials are finished or pruned, or all values are tried.

        A trial that a dead process left is resumed before a new one is proposed. While the trials that other
        processes run would make up the number wanted, this waits, since one of them may fail or be killed.
        """
        notified = False
        while True:
            with self._claiming:
                claim, running = self._next(wanted)
            if claim is not None or not running:
                return claim
            if not notified:
                which = ", ".join(map(str, running))
                say(f"waiting for trials that other processes run: {which}; Ctrl-C leaves them to these")
            notified = True
            time.sleep(POLL)

    def _next(self, wanted: int) -> tuple[Claim | None, list[int]]:
        """A trial for this process, or the numbers of those to wait for; the study must be locked."""
        trials, states = self._study.get_trials(deepcopy=False), [row.state for row in self.rows()]
        done = self.done()
        running = [number for number, state in enumerate(states) if state == "running"]
        if done >= wanted:
            return None, []
        for number in running:
            lock = self._lock(number)
            if lock.acquire(wait=False):  # its process is dead
                # Keeps what is stored of the trial; optuna's own way would be a new one with its values.
                study = self._storage.get_study_id_from_name(self.folder.name)
                stored = self._storage.get_trial_id_from_study_id_trial_number(study, number)
                return Claim(optuna.Trial(self._study, stored), lock, again=True), []
        if done + len(running) >= wanted:
            return None, running
        if "waiting" not in states:
            values = propose(trials, self._searched, seed=self._seed, number=len(trials), lowest=self.lowest)
            if values is None:
                return None, running
            self._study.enqueue_trial(values)
        trial = self._study.ask({option.name: option.distribution for option in self._searched})
        lock = self._lock(trial.number)
        lock.acquire()
        return Claim(trial, lock, again=False), []

    def _lock(self, number: int) -> Lock:
        return Lock(self._locks / f"trial-{number:04d}")

    def finish(self, claim: Claim, ended: Ended) -> Ended:
        """Record how a trial ended, and release it; returns that, or a failure if its score is unusable."""
        if ended.reason is None and not ended.pruned:
            ended = self._compared(ended)
        if ended.reason is not None:
            claim.trial.set_user_attr("reason", " ".join(clean(ended.reason).split())[:_REASON])
        state = "FAIL" if ended.reason is not None else "PRUNED" if ended.pruned else "COMPLETE"
        self._study.tell(claim.number, ended.score if state == "COMPLETE" else None, state=TrialState[state])
        claim.lock.release()
        return ended

    def _compared(self, ended: Ended) -> Ended:
        if ended.score is None or math.isnan(ended.score):
            return Ended(reason=f"no dev score {ended.metric or ''}".rstrip())
        with self._claiming:
            if self.metric is None:
                self._study.set_user_attr("metric", ended.metric)
        if ended.metric != self.metric:
            return Ended(reason=f"its dev score is {ended.metric}, but the study compares {self.metric}")
        return ended


def _end_at_a_line(journal: Path) -> None:
    """Remove a partial last line, as a kill or a full disk leaves it: the next would be appended to it."""
    with suppress(FileNotFoundError), journal.open("rb+") as file:
        file.truncate(file.read().rfind(b"\n") + 1)
