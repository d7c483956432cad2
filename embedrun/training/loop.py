"""The training loop: steps, dev scores, checkpoints; at its end the encoder holds the best weights."""

import logging
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from embedrun.config import TrackingConfig, TrainingConfig
from embedrun.console import Progress
from embedrun.gpu import Compute
from embedrun.signals import Deferred
from embedrun.tracking import Tracker
from embedrun.training import checkpoint
from embedrun.training.feed import Feed
from embedrun.training.meter import Meter
from embedrun.training.order import Order
from embedrun.training.processes import Processes
from embedrun.training.selection import Selection
from embedrun.training.step import Stepper

_log = logging.getLogger("embedrun")


@dataclass
class Fit:
    """The parts of one training run.

    Args:
        stepper: takes the steps.
        feed: the training rows.
        order: which of them each step sees.
        compute: device and precision.
        dev: the dev scores of the encoder as it is, by key; asked for by the first process alone.
        selection: which of them counts.
        tracker: where metrics go; None in every process but the first.
        checkpoints: the folder of the checkpoints; written by the first process alone.
        heartbeat: told of `step` whenever one is logged, scored or saved, and of `checkpoint` when it is.
        processes: that train together.
    """

    stepper: Stepper
    feed: Feed
    order: Order
    compute: Compute
    dev: Callable[[], dict[str, float]]
    selection: Selection
    tracker: Tracker | None
    checkpoints: Path
    heartbeat: Callable[..., None]
    processes: Processes = field(default_factory=Processes)


@dataclass(frozen=True)
class Begun:
    """How far a run has come.

    Args:
        step: optimizer steps done.
        unscored: the dev score of that step is still to come: a signal came first.
    """

    step: int = 0
    unscored: bool = False


def fit(parts: Fit, training: TrainingConfig, tracking: TrackingConfig, begun: Begun | None = None) -> int:
    """Train; afterwards the encoder of the first process holds the weights that scored best on dev.

    Args:
        parts: as they are after `begun.step` steps.
        training: the training options.
        tracking: what is logged when.
        begun: where to go on; from the first step by default.

    Returns:
        The number of optimizer steps.

    Raises:
        RunFailed: on a loss or gradient that is not finite (exit 4), a full disk (5) or out of memory (6).
        KeyboardInterrupt: on a signal, once the step is done and saved.
    """
    begun = begun or Begun()
    steps = parts.order.steps(training.epochs, training.max_steps)
    is_scored = scored(parts.order, training, steps)
    meter = Meter(parts.tracker, tracking.log_every)
    step, note = begun.step, ""  # the note is read when it is logged anyway: to read a loss is to wait for it
    parts.stepper.trained.train()
    with Deferred() as stop, Progress("train", steps, "steps", done=step) as bar:
        if begun.unscored:
            _score_and_save(parts, training, step, stop, due=True, stopping=False)
        while step < steps and not parts.selection.exhausted:
            step += 1
            batches = [parts.feed.batch(draw) for draw in parts.order.batches(step)]
            values = parts.stepper.take(step, steps, batches, watch=meter.due(step, steps))
            for batch in batches:
                meter.count(batch)
            if meter.due(step, steps):
                note = f"loss {float(values['loss']):.4f}"
                meter.write(step, parts.order.epoch(step), values, parts.compute.memory())
                parts.heartbeat(step=step)
            bar.reach(step, note + _best(parts.selection))
            due, stopping = is_scored(step), parts.processes.any(stop.asked is not None)
            if due or stopping or (training.save_every and step % training.save_every == 0):
                with meter.paused(), bar.paused():
                    _score_and_save(parts, training, step, stop, due=due, stopping=stopping)
    if parts.processes.rank == 0:
        checkpoint.load_weights(
            checkpoint.path_of(parts.checkpoints, parts.selection.step or step), parts.stepper.trained
        )
    parts.stepper.trained.eval()
    return step


def restore(stepper: Stepper, selection: Selection, path: Path) -> tuple[Begun, dict[str, Any]]:
    """Make everything that training changes what it was at a checkpoint; also gives its plain data.

    Data order, masks and seeded dropout are functions of the step, so that nothing else is needed.

    Raises:
        RunFailed: if it is damaged or of another model (exit 7).
    """
    state = checkpoint.restore(path, stepper.trained, stepper.optimizer)
    stepper.load_state(state["stepper"])
    selection.load_state(state["best"])
    checkpoint.restore_random(path)
    return Begun(state["step"], state["unscored"]), state


def scored(order: Order, training: TrainingConfig, steps: int) -> Callable[[int], bool]:
    """Whether a step is followed by a dev score: those that the options say, and the last.

    Args:
        order: of the batches.
        training: the training options.
        steps: of the run.
    """
    if training.evaluations_per_epoch is not None:
        marks = order.marks(steps, training.evaluations_per_epoch)
        return lambda step: step == steps or step in marks
    every = training.evaluate_every or steps
    return lambda step: step == steps or step % every == 0


def _best(selection: Selection) -> str:
    return "" if selection.best is None else f"  dev {selection.best:.2f}"


def _score_and_save(
    parts: Fit, training: TrainingConfig, step: int, stop: Deferred, *, due: bool, stopping: bool
) -> None:
    """Score if that is due, and save; a score that a signal kept back is made up for later."""
    done = due and not stopping and _score(parts, step, stop)
    _agree(parts)
    _save(parts, training, step, unscored=due and not done)
    if stopping or (due and not done):
        raise stop.fault()


def _score(parts: Fit, step: int, stop: Deferred) -> bool:
    """Score, log and select; False where a signal came first and nothing was logged."""
    scores: dict[str, float] = {}
    finished = True
    if parts.processes.rank == 0:
        parts.heartbeat(step=step)
        try:
            with stop.at_once():
                scores = parts.dev()
        except KeyboardInterrupt:
            finished = False
    own = [scores.get(parts.selection.metric, math.nan), float(finished)]
    value, all_finished = parts.processes.share(own)
    if not all_finished:
        return False
    best = " (best so far)" if parts.selection.offer(step, value) else ""
    if parts.tracker is not None:
        epoch = parts.order.epoch(step)
        for key, score in scores.items():
            parts.tracker.metric(step=step, epoch=epoch, split="dev", name=key, value=score)
        _log.info("step %d: %s %.2f%s", step, parts.selection.metric, value, best)
    return True


def _agree(parts: Fit) -> None:
    """One size of the parts on all processes, as a checkpoint has it; memory may run out on one alone."""
    own = parts.stepper.parts
    size = parts.processes.least(own.size or sys.maxsize)
    if size < sys.maxsize:
        own.lower(size)


def _save(parts: Fit, training: TrainingConfig, step: int, *, unscored: bool) -> None:
    """One checkpoint, by the first process."""
    if parts.tracker is None:
        return
    state = {
        "best": parts.selection.state(),
        "stepper": parts.stepper.state(),
        "metrics_bytes": parts.tracker.sync(),  # on the disk before the checkpoint is
        "unscored": unscored,
    }
    trained, optimizer = parts.stepper.trained, parts.stepper.optimizer
    checkpoint.save(parts.checkpoints, step=step, model=trained, optimizer=optimizer, state=state)
    checkpoint.prune(parts.checkpoints, keep=training.keep_checkpoints, best=parts.selection.step)
    parts.heartbeat(step=step, checkpoint=step)
