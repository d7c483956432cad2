"""On a CUDA device: steps of a BERT-base on batches of 512 pairs, in every precision, whole and in parts."""

import gc
import math
from collections.abc import Iterator

import pytest
import torch
from bert_shaped import BASE, TINY, batch, gradient, stepper
from torch import Tensor

from embedrun.training.step import Stepper

pytestmark = pytest.mark.gpu

ROWS, PART = 512, 64


@pytest.fixture(autouse=True)
def _empty_device() -> Iterator[None]:
    yield
    gc.collect()
    torch.cuda.empty_cache()


def make(precision: str, **options) -> Stepper:
    return stepper("cuda", precision, shape=BASE, **options)


def taken(one: Stepper) -> tuple[float, Tensor, float]:
    """Loss of one step, its gradient ``(numbers,)``, and GB at the highest point."""
    found: list[Tensor] = []
    one.optimizer.step = lambda *_: found.append(gradient(one))  # type: ignore[method-assign]
    torch.cuda.reset_peak_memory_stats()
    loss = math.nan
    while not found:  # in float16 until the scale is low enough; no weight moves
        loss = float(one.take(1, 10, [batch(ROWS)])["loss"])
    return loss, found[0], torch.cuda.max_memory_allocated() / 1e9


def assert_close(one: Tensor, other: Tensor, *, bar: float) -> None:
    """The length of the difference, relative to that of the gradient."""
    assert float((one - other).norm()) <= bar * float(other.norm())


@pytest.mark.parametrize(
    ("precision", "bar"), [("fp32", 1e-3), ("tf32", 0.02), ("bf16", 0.1), ("fp16", 0.02)]
)
def test_parts_have_the_gradient_of_the_batch_and_take_less_memory(precision: str, bar: float):
    scale = {"clip": None, "seeded_dropout": True}
    loss, whole, most = taken(make(precision, **scale))
    in_parts, parts, least = taken(make(precision, micro_batch_size=PART, **scale))
    assert in_parts == pytest.approx(loss, rel=bar)
    assert_close(parts, whole, bar=bar)
    assert least < 0.6 * most


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_sixteen_bits_are_near_float32_and_weights_stay_in_float32(precision: str):
    exact, _, _ = taken(make("fp32", dropout=0.0))
    one = make(precision, dropout=0.0)
    loss, _, _ = taken(one)
    assert loss == pytest.approx(exact, rel=0.02)
    assert {weight.dtype for weight in one.trained.parameters()} == {torch.float32}


def test_a_batch_that_does_not_fit_goes_on_in_parts():
    _, whole, most = taken(make("bf16", seeded_dropout=True, clip=None))
    gc.collect()
    torch.cuda.empty_cache()
    one = make("bf16", clip=None)  # dropout is torch's own until memory runs out
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(0.6 * most * 1e9 / total)
    try:
        _, found, _ = taken(one)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert one.parts.size is not None
    assert one.parts.size < ROWS
    assert_close(found, whole, bar=0.1)


def test_deterministic_steps_of_several_terms_have_the_same_bytes():
    # Three terms send gradients to every text: in which order they are added must not be a race.
    terms = {"cosent": {}, "in_batch_negatives": {"identical_texts": "off"}, "angle": {}}
    found = []
    torch.use_deterministic_algorithms(True)
    try:
        for _ in range(4):
            one = stepper("cuda", "fp32", shape=TINY, terms=terms)
            torch.manual_seed(1)
            for step in range(1, 6):
                one.take(step, 10, [batch(32, step)])
            found.append(torch.cat([weight.detach().flatten() for weight in one.trained.parameters()]))
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(found[0], other) for other in found[1:])
