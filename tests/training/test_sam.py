"""Sharpness-aware minimisation, by hand, on a function with minima of two kinds, and in a whole step."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from whole_step import Trial, assert_equal_gradients

from embedrun.batch import Batch, Tokens, View
from embedrun.config import TrainingConfig
from embedrun.gpu import Compute
from embedrun.training.step import Stepper, nearby

CPU = Compute(torch.device("cpu"), "fp32")
Surface = Callable[[Tensor, Tensor], Tensor]
TEXT = View(Tokens(torch.ones(1, dtype=torch.int64), torch.ones(1, dtype=torch.int64)), torch.zeros(1).long())
POINT = Batch({"text": TEXT}, {}, np.arange(1))


class Place(nn.Module):
    """An encoder whose vector, whatever the text, is its two weights."""

    def __init__(self, first: float, second: float) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.tensor([[first]], dtype=torch.float64))
        self.second = nn.Parameter(torch.tensor([second], dtype=torch.float64))

    def forward(
        self, tokens: Tokens, *, dropout: bool = True, seeds: Tensor | None = None, unpadded: bool = False
    ) -> Tensor:
        return torch.cat([self.first, self.second[None]], dim=1)  # (1, 2)


class Height(nn.Module):
    """The loss at that place."""

    def __init__(self, surface: Surface) -> None:
        super().__init__()
        self.surface = surface

    def forward(self, embeddings: dict[str, Tensor], targets: object) -> tuple[Tensor, dict[str, Tensor]]:
        height = self.surface(*embeddings["text"][0])
        return height, {"height": height.detach()}


def walker(surface: Surface, start: tuple[float, float], **options) -> Stepper:
    plain = {"lr": 0.1, "clip": None, "warmup_ratio": 0.0, "schedule": "constant"}
    return Stepper(Place(*start), Height(surface), CPU, TrainingConfig(**{**plain, **options}))  # type: ignore[arg-type]


def place(of: Stepper) -> list[float]:
    return [weight.item() for weight in of.trained["encoder"].parameters()]  # type: ignore[union-attr]


def ellipse(x: Tensor, y: Tensor) -> Tensor:
    return 1.5 * x**2 + 2 * y**2  # gradient (3x, 4y)


def test_a_step_by_hand():
    one = walker(ellipse, (1.0, 1.0), optimizer="sam", sam_rho=0.5, adam_epsilon=1.0)
    values = one.take(1, 10, [POINT])
    # The gradient (3, 4) has length 5, so the place nearby is (1.3, 1.4), with the gradient (3.9, 5.6).
    assert float(values["loss"]) == pytest.approx(3.5)
    assert float(values["loss/height"]) == pytest.approx(3.5)
    assert float(values["gradient_norm"]) == pytest.approx(5)
    assert float(values["sam/loss_nearby"]) == pytest.approx(1.5 * 1.69 + 2 * 1.96)
    assert float(values["sam/gradient_norm_nearby"]) == pytest.approx(math.sqrt(3.9**2 + 5.6**2))
    # The first step of AdamW is lr * g / (|g| + epsilon), taken from (1, 1).
    assert place(one) == pytest.approx([1 - 0.1 * 3.9 / 4.9, 1 - 0.1 * 5.6 / 6.6])


def test_weights_come_back_to_the_last_bit_also_after_a_failure():
    generator = torch.Generator().manual_seed(0)
    weight = nn.Parameter(torch.rand(50, generator=generator))
    before = weight.detach().clone()
    weight.grad = torch.rand(50, generator=generator)

    def fail_nearby() -> None:
        with nearby([weight], torch.tensor(1.0), 0.7):
            moved.append(weight.detach().clone())
            raise KeyError

    moved: list[Tensor] = []
    with pytest.raises(KeyError):
        fail_nearby()
    assert torch.equal(weight.detach(), before)
    # To take away what was added would not do.
    assert not torch.equal(moved[0] - 0.7 * weight.grad, before)


# With such an epsilon and no memory of the step before, AdamW is plain gradient descent of rate 0.03.


def trial(mix: str, *arguments, optimizer: str = "sam", rho: float = 0.3, **options) -> Trial:
    found = Trial(mix, *arguments, **options)
    found.stepper._config.optimizer, found.stepper._config.sam_rho = optimizer, rho
    return found


@pytest.mark.parametrize("mix", ["raoe", "sbert"])  # the second has weights in its loss
def test_parts_of_any_size_give_the_step_of_the_whole_batch(mix: str):
    whole = trial(mix).step()
    assert_equal_gradients(trial(mix, 3).step(), whole, bar=1e-11)
    plain = Trial(mix).step()
    name = "encoder.backbone.model.encoder.layer.0.output.dense.weight"
    assert (plain[name] - whole[name]).abs().max() > 1e-3 * plain[name].abs().max()


@pytest.mark.parametrize("size", [None, 3], ids=["torch", "seeded"])
def test_both_gradients_drop_the_same_and_hardly_nearby_is_adamw(size: int | None):
    found = []
    for optimizer in ("adamw", "sam"):
        one = trial("simcse_unsupervised", size, optimizer=optimizer, rho=1e-10)
        torch.manual_seed(5)
        found.append(one.step())
        found[-1]["state"] = torch.get_rng_state().double()
    state = found[0].pop("state")
    assert torch.equal(found[1].pop("state"), state)  # and what is drawn next is what AdamW would draw
    assert_equal_gradients(found[1], found[0], bar=1e-7)
