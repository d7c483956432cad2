"""A search for the best options: its plan, checked at both ends of every range, its trials, their table."""

import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from embedrun.config.compose import composed
from embedrun.config.decides import decisive
from embedrun.config.request import Composed, Request, task_overrides
from embedrun.console import aligned, clean, room, say, wrapped
from embedrun.errors import ConfigError, DataError, RunFailed
from embedrun.experiment import scoring
from embedrun.experiment.data import Fingerprints, divided
from embedrun.experiment.plan import TrainPlan, plan_train, ways_to_dev
from embedrun.experiment.training import check_places
from embedrun.files import Plain, publish
from embedrun.launch.job import Beside, Job, run_in_child
from embedrun.launch.summary import FINISHED, Result, Results, verdict
from embedrun.plot import against, history
from embedrun.runs.directory import check_name, config_hash, to_yaml
from embedrun.runs.reading import RunFiles, flattened
from embedrun.runs.search import settled
from embedrun.store import hub
from embedrun.study.distributions import Searched, split
from embedrun.study.trials import Claim, Ended, Row, Study
from embedrun.table.formats import csv_text

_NO_TESTS = "evaluation=none"  # a search that sees test scores is tuned on the test set
_MOST_FAILURES = 5  # consecutive; after so many the others would fail, too
_SHOWN = 10  # trials in the table
_NAMED = 3  # trials that are named as tied


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
        training = self.config["training"]
        by = scoring.metric_of(training.get("select_by"))
        return by and scoring.dev_key(by, training.get("dev_tasks") or ())

    @property
    def options(self) -> Plain:
        """The options that decide the results besides the searched ones, by dotted key."""
        return flattened(decisive(self.config))

    def folder(self, name: str | None) -> Path:
        """Folder of the study; its default name is a hash of what decides the trials and their results."""
        decides = [config_hash(self.config), sorted((option.name, option.text) for option in self.searched)]
        name = name or hashlib.sha256(json.dumps(decides).encode()).hexdigest()[:10]
        return Path("outputs", self.config["name"], "tune", name)

    def overrides(self, values: Plain) -> list[str]:
        """Overrides of one trial: what the user typed, with these values."""
        return [*task_overrides(self.typed), *self._given(values)]

    def job(self, values: Plain) -> Composed:
        """The configuration of one trial; ConfigError if these values do not compose."""
        return composed(self.request, [*self.fixed, *self._given(values)])

    def _given(self, values: Plain) -> list[str]:
        return [option.override(values[option.name]) for option in self.searched]


def plan_tune(overrides: Sequence[str], config_dir: Path | None, study: str | None) -> TunePlan:
    """Parse a command line and check it at both ends of every range; ConfigError with every fault."""
    request = Request.typed("train", overrides, config_dir)
    parts = split(request.overrides)
    problems = [*parts.problems, *_name_problems(study)]
    names = [override.lstrip("+").partition("=")[0] for override in parts.fixed]
    names += [option.name for option in parts.searched]
    fixed = tuple(parts.fixed) if "evaluation" in names else (*parts.fixed, _NO_TESTS)
    ends: list[Plain] = []
    for trial in _at_ends(parts.searched):
        try:
            job = composed(request, [*fixed, *trial])
            problems += _trial_problems(job)
            ends.append(job.config)
        except ConfigError as fault:
            problems += fault.problems
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
    base = composed(request, fixed)
    return TunePlan(request, fixed, tuple(parts.fixed), tuple(parts.searched), base.config, tuple(ends))


def _name_problems(study: str | None) -> list[str]:
    try:
        check_name("study" if study is None else study)
    except ConfigError as fault:
        return [problem.replace("name:", "--study:", 1) for problem in fault.problems]
    return []


def _trial_problems(job: Composed) -> list[str]:
    """What a search cannot do with the configuration of a trial; ConfigError for one that cannot train."""
    problems = []
    if job.multirun:
        problems.append("hydra.mode: a sweep preset runs with embedrun train; tune proposes values")
    if job.directory is not None:
        problems.append("hydra.run.dir: tune gives each trial a directory; leave it out")
    plan = plan_train(job.config)
    if plan.dev is None and not plan.held and plan.config.training.select_by is None:
        problems.append(_no_dev("there are no dev rows", plan))
    return problems


def _at_ends(searched: Sequence[Searched]) -> list[tuple[str, ...]]:
    """Overrides for each end of each range, all other options at their first value; and all at their last."""
    first = {option.name: option.override(option.ends()[0]) for option in searched}
    trials = [first]
    for option in searched:
        trials += [{**first, option.name: option.override(end)} for end in option.ends()[1:]]
    trials.append({option.name: option.override(option.ends()[-1]) for option in searched})
    return list(dict.fromkeys(tuple(trial.values()) for trial in trials))


