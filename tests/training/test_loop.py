import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from embedrun.batch import Tokens, TokenTable
from embedrun.config import TrackingConfig, TrainingConfig
from embedrun.errors import RunFailed
from embedrun.evaluation.correlation import spearman
from embedrun.gpu import Compute
from embedrun.loss.mix import Mix
from embedrun.loss.terms import Pass
from embedrun.rows import Rows
from embedrun.tracking import Tracker
from embedrun.training.checkpoint import load_weights, published
from embedrun.training.feed import Feed
from embedrun.training.loop import Fit, fit
from embedrun.training.order import Draw, Order
from embedrun.training.selection import Selection
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
        self.selection = Selection(METRIC)
        self.beats: list[int] = []
        self.weights: dict[int, Tensor] = {}  # of the encoder, at each evaluation
        self.modes: list[bool] = []
        self.parts = Fit(
            stepper=Stepper(self.encoder, Mix({"cosent": {"temperature": 0.2}}), CPU, self.training),  # type: ignore[arg-type]
            feed=Feed(rows, tokenize, PAIR, ["score"]),
            order=Order(len(rows), self.training.batch_size, self.training.accumulate, seed=3),
            compute=CPU,
            dev=self.dev,
            selection=self.selection,
            tracker=Tracker(folder),
            checkpoints=folder / "checkpoints",
            heartbeat=self.beats.append,
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
            return fit(self.parts, self.training, TrackingConfig(log_every=10))
        finally:
            self.parts.tracker.close()

    def metrics(self, split: str, name: str) -> dict[int, float]:
        lines = [json.loads(line) for line in (self.folder / "metrics.jsonl").read_text().splitlines()]
        return {
            line["step"]: line["value"] for line in lines if (line["split"], line["name"]) == (split, name)
        }


@pytest.fixture
def trial(tmp_path: Path) -> Callable[..., Trial]:
    return lambda *, name="run", **options: Trial(tmp_path / name, **options)


def test_thirty_steps_lower_the_loss_and_raise_the_dev_score(trial):
    one = trial()
    untrained = one.dev()[METRIC]
    assert one.run() == 30
    loss = one.metrics("train", "loss")
    assert loss[30] < 0.8 * loss[1]
    assert one.selection.best > untrained


def test_two_runs_give_the_same_bytes_and_the_same_weights(trial):
    first, second = trial(name="first"), trial(name="second")
    first.run()
    torch.rand(7)  # whatever else was drawn meanwhile
    second.run()
    assert (first.folder / "metrics.jsonl").read_bytes() == (second.folder / "metrics.jsonl").read_bytes()
    assert torch.equal(first.encoder.linear.weight, second.encoder.linear.weight)


def test_the_best_checkpoint_is_the_one_in_the_encoder_at_the_end(trial):
    one = trial(dev=[1.0, 3.0, 2.0])
    one.run()
    assert one.selection.step == 20
    assert torch.equal(one.encoder.linear.weight, one.weights[1])
    assert not torch.equal(one.weights[1], one.weights[2])


def test_the_best_checkpoint_outlives_newer_ones(trial):
    one = trial(dev=[9.0, 1.0, 2.0, 3.0, 4.0, 5.0], evaluate_every=5)
    one.run()
    assert published(one.folder / "checkpoints") == [5, 25, 30]
    assert torch.equal(one.encoder.linear.weight, one.weights[0])


def test_without_any_defined_dev_score_the_last_weights_stay(trial):
    one = trial(dev=[math.nan] * 3)
    one.run()
    assert one.selection.step is None
    assert torch.equal(one.encoder.linear.weight, one.weights[2])
    assert one.metrics("dev", METRIC) == {}


def test_a_checkpoint_holds_what_the_encoder_had_at_its_step(trial):
    one = trial(dev=[1.0, 2.0, 3.0])
    one.run()
    load_weights(one.folder / "checkpoints" / "step-00000020", one.parts.stepper.trained)
    assert torch.equal(one.encoder.linear.weight, one.weights[1])


def test_the_state_of_a_checkpoint_names_the_best_so_far(trial):
    one = trial(dev=[1.0, 3.0, 2.0])
    one.run()
    state = json.loads((one.folder / "checkpoints" / "step-00000030" / "state.json").read_text())
    assert state["best"] == {"metric": METRIC, "value": 3.0, "step": 20}
    assert state["step"] == 30


def test_what_is_logged_when(trial):
    one = trial(dev=[1.0, 2.0, 3.0])
    one.run()
    assert list(one.metrics("train", "loss")) == [1, 10, 20, 30] == one.beats
    for name in ("loss/cosent", "active/cosent", "violated/cosent"):
        assert list(one.metrics("train", name)) == [1, 10, 20, 30]
    assert one.metrics("dev", METRIC) == {10: 1.0, 20: 2.0, 30: 3.0}
    assert one.metrics("train", "lr")[30] == pytest.approx(
        1e-2 / 27
    )  # the last of 27 steps after 3 of warm-up


@pytest.mark.parametrize(("evaluate_every", "steps"), [(None, [7]), (3, [3, 6, 7]), (7, [7]), (100, [7])])
def test_the_last_step_is_always_scored_and_saved_and_only_once(trial, evaluate_every, steps: list[int]):
    one = trial(dev=[1.0, 2.0, 3.0], max_steps=7, evaluate_every=evaluate_every)
    one.run()
    assert list(one.metrics("dev", METRIC)) == steps


def test_accumulated_steps_count_all_their_rows(trial):
    one = trial(dev=[1.0], max_steps=4, accumulate=3, evaluate_every=None)
    one.run()
    lines = [json.loads(line) for line in (one.folder / "metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["epoch"] == 2  # 4 steps of 3 batches, 6 of them an epoch


def test_it_trains_in_training_mode_and_ends_in_evaluation_mode(trial):
    one = trial(dev=[1.0], max_steps=1, evaluate_every=None)
    one.encoder.eval()
    one.encoder.register_forward_hook(lambda module, *_: one.modes.append(module.training))
    one.run()
    assert one.modes == [True]
    assert not one.encoder.training


def test_a_loss_that_is_not_finite_ends_the_run_and_keeps_the_checkpoints(trial):
    one = trial(dev=[1.0, 2.0, 3.0])
    original = one.parts.stepper.take

    def take(step, steps, batches, **options):
        if step == 15:
            nn.init.constant_(one.encoder.linear.weight, math.nan)
        return original(step, steps, batches)

    one.parts.stepper.take = take
    with pytest.raises(RunFailed, match="at step 15") as failure:
        one.run()
    assert failure.value.exit_code == 4
    assert published(one.folder / "checkpoints") == [10]
