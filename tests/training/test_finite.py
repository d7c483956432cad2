"""What is not finite is never stepped on; in float16 it may be skipped."""

import json
import math

import pytest
import torch
from one_weight import CPU, MeanProduct, OneWeight, Scaled, batch, stepper, weight
from torch.utils._python_dispatch import TorchDispatchMode

from embedrun.config import TrainingConfig
from embedrun.training.step import NonFinite, Stepper


@pytest.mark.parametrize("score", [math.nan, math.inf])
@pytest.mark.parametrize("clip", [None, 1.0])
def test_a_loss_that_is_not_finite_ends_the_run_before_the_weights_change(score: float, clip):
    one = stepper(clip=clip)
    with pytest.raises(NonFinite, match=r"loss is (nan|inf) at step 3; no step was taken") as failure:
        one.take(3, 10, [batch([1], [1.0]), batch([1, 2], [1.0, score])])
    assert failure.value.exit_code == 4
    assert "training rows 0, 0, 1)" in str(failure.value)
    assert str(failure.value).endswith("gpu.precision=fp32, in a new run (training.resume=never)")
    assert failure.value.step == 3
    assert failure.value.rows == [[0], [0, 1]]
    assert not math.isfinite(failure.value.values["loss"])
    assert weight(one) == 1
    assert one.optimizer.state == {}


@pytest.mark.parametrize("clip", [None, 1.0])
def test_a_gradient_that_is_not_finite_ends_the_run_too(clip):
    class Explodes(MeanProduct):
        def forward(self, embeddings, targets):
            return (
                embeddings["left"] - embeddings["left"].detach()
            ).abs().sqrt().sum(), {}  # 0, slope infinite

    config = TrainingConfig(clip=clip)
    one = Stepper(OneWeight(), Explodes(), CPU, config)  # type: ignore[arg-type]
    with pytest.raises(NonFinite, match=r"gradient norm is (nan|inf) at step 1") as failure:
        one.take(1, 10, [batch([1], [1.0])])
    assert failure.value.exit_code == 4
    assert weight(one) == 1


def test_a_loss_that_is_infinite_with_a_finite_gradient_is_seen_as_well():
    class Lifted(MeanProduct):
        def forward(self, embeddings, targets):
            loss, terms = super().forward(embeddings, targets)
            return loss + math.inf, terms

    one = Stepper(OneWeight(), Lifted(), CPU, TrainingConfig())  # type: ignore[arg-type]
    with pytest.raises(NonFinite, match=r"^loss is inf at step 1") as failure:
        one.take(1, 10, [batch([2], [1.0])])
    assert failure.value.values["gradient_norm"] == pytest.approx(2)


@pytest.mark.parametrize("options", [{}, {"optimizer": "sam"}])
def test_a_step_reads_from_the_device_once(monkeypatch, options):
    reads: list[str] = []

    class Reads(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            # Token lengths, which are integers, never leave the CPU.
            if func is torch.ops.aten._local_scalar_dense.default and args[0].dtype != torch.int64:
                reads.append("one number")
            return func(*args, **(kwargs or {}))

    tolist = torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "tolist", lambda self: reads.append("several") or tolist(self))
    one = stepper(clip=1.0, **options)
    with Reads():
        one.take(1, 10, [batch([2, 4], [1.0, 2.0]), batch([1], [1.0])], watch=True)
    assert reads == ["several"]


def test_an_overflow_in_float16_skips_the_step_and_lowers_the_scale():
    one = stepper(Scaled(torch.device("cpu"), "fp32"))
    values = one.take(1, 10, [batch([2], [1e37])])  # times 1024 it is infinite
    assert not math.isfinite(float(values["gradient_norm"]))
    assert weight(one) == 1
    assert one.scaler.get_scale() == 512
    assert values["skipped"] == 1


def overflowing(most_skipped: int) -> Stepper:
    return stepper(Scaled(torch.device("cpu"), "fp32", most_skipped=most_skipped))


TOO_LARGE, FITS = [batch([2], [1e37])], [batch([2], [1e3])]


def test_skipped_steps_are_counted_and_more_in_a_row_than_allowed_end_the_run():
    one = overflowing(most_skipped=2)
    counts = [one.take(step, 10, TOO_LARGE)["skipped"] for step in (1, 2)]
    counts += [one.take(3, 10, FITS)["skipped"]]
    counts += [one.take(step, 10, TOO_LARGE)["skipped"] for step in (4, 5)]
    assert counts == [1, 2, 2, 3, 4]
    before = weight(one)
    with pytest.raises(
        NonFinite, match=r"^the gradient overflowed 3 times in a row \(gpu.most_skipped\)"
    ) as failure:
        one.take(6, 10, TOO_LARGE)
    assert failure.value.exit_code == 4
    assert weight(one) == before != 1


def test_a_loss_that_is_not_finite_is_not_skipped_in_float16_either():
    with pytest.raises(NonFinite, match=r"^loss is nan at step 1"):
        overflowing(most_skipped=2).take(1, 10, [batch([2], [math.nan])])


def test_only_float16_counts_skipped_steps():
    assert "skipped" not in stepper().take(1, 10, FITS)


def test_a_stepper_goes_on_from_its_state():
    one = overflowing(most_skipped=5)
    for step in (1, 2):
        one.take(step, 10, TOO_LARGE)
    one.parts.size = 3
    state = json.loads(json.dumps(one.state()))
    other = overflowing(most_skipped=5)
    other.load_state(state)
    assert other.state() == one.state()
    assert other.scaler.get_scale() == 256
    assert other.take(3, 10, TOO_LARGE)["skipped"] == 3
    assert other.state()["skipped_in_a_row"] == 3