def _no_dev(reason: str, plan: TrainPlan) -> str:
    return (
        f"training.dev: a search compares dev scores, and {reason}; give "
        f"{ways_to_dev(plan.config, plan.dataset)}"
    )


def marks(plan: TunePlan) -> dict[str, list[str]]:
    """The distinct fingerprints of what the trials at the ends of every range read, sorted, by name.

    Raises DataError with all data and models that are missing, or the faults of the first damaged one.
    """
    configs = [settled(config, pin=hub.pinned) for config in plan.ends]
    problems: list[str] = []
    for config in configs:
        try:
            _check_dev_rows(plan_train(config))
        except DataError as fault:
            problems += fault.problems
    if problems:
        raise DataError(list(dict.fromkeys(problems)))
    fingerprints, marks = Fingerprints(strict=True), {}
    for config in configs:
        for name, mark in fingerprints.of("train", config).items():
            marks.setdefault(name, set()).add(mark)
    return {name: sorted(distinct) for name, distinct in marks.items()}


def _check_dev_rows(trial: TrainPlan) -> None:
    store = check_places(trial)
    rows = divided(trial, store) if trial.held else None
    if rows is not None and rows.dev is None and trial.config.training.select_by is None:
        raise ConfigError(_no_dev(rows.said[-1].partition(":")[0], trial))


def run(plan: TunePlan, study: Study, claim: Claim) -> Ended:
    """Run one trial."""
    if claim.trial.should_prune():  # by the dev scores of an earlier attempt
        return Ended(pruned=True)
    try:
        composed = plan.job(claim.values)
    except ConfigError as fault:
        return Ended(reason="; ".join(fault.problems))
    return train(
        composed.config,
        composed.overrides,
        study.folder / f"trial-{claim.number:04d}",
        claim.report,
        metric=plan.metric,
        claim=claim.lock.fileno(),
        choices=composed.choices,
    )


def train(
    config: Plain,
    overrides: Sequence[str],
    directory: Path,
    report: Callable[[int, float], bool],
    *,
    metric: str | None,
    claim: int,
    choices: Plain | None = None,
) -> Ended:
    """Train, or resume an earlier attempt; one that finished unrecorded is only read.

    `report` is called with step and value of each dev score `metric`, or the first that the run writes, that
    of its own dev split; true ends the run. `claim` is the descriptor of the lock file that keeps the trial
    claimed while the process lives.
    """
    scores = _DevScores(directory / "metrics.jsonl", metric)
    if RunFiles.read(directory, strict=False).is_finished:
        return _scored(RunFiles(directory), scores)
    plain = {**config, "training": {**config["training"], "resume": "auto"}}
    job = Job("train", plain, list(overrides), directory=str(directory), choices=choices)
    is_pruned = False

    def prunes() -> bool:
        nonlocal is_pruned
        is_pruned = any(report(step, value) for step, value in scores.new())
        return is_pruned

    beside = Beside(directory.with_suffix(".log"), prunes, claim=claim)
    with tempfile.TemporaryDirectory(prefix="embedrun-") as scratch:
        outcome = run_in_child(job, Path(scratch, "outcome.json"), beside)
    if is_pruned:
        return Ended(pruned=True)
    prunes()  # the study gets the last scores, too, although there is nothing left to prune
    return Ended(reason=outcome.error) if outcome.error else _scored(RunFiles(directory), scores)


class _DevScores:
    """The dev scores in a run's metrics file, each given once; by default those of the first key in it."""

    def __init__(self, path: Path, metric: str | None) -> None:
        self.metric = metric
        self._path, self._place = path, 0

    def new(self) -> Iterator[tuple[int, float]]:
        """Step and value of the scores since the last call, without those of the untrained model."""
        with suppress(FileNotFoundError), self._path.open("rb") as file:
            file.seek(self._place)
            for line in file:
                if not line.endswith(b"\n"):
                    return  # still being written
                self._place += len(line)
                row = json.loads(line)
                if row["split"] == "dev":
                    self.metric = self.metric or row["name"]
                    if row["name"] == self.metric and row["step"] > 0 and row["value"] is not None:
                        yield row["step"], row["value"]


def _scored(run: RunFiles, scores: _DevScores) -> Ended:
    """The dev score of a finished run, of the weights that it kept."""
    list(scores.new())  # until the metric is known
    try:
        return Ended(scores.metric, (run.results.get("scores") or {}).get(scores.metric))
    except DataError as fault:
        return Ended(reason=str(fault))


