"""One training run, from rows to results."""

import contextlib
import json
import logging
import math
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from embedrun import backbone, card, gpu, plot, tracking
from embedrun.backbone import adapter
from embedrun.backbone.shape import shape_of
from embedrun.console import say_and_log, score_text
from embedrun.dataset import named
from embedrun.encoder import Encoder
from embedrun.errors import ConfigError, DataError
from embedrun.evaluation.scores import Scores
from embedrun.experiment import baseline, data, evaluation, notices, outcome, scoring
from embedrun.experiment.build import Built, announcement, build
from embedrun.experiment.card import made_of
from embedrun.experiment.data import skip_warning, skipped_in, write_skipped
from embedrun.experiment.losses import check_active, contradiction, idle, positives, tell_first_step
from embedrun.experiment.outcome import recorded
from embedrun.experiment.plan import TrainPlan, plan_train
from embedrun.experiment.scoring import Kept, Scorer, finite_intervals, write_predictions
from embedrun.experiment.selection import divided, read_splits
from embedrun.family import code_of
from embedrun.files import Plain, to_json, whole_folder, write_atomically
from embedrun.gpu import Compute
from embedrun.rows import Rows
from embedrun.runs import search, sums
from embedrun.runs.directory import (
    CHECKPOINTS,
    PARTS,
    Outcome,
    Run,
    config_hash,
    describe,
    to_yaml,
)
from embedrun.runs.listing import title
from embedrun.runs.reading import LENGTH, POOLING, SELECTED_BY, RunFiles, stages_behind
from embedrun.runs.search import CODE, note_resumed, same_data
from embedrun.store import Store, hub
from embedrun.tracking import Tracker, cut
from embedrun.training import checkpoint, workers
from embedrun.training.loop import Begun, Fit, Selection, fit, restore
from embedrun.training.processes import Processes
from embedrun.training.step import NonFinite


def run(
    plain: Plain,
    overrides: list[str],
    directory: str | None,
    *,
    resumed: Path | None = None,
    asked: str | None = None,
    choices: Plain | None = None,
) -> Outcome:
    """Train from a composed configuration, in a new run directory or that of a `resumed` run.

    Args:
        overrides: what the user changed.
        directory: the run directory that the user named.
        asked: hash of the configuration before it was settled, where another process has done that.
        choices: the presets behind the configuration, by group, which a new run records.

    Raises:
        ConfigError: with every fault of the configuration, or what has changed since the run began.
        DataError: with everything that is missing, before a run directory is made.
        RunFailed: if training fails.
        KeyboardInterrupt: on a signal, once the step is done and saved.
    """
    plan = plan_train(plain)
    # A worker is told by the process that has started it what to resume.
    automatic = plan.config.training.resume == "auto" and resumed is None
    looks = automatic and workers.FOLDER not in os.environ
    # A resumed run must find the model that it began with, whatever has finished since.
    settled = (
        search.settled_as_begun(plain, directory, hub.pinned)
        if looks
        else search.settled_for(plain, resumed, hub.pinned)
    )
    if settled != plain:
        asked, plain, plan = config_hash(plain), settled, plan_train(settled)
    config = plan.config
    if looks:
        done, resumed = _look(config.name, plain, directory)
        if done is not None:
            return done
    if resumed is not None:
        search.same_config(resumed, plain)
    store = check_places(plan)
    if workers.wanted(config.gpu):
        own = f"{__name__}:run"
        return workers.launch(
            config.gpu, plain, overrides, directory, resumed, asked, run=own, choices=choices
        )
    workers.join(config.gpu, f"{config_hash(plain)} {resumed}")
    processes = Processes()
    # Rows are read before there is a run directory: a faulty one should leave nothing behind.
    compute = gpu.start(config.gpu, place=int(os.environ.get("LOCAL_RANK", "0")))
    session = Session(plan, store, compute, processes)
    session.check_alike()
    if resumed is not None:
        session.check_data(resumed)
    if processes.rank > 0:
        session.follow(resumed)
        return Outcome()

    def open_run() -> Run:
        if resumed is not None:
            return Run.claim(resumed)
        run = Run.create(config.name, plain, directory=directory, again=automatic)
        run.known |= {} if asked is None else {search.ASKED: asked}  # goes into its first status
        return run

    with recorded(open_run) as record:
        workers.made(record.path)
        return session.train(record, plain, overrides, choices, resumed=resumed is not None)


