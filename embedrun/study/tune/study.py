"""A study on disk: its journal, claimed trials, and the values of the next one."""

import json
import math
import os
import time
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedrun.console import clean
from embedrun.errors import ConfigError, DataError
from embedrun.files import Lock, Plain, unwritable
from embedrun.runs.reading import SAME_CODE, as_text
from embedrun.study.tune.distributions import Searched

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial, Trial


@dataclass(frozen=True)
class Ended:
    """How one trial ended: with its best value of the dev score `metric`, pruned, or failed for a reason."""

    metric: str | None = None
    score: float | None = None
    pruned: bool = False
    reason: str | None = None


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


_DRAWS = 50  # proposals that may all have been tried before; only a small search space needs more than one


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
    first = None if left is None else next(left, None)
    if left is not None and first is None:
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
            values = {one.name: one.rounded(one.suggest(drawn)) for one in searched}
            if _key(values) not in tried:
                return values
            memory.tell(drawn, state=optuna.trial.TrialState.FAIL)
    return first


def _key(values: Plain) -> Hashable:
    return frozenset(values.items())


def _untried(searched: Sequence[Searched], tried: set[Hashable]) -> Iterator[dict[str, Any]] | None:
    """The combinations of values that no trial has had; None if a float is searched."""
    every = [values for one in searched if (values := one.every()) is not None]
    if len(every) < len(searched):
        return None
    names = [one.name for one in searched]
    combinations = (dict(zip(names, values, strict=True)) for values in _combinations(every))
    return (values for values in combinations if _key(values) not in tried)


def _combinations(every: Sequence[Sequence[object]]) -> Iterator[tuple[object, ...]]:
    """Like itertools.product, which would first load every integer of a wide range into memory."""
    if not every:
        yield ()
        return
    for value in every[0]:
        for rest in _combinations(every[1:]):
            yield value, *rest


class JournalLock(Lock):
    """The lock of an optuna journal; taking it removes a partial last line that a kill left.

    optuna's own locks are files that a killed process leaves behind, which costs the next one half a minute;
    and a line appended to a partial one makes the whole journal unreadable.
    """

    def __init__(self, journal: Path) -> None:
        super().__init__(journal.with_name(f".{journal.name}.lock"))
        self._journal = journal

    def acquire(self, *, wait: bool = True) -> bool:
        """Take the lock and repair the journal; false if the lock is taken and `wait` is not set."""
        held = super().acquire(wait=wait)
        if held and self._journal.is_file():
            with self._journal.open("rb+") as file:
                size = file.seek(0, os.SEEK_END)
                if size:
                    file.seek(-1, os.SEEK_END)
                    if file.read(1) != b"\n":
                        file.seek(0)
                        file.truncate(file.read().rfind(b"\n") + 1)
        return held


_POLL = 1.0  # seconds between checks of the trials of other processes
_STARTUP = 5  # finished trials before any is pruned: a median of fewer means little
_WIDTH = 60  # characters of an option's value in a message
_SECONDS = "seconds"
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


