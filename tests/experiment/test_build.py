from types import SimpleNamespace

import pytest
import torch

from embedrun.config import TrainingConfig
from embedrun.dataset.toy import Toy
from embedrun.experiment.build import announcement
from embedrun.gpu import Compute
from embedrun.training.order import Order
from embedrun.training.processes import Processes

CPU = Compute(torch.device("cpu"), "fp32")


class Encoder(torch.nn.Linear):
    pooling = SimpleNamespace(name="mean")


def announced(**options) -> list[str]:
    """Of ten steps over 96 rows of the toy data, six steps an epoch."""
    training = TrainingConfig(batch_size=16, max_steps=10, epochs=5, **options)
    rows = Toy(train_rows=96).read("train", None)  # type: ignore[arg-type]
    built = SimpleNamespace(encoder=Encoder(2, 3), order=Order(96, 16, 1, seed=3))
    return announcement(built, rows, training, CPU, Processes())  # type: ignore[arg-type]


def test_what_is_trained_is_one_line():
    assert announced() == [
        "96 rows of toy, 10 steps of 16 rows, 9 of 9 parameters trainable, cpu fp32, pooling mean"
    ]


@pytest.mark.parametrize(
    ("options", "scores"),
    [
        ({"patience": 1, "evaluate_every": 10}, "is 1 dev score"),
        ({"patience": 1, "evaluate_every": 999}, "is 1 dev score"),
        ({"patience": 2, "evaluate_every": 4}, "are 3 dev scores"),  # after 4, 8 and 10
        ({"patience": 3, "evaluations_per_epoch": 2}, "are 4 dev scores"),  # after 3, 6, 9 and 10
        ({"patience": 1, "evaluate_every": 4}, None),  # after 8 it may end
        ({"patience": 2, "evaluations_per_epoch": 2}, None),
        ({"evaluate_every": 10}, None),
    ],
)
def test_a_patience_that_no_run_of_so_few_scores_can_lose_is_warned_of(options, scores):
    expected = f"warning: training.patience: there {scores} in these 10 steps, too few for early stopping"
    assert [line for line in announced(**options) if "patience" in line] == ([expected] if scores else [])
