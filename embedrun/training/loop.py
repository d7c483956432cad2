"""Steps, dev scores, checkpoints, and the choice of the best one."""

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from torch import Tensor, nn

from embedrun.batch import Batch
from embedrun.config import TrackingConfig, TrainingConfig
from embedrun.console import Progress
from embedrun.files import Plain
from embedrun.gpu import Compute
from embedrun.signals import Deferred
from embedrun.tracking import Tracker
from embedrun.training import checkpoint
from embedrun.training.average import AVERAGE, averaged
from embedrun.training.feed import Feed, Feeds
from embedrun.training.order import Schedule
from embedrun.training.processes import Processes
from embedrun.training.step import Stepper, Values
from embedrun.training.together import Together


class Meter:
    """Counts rows and tokens between two log lines, `every` steps apart, and writes both kinds of line.

    `rows` and `tokens` are those of all steps so far, without padding; of several processes, each has all
    rows and the tokens that it encodes.
    """

    def __init__(self, tracker: Tracker | None, every: int) -> None:
        self._tracker, self._every = tracker, every
        self.rows = self.tokens = 0
        self._started = self._last = self._before = time.monotonic()
        self._rows = self._tokens = self._steps = 0
        self._waited = 0.0
        self._parts: dict[str, list[float]] = {}  # rows, tokens and seconds of each part of a mixture

    def due(self, step: int, steps: int) -> bool:
        """Whether this step is logged: the first, the last, and every one in between that is due."""
        return step in (1, steps) or step % self._every == 0

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Exclude the time inside from the training speed."""
        started = time.monotonic()
        yield
        passed = time.monotonic() - started
        self._last, self._before = self._last + passed, self._before + passed

    def count(self, batches: Sequence[Batch]) -> None:
        """Add the batches of a step; its time is its parts', by their tokens."""
        tokens = [sum(len(view.tokens.ids) for view in batch.views.values()) for batch in batches]
        rows = sum(len(batch.rows) for batch in batches)
        self._rows, self.rows = self._rows + rows, self.rows + rows
        self._steps += 1
        self._tokens, self.tokens = self._tokens + sum(tokens), self.tokens + sum(tokens)
        passed, self._before = time.monotonic() - self._before, time.monotonic()
        for batch, count in zip(batches, tokens, strict=True):
            if batch.part:
                share = passed * count / max(sum(tokens), 1)
                before = self._parts.get(batch.part, [0.0, 0.0, 0.0])
                added = (len(batch.rows), count, share)
                self._parts[batch.part] = [old + new for old, new in zip(before, added, strict=True)]

    def write(
        self,
        step: int,
        epoch: float,
        values: dict[str, Tensor | float],
        memory: int | None,
        waited: float = 0.0,
    ) -> None:
        """Write the values of this step, and the speed since the last line; memory in bytes.

        `waited` are all seconds so far in which the processor has waited for the device.
        """
        if self._tracker is None:
            return
        for name, value in values.items():
            self._tracker.metric(step=step, epoch=epoch, split="train", name=name, value=float(value))
        now = time.monotonic()
        seconds = max(now - self._last, 1e-9)
        self._tracker.speed(
            step=step,
            time=now - self._started,
            rows_per_second=self._rows / seconds,
            tokens_per_second=self._tokens / seconds,
            host_ms=1000 * (seconds - waited + self._waited) / max(self._steps, 1),
            memory=memory,
            parts={
                part: {
                    "rows_per_second": round(rows / max(passed, 1e-9), 2),
                    "tokens_per_second": round(tokens / max(passed, 1e-9), 1),
                }
                for part, (rows, tokens, passed) in self._parts.items()
            },
        )
        self._last, self._rows, self._tokens, self._parts = now, 0, 0, {}
        self._steps, self._waited = 0, waited