def search(study: Study, wanted: int, run: Callable[[Claim], Ended], after: Callable[[], None]) -> None:
    """Run trials until `wanted` are finished or pruned, by all processes, or all values have been tried."""
    failures = 0
    while (claim := study.claim(wanted)) is not None:
        values = " ".join(f"{name}={value}" for name, value in claim.values.items())
        say(f"trial {claim.number} {'resumes' if claim.again else 'begins'}: {values}")
        ended = study.finish(claim, run(claim))
        say(_line(claim.number, ended, study, wanted))
        after()
        failures = failures + 1 if ended.reason is not None else 0
        if failures == _MOST_FAILURES:
            raise RunFailed(
                f"{failures} trials in a row failed, the last because: {ended.reason}; fix that, then "
                f"run the same command to resume. What each printed is in {study.folder}"
            )


def _line(number: int, ended: Ended, study: Study, wanted: int) -> str:
    best = study.best()
    so_far = "none finished yet" if best is None else f"best {_text(best)} of trial {best.number}"
    if ended.reason is not None:
        return f"trial {number} failed: {' '.join(ended.reason.split())} ({so_far})"
    what = "pruned at" if ended.pruned else study.metric
    return f"trial {number} ({study.done()} of {wanted}): {what} {_text(study.rows()[number])} ({so_far})"


def _text(row: Row) -> str:
    return "" if row.score is None else f"{row.score:.2f}"


def table(study: Study, searched: Sequence[Searched]) -> str:
    """The best trials as text, the number of trials in each state, and how sure the best score is."""
    names, metric, ranking = [option.name for option in searched], study.metric or "score", study.ranking()
    lines = [["trial", metric, *names]]
    for row in ranking[:_SHOWN]:
        lines.append([str(row.number), _text(row), *(str(row.values[name]) for name in names)])
    states = Counter(row.state for row in study.rows())
    counts = ", ".join(f"{count} {state}" for state, count in states.items())
    best = f"the best {_SHOWN} of {len(ranking)}; " if len(ranking) > _SHOWN else ""
    foot = [
        f"{'lowest' if study.lowest else 'highest'} {metric} found: "
        f"{_text(ranking[0])}, of trial {ranking[0].number}; each trial has one seed",
        *verdict(_as_sweep(study, metric), _NAMED),
    ]
    return clean(f"{aligned(lines, right=(0, 1))}\n\n{best}{counts}\n\n{wrapped(chr(10).join(foot), room())}")


def _as_sweep(study: Study, metric: str) -> Results:
    """The finished trials as a sweep has its jobs, of one seed each."""
    results = []
    for row in study.ranking():
        overrides = tuple(f"{name}={value}" for name, value in row.values.items())
        place = str(study.folder / f"trial-{row.number:04d}")
        dev = (metric, row.score or 0.0)
        results.append(Result(row.number, overrides, FINISHED, dev=dev, directory=place, lowest=study.lowest))
    return Results(results)


def write(study: Study, plan: TunePlan) -> None:
    """Write `study.csv` and `best.yaml`, the overrides of the best trial, over those of before."""
    text = to_csv(study.rows(), plan.searched, study.metric)
    publish(study.folder / "study.csv", text.encode(), replace=True)
    if (best := study.best()) is not None:
        publish(study.folder / "best.yaml", to_yaml(plan.overrides(best.values)).encode(), replace=True)


def to_csv(rows: Sequence[Row], searched: Sequence[Searched], metric: str | None) -> str:
    """All trials as CSV, with raw numbers; a text that a spreadsheet would evaluate is prefixed with `'`."""
    names = [option.name for option in searched]
    lines: list[list[object]] = [["trial", "state", metric or "score", *names, "seconds", "reason"]]
    for row in rows:
        values = [row.values.get(name, "") for name in names]
        lines.append([row.number, row.state, row.score, *values, row.seconds, row.reason])
    return csv_text(lines)


def draw(study: Study, searched: Sequence[Searched]) -> None:
    """Plot the scores by trial, and by the value of each option."""
    best, metric = study.best(), study.metric
    if best is None or metric is None:
        return
    scored = [(row, row.score, row.state == "pruned") for row in study.rows() if row.score is not None]
    folder = study.folder / "plots"
    points = [(row.number, score, is_pruned) for row, score, is_pruned in scored]
    history(points, metric, f"Study {study.folder.name}", folder / "history.png", lowest=study.lowest)
    for option in searched:
        name = option.name
        against(
            [(row.values[name], score, is_pruned) for row, score, is_pruned in scored],
            (best.values[name], best.score or 0.0),
            (name, metric),
            folder / f"{name.replace('/', '.')}.png",
            log=getattr(option.distribution, "log", False),
            order=getattr(option.distribution, "choices", None),
        )
