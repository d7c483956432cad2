"""One training run from rows to results, once everything that can be refused has been."""

import contextlib
import json
import logging
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from embedrun import card, plot
from embedrun.backbone.quantized import count
from embedrun.backbone.token_cache import tokenize
from embedrun.commands import contamination, drawing, score_table, scoring
from embedrun.commands.active import check_active, contradiction, sources
from embedrun.commands.kept import finite_intervals, write_predictions
from embedrun.commands.outcome import Outcome
from embedrun.commands.plan import TrainPlan
from embedrun.commands.scoring import Scorer
from embedrun.commands.skipped import skip_warning, skipped_in, write_skipped
from embedrun.config import BackboneConfig, PoolingConfig
from embedrun.console import say
from embedrun.encoder import Encoder
from embedrun.environment import describe
from embedrun.errors import ConfigError
from embedrun.evaluation.heldout import Heldout
from embedrun.gpu import Compute
from embedrun.loss.mix import Mix
from embedrun.prompt import in_training, in_use
from embedrun.rows import Rows, views_of
from embedrun.run import Run, to_yaml
from embedrun.store import Store
from embedrun.tracking import Tracker
from embedrun.training.feed import Feed
from embedrun.training.loop import Fit, fit
from embedrun.training.order import Draw, Order
from embedrun.training.selection import Selection
from embedrun.training.step import Stepper
from embedrun.training.teachers import Teachers

_log = logging.getLogger("embedrun")


