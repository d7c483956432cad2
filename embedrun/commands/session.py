"""One training run from rows to results, once everything that can be refused has been."""

import json
import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from embedrun import tracking
from embedrun.commands import contamination, dev, fingerprint, scoring, unlike_files
from embedrun.commands.active import check_active, contradiction, positives
from embedrun.commands.begin import TRAINED_DEV, TRAINED_TEST, begin, record
from embedrun.commands.build import Built, announcement, build
from embedrun.commands.clock import Clock
from embedrun.commands.finish import Found, finish
from embedrun.commands.kept import Kept
from embedrun.commands.plan import TrainPlan
from embedrun.commands.scoring import Scorer
from embedrun.commands.skipped import skip_warning, skipped_in, write_skipped
from embedrun.console import say
from embedrun.encoder import Encoder
from embedrun.errors import ConfigError
from embedrun.evaluation.source import Scores
from embedrun.files import to_json, write_atomically
from embedrun.gpu import Compute
from embedrun.rows import Rows
from embedrun.runs.directory import CHECKPOINTS, Outcome, Run, describe
from embedrun.runs.search import same_data
from embedrun.store import Store
from embedrun.tracking import Tracker
from embedrun.training import checkpoint
from embedrun.training.finite import NonFinite
from embedrun.training.loop import Begun, Fit, fit
from embedrun.training.processes import Processes
from embedrun.training.selection import Selection

_log = logging.getLogger("embedrun")
_BAD_BATCH = "bad_batch.json"


