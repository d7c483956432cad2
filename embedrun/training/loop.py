"""The training loop: steps, dev scores, checkpoints; at its end the encoder holds the best weights."""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from embedrun.config import TrackingConfig, TrainingConfig
from embedrun.console import Progress
from embedrun.gpu import Compute
from embedrun.tracking import Tracker
from embedrun.training import checkpoint
from embedrun.training.feed import Feed
from embedrun.training.meter import Meter
from embedrun.training.order import Order
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
        dev: the dev scores of the encoder as it is, by key.
        selection: which of them counts.
        tracker: where metrics go.
        checkpoints: the folder of the checkpoints.
        heartbeat: called with the step whenever one is logged.
    """

    stepper: Stepper
    feed: Feed
    order: Order
    compute: Compute
    dev: Callable[[], dict[str, float]]
    selection: Selection
    tracker: Tracker
    checkpoints: Path
    heartbeat: Callable[[int], None]


def fit(parts: Fit, training: TrainingConfig, tracking: TrackingConfig) -> int:
    """Train; afterwards the encoder holds the weights that scored best on dev.

    Returns:
        The number of optimizer steps.

    Raises:
        RunFailed: on a loss or gradient that is not finite.
    """
    steps = parts.order.steps(training.epochs, training.max_steps)
    meter = Meter(parts.tracker, tracking.log_every)
    trained = parts.stepper.trained.train()
    note = ""  # read when it is logged anyway: to read a loss is to wait for the device
    with Progress("train", steps, "steps") as bar:
        for step in range(1, steps + 1):
            batches = [parts.feed.batch(draw) for draw in parts.order.batches(step)]
            values = parts.stepper.take(step, steps, batches, watch=meter.due(step, steps))
            for batch in batches:
                meter.count(batch)
            if meter.due(step, steps):
                note = f"loss {float(values['loss']):.4f}"
                meter.write(step, parts.order.epoch(step), values, parts.compute.memory())
                parts.heartbeat(step)
            bar.reach(step, note + _best(parts.selection))
            if step == steps or (training.evaluate_every and step % training.evaluate_every == 0):
                with meter.paused(), bar.paused():
                    _score_and_save(parts, training, step)
    checkpoint.load_weights(parts.checkpoints / f"step-{parts.selection.step or steps:08d}", trained)
    trained.eval()
    return steps


def _best(selection: Selection) -> str:
    return "" if selection.best is None else f"  dev {selection.best:.2f}"


def _score_and_save(parts: Fit, training: TrainingConfig, step: int) -> None:
    selection, stepper = parts.selection, parts.stepper
    scores = parts.dev()
    for key, value in scores.items():
        parts.tracker.metric(step=step, epoch=parts.order.epoch(step), split="dev", name=key, value=value)
    value = scores.get(selection.metric, math.nan)
    best = " (best so far)" if selection.offer(step, value) else ""
    _log.info("step %d: %s %.2f%s", step, selection.metric, value, best)
    state = {
        "best": {"metric": selection.metric, "value": selection.best, "step": selection.step},
        "scaler": stepper.scaler.state_dict(),
    }
    checkpoint.save(
        parts.checkpoints, step=step, model=stepper.trained, optimizer=stepper.optimizer, state=state
    )
    checkpoint.prune(parts.checkpoints, keep=training.keep_checkpoints, best=selection.step)