class Session:
    """The parts of one run, and the order of its work.

    Args:
        plan: the checked configuration.
        store: where data is.
        compute: device and precision.

    Raises:
        ConfigError: if a loss can never be active on the rows.
        DataError: if the rows of any split are faulty.
    """

    def __init__(self, plan: TrainPlan, store: Store, compute: Compute) -> None:
        self._plan, self._compute = plan, compute
        self._seconds: dict[str, float] = {}
        evaluation = plan.config.evaluation
        self._rows: Rows = plan.dataset.read("train", store)
        self._test = Scorer.read(plan.tasks, plan.dataset, store, evaluation)
        self._dev = Scorer.read({"dev": Heldout(split="dev")}, plan.dev, store, evaluation)
        self._seen = [self._rows, *([] if plan.seen is None else [plan.seen.read("train", store)])]
        self._trained, self._selected = contamination.of_run(self._seen, self._test.rows, self._dev.rows)
        clean = self._trained.clean()
        self._test, self._dev = self._test.without(clean), self._dev.without(clean)
        self._skipped = skipped_in([self._rows, *self._dev.every_rows(), *self._test.every_rows()])
        columns = self._rows.targets
        check_active(plan.losses, plan.config.training.batch_size, columns, len(self._rows))
        self._warning = contradiction(plan.losses, columns)
        (dev,) = self._dev.rows["dev"].values()
        self._metric = f"{dev.name}_dev/spearman"

    def train(self, run: Run, plain: Mapping[str, Any], overrides: list[str]) -> Outcome:
        """Baseline, training, final scores, files.

        Args:
            run: the run directory.
            plain: the composed configuration, as it is written down.
            overrides: what the user changed.
        """
        self._run, config = run, self._plan.config
        _tell(f"run directory: {self._run.path}")
        torch.manual_seed(config.seed)
        with self._timed("load"):
            encoder, stepper, feed = self._build()
        self._run.start(plain, overrides, describe(self._fingerprints()))
        write_skipped(self._skipped, self._run.path)
        contamination.tell(self._run.path, self._trained, self._selected)
        order = Order(len(self._rows), config.training.batch_size, config.training.accumulate, config.seed)
        self._announce(encoder, order)
        tracker = Tracker(self._run.path)
        with self._timed("baseline"):
            before = self._test.score(encoder, "score untrained")
            dev_before = scoring.flat(self._dev.score(encoder, "score dev"))
        self._write_metrics(tracker, 0, 0.0, before, dev_before)
        selection = Selection(self._metric)
        parts = Fit(
            stepper=stepper,
            feed=feed,
            order=order,
            compute=self._compute,
            dev=lambda: scoring.flat(self._dev.score(encoder, "score dev", brief=True)),
            selection=selection,
            tracker=tracker,
            checkpoints=self._run.path / "checkpoints",
            heartbeat=lambda step: self._run.status(step=step),
        )
        with self._timed("train"):
            steps = fit(parts, config.training, config.tracking)
        with self._timed("evaluate"):
            after = self._test.score(encoder, "score trained")
            dev_after = self._dev.score(encoder, "score dev")
        best = selection.step or steps  # whose weights the encoder holds now
        self._write_metrics(tracker, best, order.epoch(best), after, {})
        tracker.close()
        baseline = scoring.flat(before) | dev_before
        counts = {"train_rows": len(self._rows), "steps": steps, **self._test.counts(), **self._dev.counts()}
        counts["best_step"] = best
        if self._skipped:
            counts["skipped_rows"] = len(self._skipped)
        if self._rows.masked is not None:
            counts["maskable_rows"] = int(self._rows.targets["maskable"].sum())
        return self._finish(encoder, plain, after, dev_after, baseline, counts)

    def _build(self) -> tuple[Encoder, Stepper, Feed]:
        config = self._plan.config
        encoder = Encoder.build(
            config.backbone, config.pooling, seed=config.seed, vocabulary_texts=self._rows.sentences()
        ).to(self._compute.device)
        losses, training = self._plan.losses, config.training
        own = config.dataset.get("prompts") or {}
        prompts = in_training(encoder.prompt, own, views_of(self._plan.dataset))
        encoder.use(in_use(encoder.prompt, config.evaluation.prompt, config.evaluation.text_edit))
        feed = Feed(
            self._rows,
            partial(tokenize, encoder.backbone),
            losses.passes,
            losses.targets,
            seed=config.seed,
            mask=self._mask(encoder),
            prompts=prompts,
        )
        teachers = self._teach(feed)
        mix = Mix(config.loss.terms, dim=encoder.dim, teacher_dims=teachers.dims).to(self._compute.device)
        stepper = Stepper(encoder, mix, self._compute, training, teachers=teachers, taught=losses.taught)
        # What a backbone cannot do should show before anything is scored.
        stepper.rehearse(feed.batch(Draw(0, 0, np.arange(min(2, len(self._rows))))))
        return encoder, stepper, feed

    def _mask(self, encoder: Encoder) -> str:
        """What stands for a hidden word; empty where nothing is hidden."""
        masked = self._rows.masked
        if masked is None or not masked.needs_token:
            return ""
        token = encoder.backbone.tokenizer.mask_token
        if token is None:
            raise ConfigError(
                "dataset.masking.kind: this backbone's tokenizer has no mask token; choose kind: delete"
            )
        return token

    def _teach(self, feed: Feed) -> Teachers:
        training, seed = self._plan.config.training, self._plan.config.seed
        encoders = [
            Encoder.build(
                BackboneConfig(name=one.name, revision=one.revision, max_length=one.max_length),
                PoolingConfig(name=one.pooling, first_layer=one.first_layer),
                seed=seed,
            ).to(self._compute.device)
            for one in training.teachers or ()
        ]
        return Teachers(encoders, feed.texts, in_memory=training.teacher_vectors == "memory")

    def _fingerprints(self) -> dict[str, str]:
        seen = scoring.fingerprints_of(self._seen[::-1])  # of two with one name, the run's own counts
        return seen | self._dev.fingerprints() | self._test.fingerprints()

    def _announce(self, encoder: Encoder, order: Order) -> None:
        training = self._plan.config.training
        weights = sum(weight.numel() for weight in encoder.parameters() if weight.requires_grad)
        steps = order.steps(training.epochs, training.max_steps)
        _tell(
            f"{len(self._rows):,} rows of {self._rows.name}, {steps:,} steps of {training.batch_size} rows"
            + (f" x {training.accumulate}" if training.accumulate > 1 else "")
            + f", {weights:,} of {count(encoder):,} weights"
            + f", {self._compute.device.type} {self._compute.precision}, pooling {encoder.pooling.name}"
        )
        if training.accumulate > 1:
            warning = (
                f"training.accumulate={training.accumulate}: the losses compare the {training.batch_size} "
                f"rows of a batch only, not all {training.batch_size * training.accumulate} of a step"
            )
            _tell(f"warning: {warning}")
        if self._rows.masked is not None:
            usable = int(self._rows.targets["maskable"].sum())
            share = 100 * usable / len(self._rows)
            _tell(f"{usable:,} of {len(self._rows):,} sentences ({share:.1f} %) are long enough to be masked")
        for warning in (self._warning, skip_warning(self._skipped)):
            if warning:
                _tell(f"warning: {warning}")

    def _write_metrics(
        self, tracker: Tracker, step: int, epoch: float, test: Mapping[str, Any], dev: Mapping[str, float]
    ) -> None:
        for split, scores in (("dev", dev), ("test", scoring.flat(test))):
            for name, value in scores.items():
                tracker.metric(step=step, epoch=epoch, split=split, name=name, value=value)

    def _finish(
        self,
        encoder: Encoder,
        plain: Mapping[str, Any],
        test: Mapping[str, Any],
        dev: Mapping[str, Any],
        baseline: Mapping[str, float],
        counts: Mapping[str, int],
    ) -> Outcome:
        config, folder = self._plan.config, self._run.path
        scores = scoring.flat(test) | scoring.flat(dev)
        main = scoring.main_score(test, scoring.flat(dev))
        aside = folder / ".tmp-model"
        encoder.save(aside)
        card.write_card(
            aside,
            title=config.name,
            base_model=config.backbone.name,
            dataset=self._rows.name,
            scores=scores,
            config_yaml=to_yaml(dict(plain)),
            citations=sources(self._plan.losses),
        )
        aside.rename(folder / "model")
        both = {**test, **dev}
        for one in both.values():
            write_predictions(one, folder / "predictions")
        self._plot(both, encoder)
        kept = {key: baseline[key] for key in scores if key in baseline}
        self._run.results(
            {
                "main": main,
                "scores": scores,
                "intervals": finite_intervals(both),
                "baseline": kept,
                "notes": {"precision": config.evaluation.precision, **scoring.notes(both)},
                "counts": dict(counts),
                "seconds": self._seconds,
            }
        )
        score_table.report(both, kept, folder)
        return Outcome(str(folder), main)

    def _plot(self, scored: Mapping[str, Any], encoder: Encoder) -> None:
        folder = self._run.path / "plots"
        metrics = [json.loads(line) for line in (self._run.path / "metrics.jsonl").read_text().splitlines()]
        plot.curves(metrics, self._metric, folder / "curves.png")
        drawing.draw(scored, folder)
        for task in self._plan.tasks.values():
            drawing.draw_dropout_map(task, encoder, folder)

    @contextlib.contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self._seconds[name] = round(time.monotonic() - started, 3)


def _tell(text: str) -> None:
    """One message to the person and to the run's log."""
    say(text)
    _log.info("%s", text)