class Session:
    """The parts of one run, and the order of its work.

    Args:
        plan: the checked configuration.
        store: where data is.
        compute: device and precision.
        processes: that train together.

    Raises:
        ConfigError: if a loss can never be active on the rows, or no score selects.
        DataError: if the rows of any split are faulty.
    """

    def __init__(self, plan: TrainPlan, store: Store, compute: Compute, processes: Processes) -> None:
        self._plan, self._compute, self._processes = plan, compute, processes
        evaluation, training = plan.config.evaluation, plan.config.training
        self._every: Rows = plan.dataset.read("train", store)
        self._rows = self._every.drawn(training.data_fraction, plan.config.seed)
        self._test = Scorer.read(plan.tasks, plan.dataset, store, evaluation)
        self._dev = Scorer.read(dev.tasks(plan.dev_tasks), plan.dev, store, evaluation)
        self._seen = [self._rows, *([] if plan.seen is None else [plan.seen.read("train", store)])]
        selecting = dev.selecting(self._dev.rows)
        self._trained, self._selected = contamination.of_run(self._seen, self._test.rows, selecting)
        clean = self._trained.clean()
        self._test, self._dev = self._test.without(clean), self._dev.without(clean)
        self._skipped = skipped_in([self._rows, *self._dev.every_rows(), *self._test.every_rows()])
        check_active(plan.losses, training.batch_size, self._rows.targets, len(self._rows))
        self._positives, warnings = positives(plan.losses, self._rows.targets, len(self._rows))
        self._warnings = [*warnings, contradiction(plan.losses, self._rows.targets)]
        self._models = fingerprint.of_models(plan.config.backbone, training.teachers)
        (own,) = self._dev.rows[dev.OWN].values()
        keys = dev.own_keys(own.name)
        self._metric = training.select_by or keys[0]
        if not plan.dev_tasks:  # else what keys there are shows when they are scored
            dev.check_select_by(self._metric, keys)

    def check_alike(self) -> None:
        """Refuse machines that have different rows or models; all processes must ask.

        Raises:
            ConfigError: where they do.
        """
        if self._processes.differ(json.dumps(self._fingerprints(), sort_keys=True)):
            raise ConfigError(
                "data_dir: the machines have different rows or models; give each the same data store, and "
                "the same models under the same names"
            )

    def check_data(self, folder: Path) -> None:
        """Refuse to go on with other rows or models than the run in this directory began with."""
        same_data(folder, self._fingerprints())

    def train(
        self, run: Run, plain: Mapping[str, Any], overrides: list[str], *, resumed: bool = False
    ) -> Outcome:
        """Baseline, training, final scores, files; what an earlier attempt has done is not done again.

        Args:
            run: the run directory.
            plain: the composed configuration, as it is written down.
            overrides: what the user changed.
            resumed: whether the run goes on.
        """
        self._run, self._clock = run, Clock(run.known.get("seconds", {}))
        _tell(f"run directory: {run.path}")
        newest = self._open(plain, overrides, resumed=resumed)
        with self._clock.timed("load"):
            built = self._build()
        self._announce(built, newest, overrides)
        with self._clock.timed("baseline"):
            dev_before = dev.dev_alone(self._scores(self._dev, built.encoder, "untrained-dev", "score dev"))
            # Before the test sets, which may take hours.
            dev.check_select_by(self._metric, [key for one in dev_before.values() for key in one.scores])
            before = self._scores(self._test, built.encoder, "untrained-test", "score untrained")
        baseline = scoring.flat(before) | scoring.flat(dev_before)
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
                dev_after = dev.dev_alone(self._scores(self._dev, built.encoder, TRAINED_DEV, "score dev"))
            _write(tracker, best, built.order.epoch(best), {"test": scoring.flat(after)})
        notes = {"exact_resume": False} if run.known.get("exact_resume") is False else {}
        found = Found(
            test=after,
            dev=dev_after,
            baseline=baseline,
            metric=self._metric,
            notes=notes,
            counts=self._counts(steps, best),
            seconds=self._clock.read(),
        )
        return finish(run, self._plan, plain, built.encoder, self._rows.name, found)

    def follow(self, resumed: Path | None) -> None:
        """The steps alone: the part of every process but the first, which owns the run directory.

        Args:
            resumed: the run directory, where the run goes on.
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

    def _open(self, plain: Mapping[str, Any], overrides: list[str], *, resumed: bool) -> checkpoint.Found:
        """Write down what the run is, and find the checkpoint to go on from."""
        run = self._run
        if not resumed:
            run.start(plain, overrides, describe(self._fingerprints()))
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
        """The steps; a batch that broke them off is written down."""
        parts = Fit(
            stepper=built.stepper,
            feed=built.feed,
            order=built.order,
            compute=self._compute,
            dev=lambda: scoring.flat(dev.dev_alone(self._dev.score(built.encoder, "score dev", brief=True))),
            selection=selection,
            tracker=tracker,
            checkpoints=self._run.path / CHECKPOINTS,
            heartbeat=lambda **news: self._run.status(seconds=self._clock.read(), **news),
            processes=self._processes,
        )
        try:
            with self._clock.timed("train"):
                steps = fit(parts, self._plan.config.training, self._plan.config.tracking, begun)
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
        """What the tasks find, each part kept as it comes."""
        self._run.status(seconds=self._clock.read())
        return scorer.score(encoder, label, kept=Kept(self._run.path, stage))

    def _tracker(self, plain: Mapping[str, Any], begun: Begun) -> Tracker:
        config = self._plan.config
        mirrors = tracking.mirrors(
            config.tracking, self._run.path, name=config.name, options=plain, step=begun.step
        )
        return Tracker(self._run.path, mirrors=mirrors)

    def _announce(self, built: Built, newest: checkpoint.Found, overrides: list[str]) -> None:
        training = self._plan.config.training
        write_skipped(self._skipped, self._run.path)
        contamination.tell(self._run.path, self._trained, self._selected)
        for line in announcement(built, self._rows, training, self._compute, self._processes):
            _tell(line)
        for key, text in self._positives.items():
            _tell(f"{key}: {text}")
        unlike_files.tell(self._plan.config, overrides, built.encoder.backbone.declared)
        _warn([line for line in (*self._warnings, skip_warning(self._skipped)) if line])
        _warn(newest.warnings)
        if newest.path is not None:
            _tell(f"going on from {newest.path}")

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
        seen = scoring.fingerprints_of([*self._seen[:0:-1], self._every])
        return seen | self._dev.fingerprints() | self._test.fingerprints() | self._models


def _write(tracker: Tracker, step: int, epoch: float, scores: Mapping[str, Mapping[str, float]]) -> None:
    """Scores by split and key, as metrics."""
    for split, own in scores.items():
        for name, value in own.items():
            tracker.metric(step=step, epoch=epoch, split=split, name=name, value=value)


def _warn(warnings: list[str]) -> None:
    for warning in warnings:
        _tell(f"warning: {warning}")


def _tell(text: str) -> None:
    """One message to the person and to the run's log."""
    say(text)
    _log.info("%s", text)
