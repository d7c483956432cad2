"""One training run, from its configuration to its result."""

import contextlib
import json
import logging
import math
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from torch.nn import ModuleDict

from embedrun import card, gpu, plot, tracking
from embedrun.backbone import adapter
from embedrun.console import say_and_log, score_text
from embedrun.encoder import Encoder
from embedrun.errors import ConfigError
from embedrun.evaluation.scores import Scores
from embedrun.experiment import baseline, contamination, data, evaluation, leaderboard, near, notices, scoring
from embedrun.experiment.amounts import Energy, used
from embedrun.experiment.build import Built, announcement, build, build_encoder
from embedrun.experiment.card import made_of
from embedrun.experiment.losses import check_rows, idle, tell_first_step
from embedrun.experiment.outcome import open_run_directory, resumes, settled
from embedrun.experiment.plan import TrainPlan, plan_train
from embedrun.experiment.scoring import Kept, Scorer, finite_intervals, write_predictions
from embedrun.family import code_of
from embedrun.files import Plain, to_json, whole_folder, write_atomically
from embedrun.gpu import Compute
from embedrun.report.diff import changes
from embedrun.report.scores import change_lines
from embedrun.runs import search, sums
from embedrun.runs.directory import CHECKPOINTS, PARTS, Outcome, Run, config_hash, describe, to_yaml
from embedrun.runs.listing import title
from embedrun.runs.reading import CHANGES, LENGTH, LUCK, POOLING, SELECTED_BY, RunFiles, stages_behind
from embedrun.runs.search import CODE, note_resumed, same_data
from embedrun.signals import time_limit
from embedrun.store import Store
from embedrun.tracking import Tracker, cut
from embedrun.training import checkpoint, workers
from embedrun.training.loop import Fit, Selection, StepsDone, fit, restore
from embedrun.training.processes import Processes
from embedrun.training.step import NonFinite
from embedrun.training.together import Together

