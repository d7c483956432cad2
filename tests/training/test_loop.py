"""Steps, dev scores and checkpoints; what is measured, and which checkpoint is the best."""

import json
import math
import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from embedrun.batch import Batch, Tokens, TokenTable, View
from embedrun.config import TrackingConfig, TrainingConfig
from embedrun.errors import RunFailed, Terminated
from embedrun.evaluation.scores import spearman
from embedrun.gpu import Compute
from embedrun.loss.mix import Mix
from embedrun.loss.terms import Pass
from embedrun.rows import Rows
from embedrun.tracking import Tracker, cut
from embedrun.training import loop as module
from embedrun.training.checkpoint import path_of, published
from embedrun.training.feed import Feed
from embedrun.training.loop import Fit, Meter, Selection, StepsDone, fit, restore, scored
from embedrun.training.order import Draw, Order
from embedrun.training.processes import Processes
from embedrun.training.step import Stepper

WORDS = 12
PAIR = {"left": Pass("left"), "right": Pass("right")}
METRIC = "toy_dev/spearman"
CPU = Compute(torch.device("cpu"), "fp32")


class BagOfIds(nn.Module):
    """The smallest encoder: a linear layer over how often each id is there."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WORDS, 8)

    def forward(self, tokens: Tokens, **_: object) -> Tensor:
        text = torch.repeat_interleave(torch.arange(len(tokens)), tokens.lengths)  # (tokens,)
        bag = torch.zeros(len(tokens), WORDS).index_put(
            (text, tokens.ids), torch.ones(len(text)), accumulate=True
        )
        return self.linear(bag)  # (texts, dim)


def tokenize(texts: list[str], max_length: int | None = None, prompt: object = None) -> TokenTable:
    ids = np.array([ord(letter) - ord("a") for text in texts for letter in text], dtype=np.int32)
    return TokenTable(ids, np.cumsum([0, *map(len, texts)]))


def make_rows(count: int, seed: int) -> Rows:
    """Pairs of four letters; the score is how many of the letters a to f they have in common, over four."""
    random = np.random.default_rng(seed)
    left, right = (["".join(random.choice(list("abcdefghijkl"), 4)) for _ in range(count)] for _ in range(2))
    score = [len(set(one) & set(two) & set("abcdef")) / 4 for one, two in zip(left, right, strict=True)]
    return Rows("toy", "train", "pair", {"left": left, "right": right}, {"score": np.array(score)})


class Trial:
    """One small training run.

    Args:
        folder: the run directory.
        dev: dev scores in the order of the evaluations; computed where it is None.
        options: of the training.
    """

    def __init__(self, folder: Path, dev: list[float] | None = None, **options) -> None:
        folder.mkdir(exist_ok=True)
        torch.manual_seed(0)
        self.folder, self.scripted = folder, dev
        self.encoder = BagOfIds()
        self.training = TrainingConfig(
            **{"max_steps": 30, "epochs": 100, "batch_size": 16, "lr": 1e-2, "evaluate_every": 10, **options}
        )
        self.held_out = Feed(make_rows(40, seed=2), tokenize, PAIR, ["score"]).batch(
            Draw(0, 0, np.arange(40))
        )
        rows = make_rows(100, seed=1)
        self.selection = Selection(
            METRIC, lowest=self.training.select_lowest, patience=self.training.patience
        )
        self.done = StepsDone()
        self.beats: list[dict[str, int]] = []
        self.weights: dict[int, Tensor] = {}  # of the encoder, at each evaluation
        self.modes: list[bool] = []
        self.tracker = Tracker(folder)
        self.parts = Fit(
            stepper=Stepper(self.encoder, Mix({"cosent": {"temperature": 0.2}}), CPU, self.training),  # type: ignore[arg-type]
            feed=Feed(rows, tokenize, PAIR, ["score"]),
            order=Order(len(rows), self.training.batch_size, self.training.accumulate, seed=3),
            compute=CPU,
            dev=self.dev,
            selection=self.selection,
            tracker=self.tracker,
            checkpoints=folder / "checkpoints",
            heartbeat=lambda **news: self.beats.append(news),
        )

    def dev(self) -> dict[str, float]:
        number = len(self.weights)
        self.weights[number] = self.encoder.linear.weight.detach().clone()
        if self.scripted is not None:
            value = self.scripted[number]
            return {} if math.isnan(value) else {METRIC: value}
        with torch.no_grad():
            left, right = (self.encoder(self.held_out.views[view].tokens) for view in ("left", "right"))
        predicted = torch.cosine_similarity(left, right).numpy()  # (pairs,)
        return {METRIC: 100 * spearman(predicted, self.held_out.targets["score"].numpy())}

    def run(self) -> int:
        try:
            return fit(self.parts, self.training, TrackingConfig(log_every=10), self.done).step
        finally:
            self.tracker.close()

    def go_on(self) -> "Trial":
        """Be where the newest checkpoint of the folder is."""
        newest = path_of(self.parts.checkpoints, published(self.parts.checkpoints)[-1])
        self.done, state = restore(self.parts.stepper, self.selection, newest)
        cut(self.folder, state["metrics_bytes"])
        return self

    def at(self, step: int, do: Callable[[], object]) -> "Trial":
        """Do something while that step is taken."""
        take = self.parts.stepper.take

        def taking(number: int, *rest, **options):
            if number == step:
                do()
            return take(number, *rest, **options)

        self.parts.stepper.take = taking  # type: ignore[assignment]
        return self

    def result(self) -> dict[str, object]:
        """What two equal runs have the same bytes of."""
        newest = self.parts.checkpoints / f"step-{published(self.parts.checkpoints)[-1]:08d}"
        names = ("model.safetensors", "optimizer.safetensors", "random.safetensors", "state.json")
        return {
            "weights": self.encoder.linear.weight.tolist(),
            "metrics": (self.folder / "metrics.jsonl").read_bytes(),
            "published": published(self.parts.checkpoints),
            **{name: (newest / name).read_bytes() for name in names},
        }

    def metrics(self, split: str, name: str) -> dict[int, float]:
        lines = [json.loads(line) for line in (self.folder / "metrics.jsonl").read_text().splitlines()]
        return {
            line["step"]: line["value"] for line in lines if (line["split"], line["name"]) == (split, name)
        }


@pytest.fixture
def trial(tmp_path: Path) -> Callable[..., Trial]:
    return lambda *, name="run", **options: Trial(tmp_path / name, **options)


def test_the_best_checkpoint_is_the_one_in_the_encoder_at_the_end(trial):
    one = trial(dev=[1.0, 3.0, 2.0])
    one.run()
    assert one.selection.step == 20
    assert torch.equal(one.encoder.linear.weight, one.weights[1])
    assert not torch.equal(one.weights[1], one.weights[2])


def test_a_checkpoint_below_a_floor_is_not_taken_though_its_score_is_logged(trial):
    one = trial(dev=[1.0, 3.0, 2.0])
    one.selection.floor = {METRIC: 1.0, "other": -math.inf}
    own = one.parts.dev
    one.parts.dev = lambda: own() if len(one.weights) == 1 else {"other": 0.0, **own()}
    one.run()
    assert one.selection.step == 30
    assert one.metrics("dev", METRIC) == {10: 1.0, 20: 3.0, 30: 2.0}


def test_what_is_logged_when(trial):
    one = trial(dev=[1.0, 2.0, 3.0])
    one.run()
    assert list(one.metrics("train", "loss")) == [1, 10, 20, 30]
    for name in ("loss/cosent", "active/cosent", "violated/cosent"):
        assert list(one.metrics("train", name)) == [1, 10, 20, 30]
    assert one.metrics("dev", METRIC) == {10: 1.0, 20: 2.0, 30: 3.0}
    assert one.metrics("train", "lr")[30] == pytest.approx(
        1e-2 / 27
    )  # the last of 27 steps after 3 of warm-up


def test_a_loss_that_is_not_finite_ends_the_run_and_keeps_the_checkpoints(trial):
    one = trial(dev=[1.0, 2.0, 3.0])
    one.at(15, lambda: nn.init.constant_(one.encoder.linear.weight, math.nan))
    with pytest.raises(RunFailed, match="at step 15") as failure:
        one.run()
    assert failure.value.exit_code == 4
    assert published(one.folder / "checkpoints") == [10]


def test_without_a_new_best_for_so_long_the_run_ends(trial):
    one = trial(dev=[1.0, 3.0, 2.0, 2.5, 9.0], evaluate_every=5, patience=2)
    assert one.run() == 20
    assert list(one.metrics("dev", METRIC)) == [5, 10, 15, 20]
    assert torch.equal(one.encoder.linear.weight, one.weights[1])


@pytest.mark.parametrize(
    ("untrained", "options", "is_kept"),
    [
        (2.5, {}, False),
        (3.0, {}, True),
        (9.0, {}, True),
        (math.nan, {"patience": 1}, False),  # no score, so nothing to wait for
        (9.0, {"select_floor": {METRIC: 1.0}}, False),  # it must have gained
    ],
)
def test_the_untrained_model_is_kept_if_it_may_be_and_no_step_scores_better(
    trial, untrained, options, is_kept
):
    one = trial(dev=[1.0, 3.0, 2.0], select_untrained=True, **options)
    before = one.encoder.linear.weight.detach().clone()
    one.parts.untrained = untrained
    one.run()
    assert torch.equal(one.encoder.linear.weight, before if is_kept else one.weights[1])
    assert one.selection.step == (0 if is_kept else 20)
    assert (0 in published(one.parts.checkpoints)) == is_kept


def killed() -> None:
    raise SystemExit("as if by kill -9")


def signalled(number: int = signal.SIGTERM) -> None:
    os.kill(os.getpid(), number)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> dict[str, object]:
    """A run that nothing stopped."""
    one = Trial(tmp_path_factory.mktemp("whole") / "run", save_every=7)
    one.run()
    return one.result()


@pytest.mark.parametrize("step", [2, 8, 10, 21, 30])
@pytest.mark.parametrize("stop", [killed, signalled])
def test_a_stopped_run_ends_as_one_that_was_not(trial, whole, stop, step):
    first = trial(save_every=7)
    with pytest.raises(SystemExit if stop is killed else Terminated):
        first.at(step, stop).run()
    if not published(first.parts.checkpoints):
        assert stop is killed  # before the first checkpoint; the caller begins anew
        return
    torch.rand(5)  # another process has another random state
    second = trial(save_every=7).go_on()
    second.run()
    found = second.result()
    # A checkpoint more at the step of the signal may be among those that are kept.
    assert set(whole["published"]) - {28} <= set(found["published"])
    assert {**found, "published": 0} == {**whole, "published": 0}


@pytest.mark.parametrize("during", ["the step", "the score"])
@pytest.mark.parametrize("step", [10, 30])
def test_a_score_that_a_signal_kept_back_is_made_up_for(trial, whole, step, during):
    first = trial(save_every=7)
    if during == "the step":
        first.at(step, signalled)
    else:
        score, after = first.parts.dev, step // 10

        def scoring() -> dict[str, float]:
            found = score()
            if len(first.weights) == after:
                signalled()
            return found

        first.parts.dev = scoring
    with pytest.raises(Terminated):
        first.run()
    state = json.loads((first.parts.checkpoints / f"step-{step:08d}" / "state.json").read_text())
    assert (state["step"], state["unscored"]) == (step, True)
    assert step not in first.metrics("dev", METRIC)
    second = trial(save_every=7).go_on()
    second.run()
    assert {**second.result(), "published": 0} == {**whole, "published": 0}


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({"evaluate_every": 3}, [3, 6, 9, 10]),
        ({"evaluate_every": None}, [10]),
        ({"evaluations_per_epoch": 2}, [3, 6, 9, 10]),
    ],
)
def test_which_steps_are_scored(options, steps: list[int]):
    order = Order(96, 16, 1, seed=3)  # six steps an epoch
    is_scored = scored(order, TrainingConfig(**options), 10)
    assert [step for step in range(1, 11) if is_scored(step)] == steps


class Follower(Processes):
    """The second of two processes, whose first scores 1, 3 and 2."""

    def __init__(self) -> None:
        self.rank, self.size, self.given = 1, 1, iter([1.0, 3.0, 2.0])

    def share(self, numbers: list[float]) -> list[float]:
        assert math.isnan(numbers[0])
        return [next(self.given), 1.0]


def test_other_processes_score_save_and_log_nothing_and_select_the_same(trial):
    one = trial(patience=1)
    one.tracker.close()
    one.parts.processes, one.parts.tracker = Follower(), None
    one.parts.dev = lambda: pytest.fail("scored")
    assert fit(one.parts, one.training, TrackingConfig(log_every=10)).step == 30
    assert (one.selection.best, one.selection.step, one.selection.waited) == (3.0, 20, 1)
    assert not one.parts.checkpoints.exists()
    assert (one.folder / "metrics.jsonl").read_bytes() == b""


def batch(*lengths: int) -> Batch:
    tokens = Tokens(torch.zeros(sum(lengths), dtype=torch.int64), torch.tensor(lengths))
    view = View(tokens, torch.zeros(len(lengths), dtype=torch.int64))
    return Batch({"left": view, "right": view}, {}, np.arange(len(lengths)))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def speeds(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "speed.jsonl").read_text().splitlines()]


def test_speed_counts_rows_and_tokens_of_all_views_since_the_last_line(tmp_path, clock):
    meter = Meter(Tracker(tmp_path), 10)
    meter.count([batch(3, 4)])
    meter.count([batch(5)])
    clock[0] += 2
    meter.write(1, 0.1, {"loss": torch.tensor(0.5)}, None)
    meter.count([batch(6)])
    clock[0] += 1
    meter.write(2, 0.2, {"loss": 0.25}, 1024, waited=0.25)
    first, second = speeds(tmp_path)
    assert (first.pop("host_ms"), second.pop("host_ms")) == (1000, 750)
    assert first == {"step": 1, "time": 2, "rows_per_second": 1.5, "tokens_per_second": 12, "memory": None}
    assert second == {"step": 2, "time": 3, "rows_per_second": 1, "tokens_per_second": 12, "memory": 1024}


def offered(*values: float, **options) -> tuple[Selection, list[bool]]:
    selection = Selection("stsb_dev/spearman", **options)
    return selection, [selection.offer(10 * (index + 1), value) for index, value in enumerate(values)]


def test_a_selection_goes_on_from_its_state_as_json_holds_it():
    whole, _ = offered(1.0, 3.0, 2.0, 2.5, 1.0, patience=3)
    first, _ = offered(1.0, 3.0, 2.0, patience=3)
    second = Selection("stsb_dev/spearman", patience=3)
    second.load_state(json.loads(json.dumps(first.state())))
    for step, value in ((40, 2.5), (50, 1.0)):
        second.offer(step, value)
    assert second == whole
    assert second.exhausted


def test_test_scores_of_each_dev_score_are_logged_and_choose_nothing(trial):
    one = trial(dev=[1.0, 3.0, 2.0])
    tests = iter([9.0, 4.0, 7.0])
    one.parts.test = lambda: {"sts/spearman": next(tests)}
    one.run()
    assert one.selection.step == 20
    assert one.metrics("test", "sts/spearman") == {10: 9.0, 20: 4.0, 30: 7.0}