class Study:
    """An open study; use `Study.open`.

    `prunes` is whether trials that do worse than the median are stopped early, `lowest` whether a lower score
    is better.

    Raises:
        ConfigError: if nothing can be written into the folder.
        DataError: if the journal there is damaged.
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
        with self._claiming, _readable(journal):
            storage = JournalStorage(JournalFileBackend(str(journal), JournalLock(journal)))  # type: ignore[arg-type]
            self._study = optuna.create_study(
                study_name=folder.name,
                storage=storage,
                direction="minimize" if lowest else "maximize",
                sampler=optuna.samplers.TPESampler(seed=seed),
                pruner=optuna.pruners.MedianPruner(_STARTUP) if prunes else optuna.pruners.NopPruner(),
                load_if_exists=True,
            )

    @classmethod
    def open(
        cls,
        folder: Path,
        searched: Sequence[Searched],
        options: Plain,
        data: Mapping[str, list[str]],
        *,
        seed: int,
        lowest: bool,
        prunes: bool,
    ) -> "Study":
        """Start a study, or resume one of the same options and data.

        `options` are the others that decide the results, by dotted key; `data` has the sorted fingerprints of
        what the trials read, by name.

        Raises:
            ConfigError: if the study in this folder began with other options or data.
            DataError: if its journal is damaged.
        """
        study = cls(folder, searched, seed=seed, lowest=lowest, prunes=prunes)
        wanted = {**options, **{one.name: one.text for one in searched}}
        with study._claiming:
            if problems := study._other_options(wanted) or study._other_data(data):
                raise ConfigError(problems)
        return study

    @property
    def metric(self) -> str | None:
        """Key of the dev score; None before the first trial has one."""
        return self._study.user_attrs.get("metric")

    def rows(self) -> list[Row]:
        """All trials, in the order in which they began."""
        rows = []
        for trial in self._study.get_trials(deepcopy=False):
            took = trial.user_attrs.get(_SECONDS)
            if took is None and trial.duration is not None:  # of an older version, by a clock that may be set
                took = trial.duration.total_seconds()
            values = {one.name: trial.params[one.name] for one in self._searched if one.name in trial.params}
            state = _STATES[trial.state.name]
            rows.append(Row(trial.number, state, trial.value, values, took, trial.user_attrs.get("reason")))
        return rows

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
            time.sleep(_POLL)

    def finish(self, claim: Claim, ended: Ended) -> Ended:
        """Record how a trial ended, and release it; returns that, or a failure if its score is unusable."""
        from optuna.trial import TrialState

        ended = self._checked(ended)
        claim.trial.set_user_attr(_SECONDS, round(time.monotonic() - claim.began, 3))
        if ended.reason is not None:
            claim.trial.set_user_attr("reason", " ".join(clean(ended.reason).split())[:_REASON])
            self._study.tell(claim.number, state=TrialState.FAIL)
        elif ended.pruned:
            self._study.tell(claim.number, state=TrialState.PRUNED)
        else:
            self._study.tell(claim.number, ended.score)
        claim.lock.release()
        return ended

    def _other_options(self, wanted: Plain) -> list[str]:
        """Which options are not those that the study began with."""
        began = self._began_with("options", wanted)
        return [
            f"{key}: {as_text(began.get(key), _WIDTH)} -> {as_text(wanted.get(key), _WIDTH)} since "
            f"study {self.folder.name} began; change it back, or name another study with --study"
            for key in {**began, **wanted}
            if began.get(key) != wanted.get(key)
        ]

    def _other_data(self, data: Mapping[str, list[str]]) -> list[str]:
        """Which rows and models are not those that the study began with."""
        began = self._began_with("data", data)
        return [
            f"{name}: is not what study {self.folder.name} began with; restore it, or name another study "
            "with --study"
            for name, marks in data.items()
            if [SAME_CODE.get(mark, mark) for mark in began.get(name, marks)] != marks
        ]

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
        left, busy = [], []
        for trial in trials:
            if trial.state == TrialState.RUNNING:
                lock = self._lock(trial.number)
                if lock.acquire(wait=False):
                    left.append((trial, lock))
                else:
                    busy.append(trial.number)
        done = sum(1 for trial in trials if trial.state in (TrialState.COMPLETE, TrialState.PRUNED))
        for _, lock in left[1:]:
            lock.release()
        if done + len(busy) >= wanted:
            for _, lock in left[:1]:
                lock.release()
            return None, busy
        if left:
            # Keeps what is stored of the trial; optuna's own way would be a new trial with the same values.
            return self._begun(Trial(self._study, left[0][0]._trial_id), left[0][1], again=True), busy
        if not any(trial.state == TrialState.WAITING for trial in trials):
            values = propose(trials, self._searched, seed=self._seed, number=len(trials), lowest=self.lowest)
            if values is None:
                return None, busy
            self._study.enqueue_trial(values)
        trial = self._study.ask()
        lock = self._lock(trial.number)
        lock.acquire()
        return self._begun(trial, lock, again=False), busy

    def _begun(self, trial: "Trial", lock: Lock, *, again: bool) -> Claim:
        for one in self._searched:  # gives the stored or enqueued value, else draws one
            one.suggest(trial)
        return Claim(trial, lock, again=again)

    def _lock(self, number: int) -> Lock:
        return Lock(self.folder / ".locks" / f"trial-{number:04d}")


@contextmanager
def _readable(journal: Path) -> Iterator[None]:
    """Say what is wrong with a journal that optuna cannot read.

    Raises:
        DataError: if it is damaged; the part of a last line, which a kill leaves, is no damage.
    """
    try:
        yield
    except (ValueError, LookupError, TypeError, AssertionError) as fault:
        raise DataError(
            f"{journal}: cannot be read ({_damage(journal) or repr(fault)}); restore an earlier copy of it, "
            "or start another study with --study"
        ) from fault


def _damage(journal: Path) -> str | None:
    """The first line that is no JSON, or None where each is."""
    for number, line in enumerate(journal.read_bytes().splitlines(), start=1):
        try:
            json.loads(line)
        except ValueError:
            return f"line {number} is not JSON"
    return None