@dataclass
class Selection:
    """The best dev score so far, and early stopping.

    An undefined score (NaN) is never the best. Where every score is undefined, or there is no dev
    split and no `metric`, the last checkpoint is kept. `patience` is how many dev scores in a row without a
    new best end the run, and `waited` how many there are now. A step with a dev score below its `floor` is
    never the best.
    """

    metric: str | None
    lowest: bool = False
    patience: int | None = None
    floor: Mapping[str, float] = field(default_factory=dict)
    best: float | None = None
    step: int | None = None
    waited: int = 0

    @property
    def exhausted(self) -> bool:
        """Whether the run stops early."""
        return self.patience is not None and self.waited >= self.patience

    def offer(self, step: int, value: float) -> bool:
        """Take a score into account; true where it is the best so far. The first of equal scores stays."""
        sign = -1 if self.lowest else 1
        if not sign * value > (-math.inf if self.best is None else sign * self.best):
            self.waited += 1
            return False
        self.best, self.step, self.waited = value, step, 0
        return True

    def chosen(self, last: int) -> int:
        """The step whose weights are kept: the best, or the last where no score was defined."""
        return last if self.step is None else self.step

    def allows(self, scores: Mapping[str, float]) -> bool:
        """Whether no dev score is below its floor; an undefined one is."""
        return all(scores.get(key, math.nan) >= least for key, least in self.floor.items())

    def state(self) -> Plain:
        """What a checkpoint keeps, as plain data."""
        return {"metric": self.metric, "value": self.best, "step": self.step, "waited": self.waited}

    def load_state(self, state: Plain) -> None:
        """Resume from what a checkpoint kept."""
        self.best, self.step, self.waited = state["value"], state["step"], state["waited"]


_log = logging.getLogger("embedrun")


@dataclass
class Fit:
    """The parts of one training run.

    Args:
        dev: the dev scores of the encoder as it is, by key; called by the first process alone.
        test: likewise test scores, which are logged and choose nothing.
        untrained: the dev score before the first step; a candidate with `training.select_untrained`.
        tracker: where metrics go; None in every process but the first.
        checkpoints: their folder; written by the first process alone.
        heartbeat: told of `step` whenever one is logged, scored or saved, and of `checkpoint` when it is.
        whole: makes the modules that get the best weights, where those that train are in shards.
        tell_first: gets the values of the first step, to say what the person should know of it.
    """

    stepper: Stepper
    feed: Feed | Feeds
    order: Schedule
    compute: Compute
    selection: Selection
    checkpoints: Path
    processes: Processes = field(default_factory=Processes)
    tracker: Tracker | None = None
    dev: Callable[[], dict[str, float]] = dict
    test: Callable[[], dict[str, float]] = dict
    untrained: float = math.nan
    heartbeat: Callable[..., None] = lambda **_: None
    tell_first: Callable[[Values], None] = lambda _: None
    whole: Callable[[], nn.Module] | None = None


@dataclass(frozen=True)
class StepsDone:
    """How far a run has come, with the rows and tokens of its steps.

    Where `unscored`, the dev score of the last step was prevented by a signal.
    """

    step: int = 0
    unscored: bool = False
    rows: int = 0
    tokens: int = 0


def fit(
    parts: Fit, training: TrainingConfig, tracking: TrackingConfig, done: StepsDone | None = None
) -> StepsDone:
    """Train; afterwards the encoder of every process holds the weights that scored best on dev.

    `parts` must be as they are after `done.step` steps; without `done`, training starts from the first.
    Returns what was done. A signal is a KeyboardInterrupt once the step is done and saved.
    """
    done = done or StepsDone()
    steps = parts.order.steps(training.epochs, training.max_steps)
    is_scored = scored(parts.order, training, steps)
    meter, before = Meter(parts.tracker, tracking.log_every), done
    step, note = done.step, ""  # the note is read when it is logged anyway: to read a loss is to wait for it
    parts.stepper.trained.train()
    if training.select_untrained and not done.step:
        (value,) = parts.processes.share([parts.untrained])
        if not math.isnan(value) and all(change <= 0 for change in (training.select_floor or {}).values()):
            parts.selection.offer(0, value)
            _save(parts, training, done)
    with Deferred() as stop, Progress("train", steps, "steps", done=step) as bar:
        if done.unscored:
            _score_and_save(parts, training, done, stop, due=True, stopping=False)
        while step < steps and not parts.selection.exhausted:
            step += 1
            batches = [parts.feed.batch(draw) for draw in parts.order.batches(step)]
            values = parts.stepper.take(step, steps, batches, watch=meter.due(step, steps))
            meter.count(batches)
            if meter.due(step, steps):
                note = _log_step(parts, meter, step, steps, values)
                if step == 1:
                    with bar.paused():
                        parts.tell_first(values)
            best = parts.selection.best
            bar.reach(step, note if best is None else f"{note}  dev {best:.2f}")
            due, stopping = is_scored(step), parts.processes.any(stop.asked is not None)
            if due or stopping or (training.save_every and step % training.save_every == 0):
                with meter.paused(), bar.paused():
                    done = _done(parts, meter, step, before)
                    _score_and_save(parts, training, done, stop, due=due, stopping=stopping)
    trained = (parts.whole or (lambda: parts.stepper.trained))()
    if parts.processes.rank == 0:
        path = checkpoint.path_of(parts.checkpoints, parts.selection.chosen(step))
        checkpoint.load_weights(path, trained, kind=AVERAGE if training.ema else None)
    parts.processes.copy(checkpoint.trained(trained).values())  # which score together
    trained.eval()
    return _done(parts, meter, step, before)


