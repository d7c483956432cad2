from types import SimpleNamespace

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
    return announcement(built, {"": rows}, training, CPU, Processes())  # type: ignore[arg-type]


def test_what_is_trained_is_one_line():
    assert announced() == [
        "96 rows of toy, 10 steps of 16 rows, 9 of 9 parameters trainable, cpu fp32, pooling mean"
    ]