def _look(name: str, plain: Plain, directory: str | None) -> tuple[Outcome | None, Path | None]:
    """How the run that the user means has ended, or the one to resume; neither where there is none."""
    done = outcome.finished(directory, plain)
    found = search.unfinished(name, plain, directory) if done is None else None
    return (done if found is None else outcome.ended(found, plain)), found


def check_places(plan: "TrainPlan") -> "Store":
    """The data store; everything that the run needs and that is missing is refused together.

    Raises:
        ConfigError: for what this machine lacks.
        DataError: for data and models.
    """
    config = plan.config
    if lacking := adapter.machine_problems(config.backbone):
        raise ConfigError(lacking)
    store = Store.find(config.data_dir)
    problems = named.unreadable(read_splits(plan), store) + scoring.lacking(plan.tasks)
    if config.backbone.name is not None:
        try:
            backbone.locate(config.backbone.name, config.backbone.revision)
        except DataError as fault:
            problems = fault.problems + problems
    for place, teacher in enumerate(config.training.teachers or ()):
        try:
            backbone.locate(teacher.name, teacher.revision)
        except DataError as fault:
            problems += [
                f"training.teachers[{place}]: {problem.split('. ')[0]}" for problem in fault.problems
            ]
    if problems:
        raise DataError(problems)
    if config.backbone.layers is not None:
        shape_of(config.backbone)  # refuses more than the model has
    return store


TRAINED_TEST, TRAINED_DEV = "trained-test", "trained-dev"  # what is kept of the scores at the end


@dataclass(frozen=True)
class Begin:
    """Where a run starts: at its first step, with an empty `state`, or from a checkpoint and what that says.

    `warnings` has a line for whatever keeps the run from ending as it would have without a stop.
    """

    begun: Begun
    state: Plain
    warnings: list[str]


def begin(built: Built, selection: Selection, folder: Path, path: Path | None, processes: Processes) -> Begin:
    """Restore all parts from a checkpoint; every process must call this.

    `folder` is that of the checkpoints. `path` is one of them, or None for the first step; only that of the
    first process counts.

    Raises:
        RunFailed: if the checkpoint is of another model (exit 7).
    """
    (step,) = processes.share([0.0 if path is None else float(path.name.rpartition("-")[2])])
    if not step:
        return Begin(Begun(), {}, [])
    begun, state = restore(built.stepper, selection, checkpoint.path_of(folder, int(step)))
    lost = []
    if processes.rank == 0 and selection.step is not None:
        lost = checkpoint.best_of(folder, selection.step)
    (is_lost,) = processes.share([float(bool(lost))])
    if is_lost:
        selection.best = selection.step = None
    versions = checkpoint.differences(state)
    then, now = (one.get("precision") for one in (state["stepper"], built.stepper.state()))
    if then not in (None, now):
        versions.append(f"precision {then} then, {now} now")
    if versions:
        lost.append(f"{'; '.join(versions)}: from here on, steps may round differently")
    return Begin(begun, state, lost)


def record(run: Run, found: Begin) -> None:
    """Remove what was logged after the checkpoint, and record from where and with what the run resumes.

    Scores of an earlier attempt's last weights are discarded, unless the weights are sure to be the same.

    Raises:
        RunFailed: if metrics from before the checkpoint are gone (exit 7).
    """
    cut(run.path, found.state.get("metrics_bytes", 0))
    if found.warnings or found.begun.step != run.known.get("checkpoint"):
        for stage in (TRAINED_TEST, TRAINED_DEV):
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(run.path / PARTS / stage)
    note_resumed(run.path, found.begun.step, found.warnings)
    if found.warnings:
        run.status(exact_resume=False)


@dataclass(frozen=True)
class Found:
    """What a run has found.

    Args:
        test: scores of the evaluation tasks, by task.
        dev: scores of the tasks that select.
        baseline: scores before training, by key.
        metric: key of the score that selected; None where the last checkpoint was kept.
        notes: what decided the result and is no option.
        counts: rows and steps.
        seconds: by part of the work.
    """

    test: Mapping[str, Scores]
    dev: Mapping[str, Scores]
    baseline: Mapping[str, float]
    metric: str | None
    notes: Plain
    counts: Mapping[str, int]
    seconds: Mapping[str, float]