def _done(parts: Fit, meter: Meter, step: int, before: StepsDone) -> StepsDone:
    tokens = parts.processes.total(meter.tokens)
    return StepsDone(step, rows=before.rows + meter.rows, tokens=before.tokens + tokens)


def _log_step(parts: Fit, meter: Meter, step: int, steps: int, values: Values) -> str:
    note = f"loss {float(values['loss']):.4f}"
    meter.write(step, parts.order.epoch(step), values, parts.compute.memory(), parts.stepper.waited)
    if parts.tracker is not None:
        _log.info("step %d of %d: %s", step, steps, note)
    parts.heartbeat(step=step)
    return note


def restore(stepper: Stepper, selection: Selection, path: Path) -> tuple[StepsDone, Plain]:
    """Bring everything that training changes back to a checkpoint's state; also gives its plain data.

    Data order, masks and seeded dropout are functions of the step, so that nothing else is needed.
    """
    state = checkpoint.restore(path, stepper.trained, stepper.optimizer)
    stepper.load_state(state["stepper"])
    selection.load_state(state["best"])
    checkpoint.restore_random(path)
    rows, tokens = state.get("seen", (0, 0))
    return StepsDone(state["step"], state["unscored"], rows, tokens), state


def scored(order: Schedule, training: TrainingConfig, steps: int) -> Callable[[int], bool]:
    """Whether a step of `steps` is followed by a dev score: those that the options say, and the last."""
    if training.evaluations_per_epoch is not None:
        marks = order.marks(steps, training.evaluations_per_epoch)
        return lambda step: step == steps or step in marks
    every = training.evaluate_every or steps
    return lambda step: step == steps or step % every == 0


def _score_and_save(
    parts: Fit, training: TrainingConfig, done: StepsDone, stop: Deferred, *, due: bool, stopping: bool
) -> None:
    """Score if that is due, and save; a score that a signal prevented is made up for after resuming."""
    is_scored = due and not stopping and _score(parts, done.step, stop)
    _save(parts, training, replace(done, unscored=due and not is_scored))
    if stopping or (due and not is_scored):
        raise stop.fault()


def _score(parts: Fit, step: int, stop: Deferred) -> bool:
    """Score, log and select; False where a signal came first and nothing was logged."""
    scores: dict[str, float] = {}
    tests: dict[str, float] = {}
    finished, together = True, Together(parts.stepper.encoder, parts.processes)
    if parts.processes.rank == 0:
        parts.heartbeat(step=step)
        try:
            with averaged(parts.stepper.optimizer), together.asking(), stop.at_once():
                scores, tests = parts.dev(), parts.test()
        except KeyboardInterrupt:
            finished = False
    else:
        with averaged(parts.stepper.optimizer):
            together.serve()
    metric = parts.selection.metric
    score, allowed = scores.get(metric or "", math.nan), parts.selection.allows(scores)
    value, all_finished = parts.processes.share([score if allowed else math.nan, float(finished)])
    if not all_finished:
        return False
    best = " (best so far)" if parts.selection.offer(step, value) else ""
    best = best if allowed else " (below training.select_floor)"
    if parts.tracker is not None:
        epoch = parts.order.epoch(step)
        for split, of_split in (("dev", scores), ("test", tests)):
            for key, score in of_split.items():
                parts.tracker.metric(step=step, epoch=epoch, split=split, name=key, value=score)
        if metric is not None:
            _log.info("step %d: %s %.2f%s", step, metric, score, best)
    return True


def _save(parts: Fit, training: TrainingConfig, done: StepsDone) -> None:
    if parts.tracker is None:
        if parts.processes.rank > 0:
            checkpoint.give(parts.stepper.trained, parts.stepper.optimizer)
        return
    step = done.step
    state = {
        "best": parts.selection.state(),
        "stepper": parts.stepper.state(),
        "metrics_bytes": parts.tracker.sync(),  # on the disk before the checkpoint is
        "unscored": done.unscored,
        "seen": [done.rows, done.tokens],
    }
    trained, optimizer = parts.stepper.trained, parts.stepper.optimizer
    checkpoint.save(parts.checkpoints, step=step, model=trained, optimizer=optimizer, state=state)
    checkpoint.prune(parts.checkpoints, keep=training.keep_checkpoints, best=parts.selection.step)
    parts.heartbeat(step=step, checkpoint=step)
