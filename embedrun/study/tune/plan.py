"""The plan of a hyperparameter search, checked at both ends of every range before the first trial."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from embedrun.config.compose import composed
from embedrun.config.decides import decisive
from embedrun.config.request import Composed, Request, task_overrides
from embedrun.errors import ConfigError, DataError
from embedrun.experiment.data import Fingerprints, divided
from embedrun.experiment.plan import TrainPlan, plan_train, ways_to_dev
from embedrun.experiment.training import check_places
from embedrun.files import Plain
from embedrun.runs import search
from embedrun.runs.directory import check_name, config_hash
from embedrun.runs.reading import flattened
from embedrun.store import hub
from embedrun.study.tune.distributions import Searched, split

_NO_TESTS = "evaluation=none"  # a search that sees test scores is tuned on the test set


@dataclass(frozen=True)
class TunePlan:
    """A search whose options have been checked.

    Args:
        request: the command line, without what is searched.
        fixed: the overrides of every trial, which may turn the evaluation off.
        typed: those of them that the user gave.
        config: composed without the searched options.
        ends: configurations at the ends of the ranges; every option of a choice is in one.
    """

    request: Request
    fixed: tuple[str, ...]
    typed: tuple[str, ...]
    searched: tuple[Searched, ...]
    config: Plain
    ends: tuple[Plain, ...]

    @property
    def lowest(self) -> bool:
        """Whether a lower dev score is better."""
        return bool(self.config["training"].get("select_lowest", False))

    @property
    def metric(self) -> str | None:
        """Key of the dev score, where the configuration names one."""
        return self.config["training"].get("select_by")

    @property
    def identity(self) -> str:
        """SHA-256, in hex, of what decides the trials and their results."""
        said = [config_hash(self.config), sorted((option.name, option.text) for option in self.searched)]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()

    @property
    def options(self) -> Plain:
        """The options that decide the results besides the searched ones, by dotted key."""
        return flattened(decisive(self.config))

    def folder(self, name: str | None) -> Path:
        """Folder of the study; its default name is the first 10 digits of its identity."""
        return Path("outputs", self.config["name"], "tune", name or self.identity[:10])

    def overrides(self, values: Plain) -> list[str]:
        """Overrides of one trial: what the user typed, with these values."""
        return [*task_overrides(self.typed), *self._given(values)]

    def job(self, values: Plain) -> Composed:
        """The configuration of one trial.

        Raises:
            ConfigError: if these values do not compose.
        """
        return composed(self.request, [*self.fixed, *self._given(values)])

    def _given(self, values: Plain) -> list[str]:
        return [option.override(values[option.name]) for option in self.searched]


def plan_tune(overrides: Sequence[str], config_dir: Path | None, study: str | None) -> TunePlan:
    """Parse a command line and check what it asks for, at both ends of every range.

    Raises:
        ConfigError: with every fault.
    """
    request = Request.typed("train", overrides, config_dir)
    parts = split(request.overrides)
    problems = list(parts.problems)
    if study is not None:
        try:
            check_name(study)
        except ConfigError as fault:
            problems += [problem.replace("name:", "--study:", 1) for problem in fault.problems]
    typed = [override.lstrip("+").partition("=")[0] for override in parts.fixed]
    evaluates = "evaluation" in (*typed, *(option.name for option in parts.searched))
    fixed = tuple(parts.fixed) if evaluates else (*parts.fixed, _NO_TESTS)
    ends: list[Plain] = []
    for trial in _at_ends(parts.searched):
        try:
            job = composed(request, [*fixed, *trial])
            problems += _not_for_tune(job)
            plan = plan_train(job.config)
            if plan.dev is None and not plan.holds_out and plan.config.training.select_by is None:
                problems.append(_no_dev("there are no dev rows", plan))
            ends.append(job.config)
        except ConfigError as fault:
            problems += fault.problems
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
    base = composed(request, fixed)
    return TunePlan(request, fixed, tuple(parts.fixed), tuple(parts.searched), base.config, tuple(ends))


def _at_ends(searched: Sequence[Searched]) -> list[tuple[str, ...]]:
    """Overrides for each end of each range, all other options at their first value; and all at their last."""
    first = {option.name: option.override(option.ends()[0]) for option in searched}
    trials = [tuple(first.values())]
    for option in searched:
        for end in option.ends()[1:]:
            trials.append(tuple({**first, option.name: option.override(end)}.values()))
    trials.append(tuple(option.override(option.ends()[-1]) for option in searched))
    return list(dict.fromkeys(trials))


def _no_dev(reason: str, plan: TrainPlan) -> str:
    return (
        f"training.dev: a search compares dev scores, and {reason}; give "
        f"{ways_to_dev(plan.config, plan.dataset)}"
    )


def _not_for_tune(job: Composed) -> list[str]:
    problems = []
    if job.multirun:
        problems.append(
            "hydra.mode: a sweep preset runs with embedrun train; tune proposes the values itself"
        )
    if job.directory is not None:
        problems.append("hydra.run.dir: tune gives each trial a directory of its own; leave it out")
    return problems


def marks(plan: TunePlan) -> dict[str, list[str]]:
    """The distinct fingerprints of what the trials at the ends of every range read, sorted, by name.

    Raises:
        ConfigError: for what this machine lacks, or if the rows give no dev score to compare.
        DataError: with all data and models that are missing, or the faults of the first damaged one.
    """
    configs = [search.settled(config, pin=hub.pinned) for config in plan.ends]
    problems: list[str] = []
    for config in configs:
        try:
            trial = plan_train(config)
            store = check_places(trial)
            rows = divided(trial, store) if trial.holds_out else None
        except DataError as fault:
            problems += fault.problems
            continue
        if rows is not None and rows.dev is None and plan.metric is None:
            raise ConfigError(_no_dev(rows.said.partition(":")[0], trial))
    if problems:
        raise DataError(list(dict.fromkeys(problems)))
    fingerprints, marks = Fingerprints(strict=True), {}
    for config in configs:
        for name, mark in fingerprints.of("train", config).items():
            marks.setdefault(name, set()).add(mark)
    return {name: sorted(distinct) for name, distinct in marks.items()}
