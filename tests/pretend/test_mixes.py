"""One step of every mix in conf/loss on the simulated device, in each of its precisions."""

import json
from functools import cache

import pytest
import torch
from pretended_cuda import Device
from torch import Tensor
from whole_step import MIXES, Trial, terms

pytestmark = pytest.mark.pretend

ROWS = 16
# The most that the gradient may differ from float32's, in length and relative to it: sixteen roundings. One
# is 2^-8 of a number in bfloat16 and 2^-11 in float16; rankcse, the steepest, differs by seven.
# TensorFloat-32 is not rounded on this device: what is left is the order of float32's sums, 2e-5 at most.
BARS = {"bf16": 2.0**-4, "fp16": 2.0**-7, "tf32": 1e-4}
PRODUCTS = {"bf16": "bfloat16", "fp16": "float16", "tf32": "tf32"}
DISTINCT = sorted({json.dumps(terms(mix), sort_keys=True): mix for mix in reversed(MIXES)}.values())


def trial(mix: str, device: str, precision: str, **options) -> Trial:
    made = Trial(mix, None, ROWS, precision, device=device, dtype=torch.float32, **options)
    # Torch's own scale, 65536, costs up to ten skipped steps a test.
    made.stepper.scaler = torch.amp.GradScaler(device, init_scale=2.0**6, enabled=precision == "fp16")
    return made


def taken(trial: Trial) -> tuple[float, Tensor]:
    """Loss and gradient of a step, ``(numbers,)``."""
    values = trial.step()
    loss = float(values.pop("loss"))
    return loss, torch.cat([values[name].cpu().flatten() for name in sorted(values)])


def assert_close(computed: tuple[float, Tensor], expected: tuple[float, Tensor], bar: float) -> None:
    (loss, gradient), (expected_loss, expected_gradient) = computed, expected
    assert loss == pytest.approx(expected_loss, rel=bar)
    assert float((gradient - expected_gradient).norm()) <= bar * float(expected_gradient.norm())


@cache
def of_the_processor(mix: str) -> tuple[float, Tensor]:
    return taken(trial(mix, "cpu", "fp32", dropout=0.0))


@pytest.mark.parametrize("precision", BARS)
@pytest.mark.parametrize("mix", DISTINCT)
def test_a_step_has_the_gradient_of_the_processor(device: Device, mix: str, precision: str):
    computed = taken(trial(mix, "cuda", precision, dropout=0.0))
    assert_close(computed, of_the_processor(mix), BARS[precision])
    assert device.products[PRODUCTS[precision]]


@pytest.mark.parametrize("mix", DISTINCT)
def test_seeded_dropout_drops_what_it_drops_on_the_processor(device: Device, mix: str):
    computed, expected = (taken(trial(mix, where, "fp32", seeded_dropout=True)) for where in ("cuda", "cpu"))
    assert_close(computed, expected, BARS["tf32"])


def test_a_step_is_skipped_where_the_gradient_overflows_float16(device: Device):
    overflowing = trial("angle", "cuda", "fp16")
    overflowing.stepper.scaler = torch.amp.GradScaler("cuda", init_scale=2.0**24)
    assert overflowing.step().keys() == {"loss"}
    assert overflowing.stepper.scaler.get_scale() == 2.0**23