def finish(run: Run, plan: TrainPlan, plain: Plain, encoder: Encoder, found: Found) -> Outcome:
    """Write everything; `results.json` comes last, so that where it is, everything is.

    `plain` is the composed configuration, `encoder` has the selected weights.
    """
    config, folder = plan.config, run.path
    both = {**found.test, **found.dev}
    scores = scoring.flat(both)
    main = scoring.main_score(found.test, scoring.flat(found.dev))
    _publish(encoder, plain, scores, folder)
    for one in both.values():
        write_predictions(one, folder / "predictions")
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    plot.curves(metrics, found.metric, folder / "plots" / "curves.png")
    evaluation.draw(both, folder / "plots")
    for task in plan.tasks.values():
        evaluation.draw_dropout_map(task, encoder, folder / "plots")
    kept = {key: found.baseline[key] for key in scores if key in found.baseline}
    run.results(
        {
            "main": main,
            "scores": scores,
            "intervals": finite_intervals(both),
            "baseline": kept,
            "notes": {
                "precision": config.evaluation.precision,
                SELECTED_BY: found.metric,
                POOLING: encoder.pools,
                LENGTH: encoder.max_length,
                **found.notes,
                **scoring.notes(both),
            },
            "counts": dict(found.counts),
            "seconds": dict(found.seconds),
        }
    )
    _warn(idle(metrics))
    scoring.report(both, kept, folder, encoder.pools)
    return Outcome(str(folder), main)


def _publish(encoder: Encoder, plain: Plain, scores: Mapping[str, float], folder: Path) -> None:
    """Write `model/`, complete or not at all; one of an attempt that was killed is removed."""
    with whole_folder(folder / "model") as aside:
        shutil.rmtree(folder / "model", ignore_errors=True)
        encoder.save(aside)
        run = RunFiles(folder)
        config = to_yaml(dict(plain))
        card.write_card(aside, title=title(run), scores=scores, config_yaml=config, **made_of(run))
        sums.write(aside)