_log = logging.getLogger("embedrun")
_BAD_BATCH = "bad_batch.json"
TRAINED_TEST, TRAINED_DEV = "trained-test", "trained-dev"  # what is kept of the scores at the end


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
        asked: hash of the configuration before another process settled it, if one has.
        choices: the presets behind the configuration, by group, which a new run records.
    """
    # The process that starts a worker tells it what to resume.
    automatic = resumes(plain) and resumed is None
    where = settled(plain, directory, resumed, automatic=automatic and workers.FOLDER not in os.environ)
    if where.result is not None:
        return where.result
    config, resumed, asked = where.config, where.resumed, where.asked or asked
    plan = plan_train(config)
    store = check_places(plan)
    # A worker gets the signal from the process that has started it.
    with time_limit(None if workers.FOLDER in os.environ else plan.config.training.max_time):
        if workers.wanted(plan.config.gpu):
            return workers.launch(
                plan.config.gpu,
                config,
                run=f"{__name__}:run",
                resumed=resumed,
                overrides=overrides,
                directory=directory,
                asked=asked,
                choices=choices,
            )
        workers.join(plan.config.gpu, f"{config_hash(config)} {resumed}")
        compute = gpu.start(plan.config.gpu, place=int(os.environ.get("LOCAL_RANK", "0")))
        # Rows are read before there is a run directory: a faulty one should leave nothing behind.
        session = Session(plan, store, compute, Processes())
        session.check_same(resumed)
        if session.processes.rank > 0:
            session.follow(resumed)
            return Outcome()

        def open_run() -> Run:
            if resumed is not None:
                return Run.claim(resumed)
            new = Run.create(plan.config.name, config, directory=directory, again=automatic)
            new.known |= {} if asked is None else {search.ASKED: asked}  # goes into its first status
            return new

        with open_run_directory(open_run) as directory_of_run:
            workers.made(directory_of_run.path)
            return session.train(directory_of_run, config, overrides, choices, resumed=resumed is not None)


def check_places(plan: TrainPlan) -> Store:
    """The data store; everything that the run needs and that is missing is refused together."""
    config = plan.config
    if lacking := adapter.machine_problems(config.backbone):
        raise ConfigError(lacking)
    store = Store.find(config.data_dir)
    data.check_places(data.read_splits(plan), plan.tasks, config.backbone, config.training.teachers, store)
    return store


@dataclass(frozen=True)
class ResumePoint:
    """Where a run starts: at its first step, with an empty `state`, or from a checkpoint and what that says.

    `warnings` has a line for whatever keeps the run from ending as it would have without a stop.
    """

    done: StepsDone
    state: Plain
    warnings: list[str]


def start_from(
    built: Built, selection: Selection, folder: Path, path: Path | None, processes: Processes
) -> ResumePoint:
    """Restore all parts from a checkpoint; every process must call this.

    `folder` is that of the checkpoints. `path` is one of them, or None for the first step; only that of the
    first process counts.
    """
    (step,) = processes.share([0.0 if path is None else float(path.name.rpartition("-")[2])])
    if not step:
        return ResumePoint(StepsDone(), {}, [])
    done, state = restore(built.stepper, selection, checkpoint.path_of(folder, int(step)))
    warnings = []
    if processes.rank == 0 and selection.step is not None:
        warnings = checkpoint.best_of(folder, selection.step)
    (is_lost,) = processes.share([float(bool(warnings))])
    if is_lost:
        selection.best = selection.step = None
    changed = checkpoint.differences(state)
    then, now = state["stepper"]["precision"], built.stepper.state()["precision"]
    if then != now:
        changed.append(f"precision {then} then, {now} now")
    if changed:
        warnings.append(f"{'; '.join(changed)}: from here on, steps may round differently")
    return ResumePoint(done, state, warnings)


def note_resume_point(run: Run, point: ResumePoint) -> None:
    """Remove what was logged after the checkpoint, and record from where and with what the run resumes.

    Scores of an earlier attempt's last weights are discarded, unless the weights are sure to be the same.
    """
    cut(run.path, point.state.get("metrics_bytes", 0))
    if point.warnings or point.done.step != run.known.get("checkpoint"):
        for stage in (TRAINED_TEST, TRAINED_DEV):
            shutil.rmtree(run.path / PARTS / stage, ignore_errors=True)
    note_resumed(run.path, point.done.step, point.warnings)
    if point.warnings:
        run.status(exact_resume=False)


def _publish(encoder: Encoder, plain: Plain, scores: Mapping[str, float], folder: Path) -> None:
    """Write `model/`, complete or not at all; one of an attempt that was killed is removed."""
    with whole_folder(folder / "model") as aside:
        shutil.rmtree(folder / "model", ignore_errors=True)
        encoder.save(aside)
        run = RunFiles(folder)
        config = to_yaml(dict(plain))
        text = card.card_text(aside, title=title(run), scores=scores, config_yaml=config, **made_of(run))
        (aside / "README.md").write_text(text, encoding="utf-8")
        sums.write(aside)


def _luck(metrics: Sequence[Plain], key: str, chosen: int) -> Plain | None:
    """The test score of the chosen step and of the best one; None without `training.score_test`."""
    by_step = {row["step"]: row["value"] for row in metrics if (row["split"], row["name"]) == ("test", key)}
    known = {step: value for step, value in by_step.items() if step and value is not None}
    if len(known) < 2 or chosen not in known:
        return None
    best = max(known, key=lambda step: known[step])
    return {"key": key, "chosen": known[chosen], "best": known[best], "best_step": best}


class Clock:
    """Seconds by the name of the work; `before` is what earlier attempts of the run took."""

    def __init__(self, before: Mapping[str, float]) -> None:
        self._seconds = dict(before)
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


class Session:
    """The parts of one run, and the order of its work."""

    def __init__(self, plan: TrainPlan, store: Store, compute: Compute, processes: Processes) -> None:
        self.processes, self._plan, self._compute = processes, plan, compute
        evaluation, training = plan.config.evaluation, plan.config.training
        self._divided = data.divided(plan, store)
        self._rows = self._divided.train  # by the losses that read them
        self._test = Scorer.read(plan.tasks, plan.dataset, store, evaluation)
        self._dev = scoring.dev_scorer(plan.dev_tasks, self._divided.dev, store, evaluation)
        self._seen = [*self._rows.values(), *data.seen_rows(plan, store)]
        selecting = scoring.selecting(self._dev.rows)
        self._trained, self._selected = contamination.of_run(self._seen, self._test.rows, selecting)
        self._by_part = contamination.by_part(self._rows, self._test.rows)
        clean = near.clean(self._trained, evaluation.near)
        self._test, self._dev = self._test.without(clean), self._dev.without(clean)
        self._skipped = data.skipped_in(
            [*self._rows.values(), *self._dev.every_rows(), *self._test.every_rows()]
        )
        self._positives, self._warnings = check_rows(plan.losses, training.batch_size, self._rows)
        models = data.of_models(plan.config.backbone, training.teachers)
        self._models = models | data.commits(plan.config) | code_of(asdict(plan.config))
        keys = [] if self._divided.dev is None else scoring.own_keys(self._divided.dev, evaluation.dims)
        usual = keys[0] if keys else None
        self._metric = scoring.metric_of(training.select_by) or usual
        if not plan.dev_tasks:  # else the keys are known once they are scored
            scoring.check_select_by(training, keys)

    def check_same(self, resumed: Path | None) -> None:
        """Refuse other rows, models or code than the resumed run or another machine has (ConfigError).

        All processes must call this.
        """
        if self.processes.differ(json.dumps(self._fingerprints(), sort_keys=True)):
            raise ConfigError(
                "data_dir: the machines have different rows, models or code; give each the same data store, "
                "the same models under the same names, and the same packages"
            )
        if resumed is not None:
            same_data(resumed, self._fingerprints())

    def train(
        self, run: Run, plain: Plain, overrides: list[str], choices: Plain | None, *, resumed: bool
    ) -> Outcome:
        """Baseline, training, final scores, files; what an earlier attempt has done is not repeated."""
        self._run, self._clock, plan = run, Clock(run.known.get("seconds") or {}), self._plan.config
        say_and_log(f"run directory: {run.path}")
        path, warnings = self._open(plain, overrides, choices, resumed=resumed)
        with self._clock.timed("load"):
            built = self._build()
        self._announce(built, overrides, warnings)
        if path is not None:
            say_and_log(f"resuming from {path}")
        together = Together(built.encoder, self.processes)
        with self._clock.timed("baseline"), together.asking():
            dev_before = scoring.dev_alone(
                self._untrained(self._dev, built.encoder, plan.training.dev_tasks or {}, "untrained-dev")
            )
            # Before the test sets, which may take hours.
            keys = [key for task in dev_before.values() for key in task.scores]
            scoring.check_select_by(plan.training, keys)
            before = self._untrained(self._test, built.encoder, plan.evaluation.tasks, "untrained-test")
        untrained = scoring.flat(before) | scoring.flat(dev_before)
        for key, value in untrained.items():
            _log.info("before training: %s %s", key, score_text(key, value))
        selection = self._selection(untrained)
        point = start_from(built, selection, run.path / CHECKPOINTS, path, self.processes)
        if resumed:
            note_resume_point(run, point)
            _warn(point.warnings)
        mirrors = tracking.mirrors(
            plan.tracking, run.path, name=plan.name, options=plain, step=point.done.step
        )
        with Tracker(run.path, mirrors=mirrors) as tracker:
            if not point.done.step:
                _write(tracker, 0, 0.0, {"dev": scoring.flat(dev_before), "test": scoring.flat(before)})
            selecting = scoring.with_weighted(scoring.flat(dev_before), plan.training.select_by)
            start = selecting.get(self._metric or "", math.nan)
            done = self._fit(built, selection, tracker, point.done, start)
            best = selection.chosen(done.step)  # whose weights the encoder holds now
            encoder, together = self._encoder, Together(self._encoder, self.processes)
            if selection.floor and selection.step is None:
                floor = ", ".join(f"{key} {score_text(key, least)}" for key, least in selection.floor.items())
                _warn([f"no checkpoint reached training.select_floor ({floor}); the last one is kept"])
            with self._clock.timed("evaluate"), together.asking():
                after = self._scores(self._test, encoder, TRAINED_TEST, "score trained")
                dev_after = scoring.dev_alone(self._scores(self._dev, encoder, TRAINED_DEV, "score dev"))
            self.processes.part()
            self._changes = changes(dev_before, dev_after)
            if best:
                _write(tracker, best, built.order.epoch(best), {"test": scoring.flat(after)})
        return self._write_result(
            plain, encoder, after, dev_after, untrained, self._counts(done.step, best), done
        )

    def follow(self, resumed: Path | None) -> None:
        """The part of every process but the first, which owns the run directory: steps, and to encode."""
        built, selection = self._build(), self._selection({})
        together, folder = Together(built.encoder, self.processes), (resumed or Path()) / CHECKPOINTS
        together.serve()
        done = start_from(built, selection, folder, None, self.processes).done
        self._steps(self._parts(built, selection, folder), done)
        Together(self._encoder, self.processes).serve()
        self.processes.part()

    def _open(
        self, plain: Plain, overrides: list[str], choices: Plain | None, *, resumed: bool
    ) -> tuple[Path | None, list[str]]:
        run = self._run
        if not resumed:
            stages = stages_behind(self._plan.config.backbone.name)
            run.start(plain, overrides, {**describe(self._fingerprints()), **stages}, choices)
            return None, []
        run.go_on()
        (run.path / _BAD_BATCH).unlink(missing_ok=True)
        return checkpoint.newest(run.path / CHECKPOINTS, expected=run.known.get("checkpoint"))

    def _build(self) -> Built:
        checkpoint.seed_random(self._plan.config.seed)
        return build(self._plan, self._divided, self._compute, self.processes)

    def _selection(self, untrained: Mapping[str, float]) -> Selection:
        training = self._plan.config.training
        changes = training.select_floor or {}
        floor = {key: untrained.get(key, math.nan) + change for key, change in changes.items()}
        return Selection(self._metric, lowest=training.select_lowest, patience=training.patience, floor=floor)

    def _fit(
        self, built: Built, selection: Selection, tracker: Tracker, done: StepsDone, untrained: float
    ) -> StepsDone:
        training, folder = self._plan.config.training, self._run.path
        steps = built.order.steps(training.epochs, training.max_steps)

        def beat(**news: object) -> None:
            energy.read()
            self._run.status(steps=steps, seconds=self._clock.read(), **news)

        def test() -> dict[str, float]:
            return scoring.flat(self._test.score(built.encoder, "score test", brief=True))

        energy = Energy(cuda=self._compute.device.type == "cuda")
        parts = replace(
            self._parts(built, selection, folder / CHECKPOINTS),
            tracker=tracker,
            dev=lambda: scoring.with_weighted(
                scoring.flat(scoring.dev_alone(self._dev.score(built.encoder, "score dev", brief=True))),
                training.select_by,
            ),
            test=test if training.score_test else dict,
            untrained=untrained,
            heartbeat=beat,
            tell_first=partial(tell_first_step, self._plan.losses),
        )
        try:
            with self._clock.timed("train"):
                done = self._steps(parts, done)
        except NonFinite as fault:
            # JSON has no word for what is not finite, and that is what is to be seen here.
            values = {
                name: value if math.isfinite(value) else str(value) for name, value in fault.values.items()
            }
            batch = {"step": fault.step, "rows": fault.rows, "values": values}
            write_atomically(folder / _BAD_BATCH, to_json(batch))
            raise
        is_first = self._run.known.get("attempts") in (None, 1)  # else part of the energy was not counted
        self._kwh = energy.read() if is_first else None
        return done

    def _parts(self, built: Built, selection: Selection, checkpoints: Path) -> Fit:
        def whole() -> ModuleDict:
            """The best weights go into a new encoder: those that trained are in shards."""
            checkpoint.seed_random(self._plan.config.seed)
            self._encoder = build_encoder(self._plan, self._divided, self._compute)[0]
            return ModuleDict({"encoder": self._encoder, "mix": built.stepper.trained["mix"]})

        self._encoder = built.encoder
        return Fit(
            built.stepper,
            built.feed,
            built.order,
            self._compute,
            selection,
            checkpoints,
            self.processes,
            whole=whole if self._plan.config.gpu.shard == "full" else None,
        )

    def _steps(self, parts: Fit, done: StepsDone) -> StepsDone:
        return fit(parts, self._plan.config.training, self._plan.config.tracking, done)

    def _scores(self, scorer: Scorer, encoder: Encoder, stage: str, label: str) -> dict[str, Scores]:
        self._run.status(seconds=self._clock.read())
        return scorer.score(encoder, label, kept=Kept(self._run.path, stage))

    def _untrained(self, scorer: Scorer, encoder: Encoder, options: Plain, stage: str) -> dict[str, Scores]:
        """The same before the first step, from the cache where another run has begun with this model."""
        self._run.status(seconds=self._clock.read())
        name = self._plan.config.backbone.name or "the model from scratch"
        code = {key: mark for key, mark in self._models.items() if key.startswith(f"{CODE}evaluation ")}
        kept = Kept(self._run.path, stage)
        on_dev = scorer is self._dev
        return baseline.scored(
            scorer, encoder, {**options, **code}, kept=kept, model=name, predictions=on_dev
        )

    def _write_result(
        self,
        plain: Plain,
        encoder: Encoder,
        test: Mapping[str, Scores],
        dev: Mapping[str, Scores],
        untrained: Mapping[str, float],
        counts: Mapping[str, int],
        done: StepsDone,
    ) -> Outcome:
        """Write everything; `results.json` comes last, so that where it is, everything is."""
        run, plan, scored = self._run, self._plan, {**test, **dev}
        folder, scores = run.path, scoring.flat(scored)
        main = scoring.main_score(test, scoring.flat(dev))
        _publish(encoder, plain, scores, folder)
        for task in scored.values():
            write_predictions(task, folder / "predictions")
        metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        for path in plot.paths(folder / "plots" / "curves", plan.config.plots.format):
            plot.curves(metrics, self._metric, path)
        evaluation.draw(scored, plan.tasks, encoder, folder / "plots", plan.config.plots.format)
        leaderboard.write(folder, plan.tasks, scored, encoder)
        near.tell(self._trained, scored, folder, plan.config.evaluation, plan.config.plots.format)
        before = {key: untrained[key] for key in scores if key in untrained}
        notes = {
            "precision": plan.config.evaluation.precision,
            SELECTED_BY: self._metric,
            POOLING: encoder.pools,
            LENGTH: encoder.max_length,
            **({"exact_resume": False} if run.known.get("exact_resume") is False else {}),
            **scoring.notes(scored),
        }
        run.results(
            {
                "main": main,
                "scores": scores,
                "intervals": finite_intervals(scored),
                "baseline": before,
                CHANGES: self._changes,
                "notes": notes,
                "counts": dict(counts),
                **({LUCK: luck} if (luck := _luck(metrics, str(main["name"]), counts["best_step"])) else {}),
                "seconds": self._clock.read(),
                "amounts": used(plan.config, done, seconds=self._clock.read()["train"], energy=self._kwh),
            }
        )
        _warn(idle(metrics))
        scoring.report(scored, before, folder, encoder.pools)
        for line in change_lines(before, scores, self._changes):
            say_and_log(line)
        return Outcome(str(folder), main)

    def _announce(self, built: Built, overrides: list[str], warnings: list[str]) -> None:
        data.write_skipped(self._skipped, self._run.path)
        contamination.tell(self._run.path, self._trained, self._selected, self._by_part)
        training = self._plan.config.training
        lines = announcement(built, self._rows, training, self._compute, self.processes)
        lines += [*self._divided.said, *(f"{key}: {text}" for key, text in self._positives.items())]
        for line in filter(None, lines):
            say_and_log(line)
        notices.tell(self._plan.config, overrides, built.encoder.backbone.declared)
        _warn([*self._warnings, data.skip_warning(self._skipped), *warnings])

    def _counts(self, steps: int, best: int) -> dict[str, int]:
        counts = {"train_rows": self._divided.rows}
        if len(self._divided.sizes) > 1:
            counts |= {f"train_rows/{part}": rows for part, rows in self._divided.sizes.items()}
        counts |= {"steps": steps, **self._test.counts(), **self._dev.counts()}
        counts["best_step"] = best
        if self._skipped:
            counts["skipped_rows"] = len(self._skipped)
        if masked := [rows for rows in self._rows.values() if rows.masked is not None]:
            counts["maskable_rows"] = sum(int(rows.targets["maskable"].sum()) for rows in masked)
        return counts

    def _fingerprints(self) -> dict[str, str]:
        # Of whole splits, even if a part is drawn; of two with the same name, the run's own is kept.
        seen = scoring.fingerprints_of(
            [*reversed(self._seen[len(self._rows) :]), *self._divided.every.values()]
        )
        return seen | self._dev.fingerprints() | self._test.fingerprints() | self._models


def _write(tracker: Tracker, step: int, epoch: float, scores: Mapping[str, Mapping[str, float]]) -> None:
    for split, values in scores.items():
        for name, value in values.items():
            tracker.metric(step=step, epoch=epoch, split=split, name=name, value=value)


def _warn(warnings: Sequence[str | None]) -> None:
    for warning in filter(None, warnings):
        say_and_log(f"warning: {warning}")
