"""A study on disk: optuna's journal, claimed trials, and the values of the next one."""

import itertools
import math
import time
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedrun.console import clean
from embedrun.errors import ConfigError, DataError
from embedrun.files import Lock, Plain, unwritable
from embedrun.runs.reading import SAME_CODE, as_text
from embedrun.study.distributions import Searched

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial, Trial

_DRAWS = 50  # proposals that may all have been tried before; only a small search space needs more than one
_MOST = 100_000  # combinations of values that are listed to find those that are left
POLL = 1.0  # seconds between checks of the trials of other processes
_STARTUP = 5  # finished trials before any is pruned: a median of fewer means little
_WIDTH = 60  # characters of an option's value in a message
_REASON = 300  # characters of a failed trial's message that the journal keeps
# optuna's states in the words of this package.
_STATES = {
    "COMPLETE": "finished",
    "PRUNED": "pruned",
    "FAIL": "failed",
    "RUNNING": "running",
    "WAITING": "waiting",
}


@dataclass(frozen=True)
class Ended:
    """How one trial ended: with its best value of the dev score `metric`, pruned, or failed for a reason."""

    metric: str | None = None
    score: float | None = None
    pruned: bool = False
    reason: str | None = None


@dataclass(frozen=True)
class Row:
    """The record of one trial.

    Args:
        number: from 0.
        state: finished, pruned, failed, running or waiting.
        score: the best dev score; of a pruned trial the last one.
        values: by option.
        seconds: duration of its last attempt; None while it runs.
        reason: why it failed.
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

    def __init__(self, trial: "Trial", lock: Lock, *, again: bool) -> None:
        self.trial, self.lock, self.again = trial, lock, again
        self.number: int = trial.number
        self.began = time.monotonic()
        self.values: dict[str, Any] = dict(trial.params)
        self._known = set(trial.study.trials[self.number].intermediate_values)

    def report(self, step: int, score: float) -> bool:
        """Record a dev score as it arrives; true if the trial does worse than the median of the others."""
        if step in self._known:  # by an earlier attempt
            return False
        self._known.add(step)
        self.trial.report(score, step)
        return self.trial.should_prune()

    def is_hopeless(self) -> bool:
        """Whether the dev scores of an earlier attempt are such that the trial must be pruned."""
        return bool(self._known) and self.trial.should_prune()


def propose(
    trials: "Sequence[FrozenTrial]", searched: Sequence[Searched], *, seed: int, number: int, lowest: bool
) -> dict[str, Any] | None:
    """Values that no trial has had, from a tree-structured Parzen estimator; None where all have been tried.

    The sampler is seeded for each trial with `seed`, of the search, and `number`, of the trial: a search that
    was killed proposes what it would have proposed, and two workers propose different values. `trials` are
    optuna's, including running ones.
    """
    import numpy as np
    import optuna

    tried = {_key(trial.params) for trial in trials}
    left = _untried(searched, tried)
    if left == []:
        return None
    state = int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what optuna calls experimental
        memory = optuna.create_study(
            direction="minimize" if lowest else "maximize",
            # Options are sampled jointly; running trials count as bad, so that they are not proposed again.
            sampler=optuna.samplers.TPESampler(seed=state, multivariate=True, constant_liar=True),
        )
        memory.add_trials([trial for trial in trials if trial.state != optuna.trial.TrialState.WAITING])
        for _ in range(_DRAWS):
            drawn = memory.ask()
            values = {option.name: option.rounded(option.suggest(drawn)) for option in searched}
            if _key(values) not in tried:
                return values
            memory.tell(drawn, state=optuna.trial.TrialState.FAIL)
    return None if left is None else left[0]


def _key(values: Plain) -> Hashable:
    return frozenset(values.items())


def _untried(searched: Sequence[Searched], tried: set[Hashable]) -> list[dict[str, Any]] | None:
    """The combinations of values that no trial has had; None if a float is searched, or of very many."""
    every = [values for option in searched if (values := option.every()) is not None]
    if len(every) < len(searched) or math.prod(map(len, every)) > _MOST:
        return None
    names = [option.name for option in searched]
    combinations = (dict(zip(names, values, strict=True)) for values in itertools.product(*every))
    return [values for values in combinations if _key(values) not in tried]


class Study:
    """A study in its folder, new or resumed.

    `prunes` is whether trials that do worse than the median are stopped early, `lowest` whether a lower score
    is better.

    Raises:
        ConfigError: if nothing can be written into the folder.
        DataError: if the journal there cannot be read.
    """

    def __init__(
        self, folder: Path, searched: Sequence[Searched], *, seed: int, lowest: bool, prunes: bool
    ) -> None:
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.folder, self.lowest = folder, lowest
        self._searched, self._seed = tuple(searched), seed
        if why := unwritable(folder / ".locks"):
            raise ConfigError(f"--study: {why}; start the search in another folder")
        (folder / ".locks").mkdir(parents=True, exist_ok=True)
        self._claiming = Lock(folder / ".locks" / "study")
        journal = folder / "journal.log"
        # optuna's own locks are files that a killed process leaves behind, and the next one waits for.
        lock = Lock(folder / ".locks" / "journal")
        with self._claiming:
            with lock:
                _end_at_a_line(journal)
            try:
                self._storage = JournalStorage(JournalFileBackend(str(journal), lock))  # type: ignore[arg-type]
                self._study = optuna.create_study(
                    study_name=folder.name,
                    storage=self._storage,
                    direction="minimize" if lowest else "maximize",
                    sampler=optuna.samplers.TPESampler(seed=seed),
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

        Raises:
            ConfigError: with every option, or else with all data and models, that have changed.
        """
        wanted = {**options, **{option.name: option.text for option in self._searched}}
        with self._claiming:
            began = self._began_with("options", wanted)
            problems = [
                f"{key}: {as_text(began.get(key), _WIDTH)} -> {as_text(wanted.get(key), _WIDTH)} since "
                f"study {self.folder.name} began; change it back, or name another study with --study"
                for key in {**began, **wanted}
                if began.get(key) != wanted.get(key)
            ]
            if problems:
                raise ConfigError(problems)
            began = self._began_with("data", data)
        problems = [
            f"{name}: is not what study {self.folder.name} began with; restore it, or name another study "
            "with --study"
            for name, marks in data.items()
            if [SAME_CODE.get(mark, mark) for mark in began.get(name, marks)] != marks
        ]
        if problems:
            raise ConfigError(problems)

    @property
    def metric(self) -> str | None:
        """Key of the dev score; None before the first trial has one."""
        return self._study.user_attrs.get("metric")

    def rows(self) -> list[Row]:
        """All trials, in the order in which they began."""
        names = [option.name for option in self._searched]
        return [
            Row(
                trial.number,
                _STATES[trial.state.name],
                trial.value,
                {name: trial.params[name] for name in names if name in trial.params},
                trial.user_attrs.get("seconds"),
                trial.user_attrs.get("reason"),
            )
            for trial in self._study.get_trials(deepcopy=False)
        ]

    def done(self) -> int:
        """Number of finished and pruned trials, which are those that count."""
        return sum(1 for row in self.rows() if row.state in ("finished", "pruned"))

    def best(self) -> Row | None:
        """The finished trial with the best score; the first of equals."""
        return next(iter(self.ranking()), None)

    def ranking(self) -> list[Row]:
        """The finished trials, the best first."""
        finished = [row for row in self.rows() if row.state == "finished" and row.score is not None]
        return sorted(finished, key=lambda row: (row.score or 0) * (1 if self.lowest else -1))

    def claim(self, wanted: int, waits: Callable[[list[int]], None]) -> Claim | None:
        """The next trial to run; None once `wanted` trials are finished or pruned, or all values are tried.

        A trial that a dead process left is resumed before a new one is proposed. While the trials that other
        processes run would make up the number wanted, this waits, since one of them may fail or be killed;
        `waits` is then called once with their numbers.
        """
        said = False
        while True:
            with self._claiming:
                claim, busy = self._next(wanted)
            if claim is not None or not busy:
                return claim
            if not said:
                waits(busy)
                said = True
            time.sleep(POLL)

    def finish(self, claim: Claim, ended: Ended) -> Ended:
        """Record how a trial ended, and release it; returns that, or a failure if its score is unusable."""
        from optuna.trial import TrialState

        ended = self._checked(ended)
        claim.trial.set_user_attr("seconds", round(time.monotonic() - claim.began, 3))
        if ended.reason is not None:
            claim.trial.set_user_attr("reason", " ".join(clean(ended.reason).split())[:_REASON])
            self._study.tell(claim.number, state=TrialState.FAIL)
        elif ended.pruned:
            self._study.tell(claim.number, state=TrialState.PRUNED)
        else:
            self._study.tell(claim.number, ended.score)
        claim.lock.release()
        return ended

    def _began_with(self, what: str, now: Plain) -> Plain:
        """What the study recorded when it began; `now` is recorded where nothing is."""
        if what not in self._study.user_attrs:
            self._study.set_user_attr(what, dict(now))
        return self._study.user_attrs[what]

    def _checked(self, ended: Ended) -> Ended:
        """The same, or a failure if there is no score, or another than the study compares."""
        if ended.reason is not None or ended.pruned:
            return ended
        if ended.score is None or math.isnan(ended.score):
            return Ended(reason=f"no dev score {ended.metric or ''}".rstrip())
        with self._claiming:
            if self.metric is None:
                self._study.set_user_attr("metric", ended.metric)
        if ended.metric != self.metric:
            return Ended(reason=f"its dev score is {ended.metric}, but the study compares {self.metric}")
        return ended

    def _next(self, wanted: int) -> tuple[Claim | None, list[int]]:
        """A trial for this process, and the numbers of those that others run; the study must be locked."""
        from optuna.trial import Trial, TrialState

        trials = self._study.get_trials(deepcopy=False)
        done = sum(1 for trial in trials if trial.state in (TrialState.COMPLETE, TrialState.PRUNED))
        busy = [trial.number for trial in trials if trial.state == TrialState.RUNNING]
        left: Lock | None = None
        for number in busy:
            lock = Lock(self.folder / ".locks" / f"trial-{number:04d}")
            if lock.acquire(wait=False):
                left = lock
                busy.remove(number)
                break
        else:
            number = len(trials)
        if done + len(busy) >= wanted:
            if left is not None:
                left.release()
            return None, busy
        if left is not None:
            # Keeps what is stored of the trial; optuna's own way would be a new trial with the same values.
            study = self._storage.get_study_id_from_name(self.folder.name)
            trial = Trial(self._study, self._storage.get_trial_id_from_study_id_trial_number(study, number))
            return self._begun(trial, left, again=True), busy
        if not any(trial.state == TrialState.WAITING for trial in trials):
            values = propose(trials, self._searched, seed=self._seed, number=number, lowest=self.lowest)
            if values is None:
                return None, busy
            self._study.enqueue_trial(values)
        trial = self._study.ask()
        lock = Lock(self.folder / ".locks" / f"trial-{trial.number:04d}")
        lock.acquire()
        return self._begun(trial, lock, again=False), busy

    def _begun(self, trial: "Trial", lock: Lock, *, again: bool) -> Claim:
        for option in self._searched:  # gives the stored or enqueued value, else draws one
            option.suggest(trial)
        return Claim(trial, lock, again=again)


def _end_at_a_line(journal: Path) -> None:
    """Remove a partial last line, as a kill or a full disk leaves it: the next would be appended to it."""
    with suppress(FileNotFoundError), journal.open("rb+") as file:
        file.truncate(file.read().rfind(b"\n") + 1)