class Clock:
    """Seconds by the name of the work; `before` is what earlier attempts of the run took."""

    def __init__(self, before: object) -> None:
        known = before.items() if isinstance(before, Mapping) else ()  # of a file, which may hold anything
        self._seconds = {str(name): one for name, one in known if isinstance(one, int | float)}
        self._running: tuple[str, float] | None = None

    @contextlib.contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the time inside to that of `name`; work of two names must not overlap."""
        self._running = name, time.monotonic()
        try:
            yield
        finally:
            self._seconds = self.read()
            self._running = None

    def read(self) -> dict[str, float]:
        """Seconds by name until now, to the millisecond."""
        if self._running is None:
            return dict(self._seconds)
        name, started = self._running
        so_far = self._seconds.get(name, 0.0) + time.monotonic() - started
        return {**self._seconds, name: round(so_far, 3)}


_log = logging.getLogger("embedrun")
_BAD_BATCH = "bad_batch.json"


class Session:
    """The parts of one run, and the order of its work.

    Raises:
        ConfigError: if a loss can never be active on the rows, or no score selects.
        DataError: if the rows of any split are faulty.
    """

    def __init__(self, plan: TrainPlan, store: Store, compute: Compute, processes: Processes) -> None:
        self._plan, self._compute, self._processes = plan, compute, processes
        evaluation, training = plan.config.evaluation, plan.config.training
        self._divided = divided(plan, store)
        self._rows: Rows = self._divided.train
        self._test = Scorer.read(plan.tasks, plan.dataset, store, evaluation)
        self._dev = scoring.dev_scorer(plan.dev_tasks, self._divided.dev, store, evaluation)
        self._seen = [self._rows, *([] if plan.seen is None else [plan.seen.read("train", store)])]
        selecting = scoring.selecting(self._dev.rows)
        self._trained, self._selected = data.of_run(self._seen, self._test.rows, selecting)
        clean = self._trained.clean()
        self._test, self._dev = self._test.without(clean), self._dev.without(clean)
        self._skipped = skipped_in([self._rows, *self._dev.every_rows(), *self._test.every_rows()])
        check_active(plan.losses, training.batch_size, self._rows.targets, len(self._rows))
        self._positives, warnings = positives(plan.losses, self._rows.targets, len(self._rows))
        self._warnings = [*warnings, contradiction(plan.losses, self._rows.targets)]
        models = data.of_models(plan.config.backbone, training.teachers)
        self._models = models | hub.commit_of(plan.config.dataset) | code_of(asdict(plan.config))
        own = self._divided.dev
        keys = [] if own is None else scoring.own_keys(own.name)
        self._metric = training.select_by or next(iter(keys), None)
        if self._metric is not None and not plan.dev_tasks:  # else the keys are known once they are scored
            scoring.check_select_by(self._metric, keys)

    def check_alike(self) -> None:
        """Refuse machines that have different rows or models (ConfigError); all processes must call this."""
        if self._processes.differ(json.dumps(self._fingerprints(), sort_keys=True)):
            raise ConfigError(
                "data_dir: the machines have different rows, models or code; give each the same data store, "
                "the same models under the same names, and the same packages"
            )

    def check_data(self, folder: Path) -> None:
        """Refuse to resume with other rows or models than the run in this directory began with."""
        same_data(folder, self._fingerprints())

    def train(
        self, run: Run, plain: Plain, overrides: list[str], choices: Plain | None, *, resumed: bool = False
    ) -> Outcome:
        """Baseline, training, final scores, files; what an earlier attempt has done is not repeated.

        `plain` is the composed configuration, as it is written down; `overrides` are what the user changed,
        and `choices` the presets.
        """
        self._run, self._clock, plan = run, Clock(run.known.get("seconds")), self._plan.config
        say_and_log(f"run directory: {run.path}")
        newest = self._open(plain, overrides, choices, resumed=resumed)
        with self._clock.timed("load"):
            built = self._build()
        self._announce(built, newest, overrides)
        with self._clock.timed("baseline"):
            tasks = plan.training.dev_tasks or {}
            dev_before = scoring.dev_alone(
                self._untrained(self._dev, built.encoder, tasks, "untrained-dev", "score dev")
            )
            # Before the test sets, which may take hours.
            if self._metric is not None:
                keys = [key for one in dev_before.values() for key in one.scores]
                scoring.check_select_by(self._metric, keys)
            tasks = plan.evaluation.tasks
            before = self._untrained(
                self._test, built.encoder, tasks, "untrained-test", "score before training"
            )
        untrained = scoring.flat(before) | scoring.flat(dev_before)
        for key, value in untrained.items():
            _log.info("before training: %s %s", key, score_text(key, value))
        selection = self._selection()
        where = begin(built, selection, run.path / CHECKPOINTS, newest.path, self._processes)
        if resumed:
            record(run, where)
            _warn(where.warnings)
        with self._tracker(plain, where.begun) as tracker:
            if newest.path is None:
                _write(tracker, 0, 0.0, {"dev": scoring.flat(dev_before), "test": scoring.flat(before)})
            steps = self._fit(built, selection, tracker, where.begun)
            best = selection.step or steps  # whose weights the encoder holds now
            with self._clock.timed("evaluate"):
                after = self._scores(self._test, built.encoder, TRAINED_TEST, "score trained")
                dev_after = scoring.dev_alone(
                    self._scores(self._dev, built.encoder, TRAINED_DEV, "score dev")
                )
            _write(tracker, best, built.order.epoch(best), {"test": scoring.flat(after)})
        notes = {"exact_resume": False} if run.known.get("exact_resume") is False else {}
        found = Found(
            test=after,
            dev=dev_after,
            baseline=untrained,
            metric=self._metric,
            notes=notes,
            counts=self._counts(steps, best),
            seconds=self._clock.read(),
        )
        return finish(run, self._plan, plain, built.encoder, found)

    def follow(self, resumed: Path | None) -> None:
        """The steps alone: the part of every process but the first, which owns the run directory.

        `resumed` is that directory, where the run is resumed.
        """
        built, selection = self._build(), self._selection()
        folder = (resumed or Path()) / CHECKPOINTS
        where = begin(built, selection, folder, None, self._processes)
        parts = Fit(
            stepper=built.stepper,
            feed=built.feed,
            order=built.order,
            compute=self._compute,
            dev=dict,
            selection=selection,
            tracker=None,
            checkpoints=folder,
            heartbeat=lambda **_: None,
            processes=self._processes,
        )
        fit(parts, self._plan.config.training, self._plan.config.tracking, where.begun)
        self._processes.part()

    def _open(
        self, plain: Plain, overrides: list[str], choices: Plain | None, *, resumed: bool
    ) -> checkpoint.Found:
        """Record what the run is, and find the checkpoint to resume from."""
        run = self._run
        if not resumed:
            stages = stages_behind(self._plan.config.backbone.name)
            run.start(plain, overrides, {**describe(self._fingerprints()), **stages}, choices)
            return checkpoint.Found(None)
        run.go_on()
        (run.path / _BAD_BATCH).unlink(missing_ok=True)
        return checkpoint.newest(run.path / CHECKPOINTS, expected=run.known.get("checkpoint"))

    def _build(self) -> Built:
        checkpoint.seed_random(self._plan.config.seed)
        return build(self._plan, self._rows, self._compute, self._processes)

    def _selection(self) -> Selection:
        training = self._plan.config.training
        return Selection(self._metric, lowest=training.select_lowest, patience=training.patience)

    def _fit(self, built: Built, selection: Selection, tracker: Tracker, begun: Begun) -> int:
        """The steps; a batch that made them fail is written down."""
        training = self._plan.config.training
        steps = built.order.steps(training.epochs, training.max_steps)
        parts = Fit(
            stepper=built.stepper,
            feed=built.feed,
            order=built.order,
            compute=self._compute,
            dev=lambda: scoring.flat(
                scoring.dev_alone(self._dev.score(built.encoder, "score dev", brief=True))
            ),
            selection=selection,
            tracker=tracker,
            checkpoints=self._run.path / CHECKPOINTS,
            heartbeat=lambda **news: self._run.status(steps=steps, seconds=self._clock.read(), **news),
            processes=self._processes,
            tell_first=partial(tell_first_step, self._plan.losses),
        )
        try:
            with self._clock.timed("train"):
                steps = fit(parts, training, self._plan.config.tracking, begun)
        except NonFinite as fault:
            # JSON has no word for what is not finite, and that is what is to be seen here.
            values = {
                name: value if math.isfinite(value) else str(value) for name, value in fault.values.items()
            }
            batch = {"step": fault.step, "rows": fault.rows, "values": values}
            write_atomically(self._run.path / _BAD_BATCH, to_json(batch))
            raise
        self._processes.part()
        return steps

    def _scores(self, scorer: Scorer, encoder: Encoder, stage: str, label: str) -> dict[str, Scores]:
        """The scores of the tasks, each piece kept as soon as it is done."""
        self._run.status(seconds=self._clock.read())
        return scorer.score(encoder, label, kept=Kept(self._run.path, stage))

    def _untrained(
        self, scorer: Scorer, encoder: Encoder, options: Plain, stage: str, label: str
    ) -> dict[str, Scores]:
        """The same before the first step, from the cache where another run has begun with this model."""
        self._run.status(seconds=self._clock.read())
        name = self._plan.config.backbone.name or "the model from scratch"
        kept = Kept(self._run.path, stage)
        tasks = {key: code for key, code in self._models.items() if key.startswith(f"{CODE}evaluation ")}
        return baseline.scored(scorer, encoder, {**options, **tasks}, label, kept=kept, model=name)

    def _tracker(self, plain: Plain, begun: Begun) -> Tracker:
        config = self._plan.config
        mirrors = tracking.mirrors(
            config.tracking, self._run.path, name=config.name, options=plain, step=begun.step
        )
        return Tracker(self._run.path, mirrors=mirrors)

    def _announce(self, built: Built, newest: checkpoint.Found, overrides: list[str]) -> None:
        training = self._plan.config.training
        write_skipped(self._skipped, self._run.path)
        data.tell(self._run.path, self._trained, self._selected)
        for line in announcement(built, self._rows, training, self._compute, self._processes):
            say_and_log(line)
        if self._divided.said:
            say_and_log(self._divided.said)
        for key, text in self._positives.items():
            say_and_log(f"{key}: {text}")
        notices.tell(self._plan.config, overrides, built.encoder.backbone.declared)
        _warn([line for line in (*self._warnings, skip_warning(self._skipped)) if line])
        _warn(newest.warnings)
        if newest.path is not None:
            say_and_log(f"resuming from {newest.path}")

    def _counts(self, steps: int, best: int) -> dict[str, int]:
        counts = {"train_rows": len(self._rows), "steps": steps, **self._test.counts(), **self._dev.counts()}
        counts["best_step"] = best
        if self._skipped:
            counts["skipped_rows"] = len(self._skipped)
        if self._rows.masked is not None:
            counts["maskable_rows"] = int(self._rows.targets["maskable"].sum())
        return counts

    def _fingerprints(self) -> dict[str, str]:
        # Of what is read, however much of it is drawn; of two with one name, the run's own counts.
        seen = scoring.fingerprints_of([*self._seen[:0:-1], self._divided.every])
        return seen | self._dev.fingerprints() | self._test.fingerprints() | self._models


def _write(tracker: Tracker, step: int, epoch: float, scores: Mapping[str, Mapping[str, float]]) -> None:
    """Scores by split and key, as metrics."""
    for split, own in scores.items():
        for name, value in own.items():
            tracker.metric(step=step, epoch=epoch, split=split, name=name, value=value)


def _warn(warnings: list[str]) -> None:
    for warning in warnings:
        say_and_log(f"warning: {warning}")
