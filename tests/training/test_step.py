"""One optimizer step: AdamW, its learning rate, and what is not finite.

What is not finite is never stepped on; in float16 it may be skipped.
"""

import json
import math

import pytest
import torch
from one_weight import CPU, MeanProduct, OneWeight, Scaled, batch, stepper, weight
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from embedrun.batch import Tokens
from embedrun.config import TrainingConfig
from embedrun.errors import ConfigError
from embedrun.gpu import Compute
from embedrun.training.step import NonFinite, Stepper, build, learning_rate


def test_two_accumulated_steps_give_the_weights_of_adam_on_the_mean_loss():
    steps = [[batch([2], [1.0]), batch([3], [1.0])], [batch([1], [-4.0]), batch([2], [1.0])]]
    one = stepper()
    for step, parts in enumerate(steps, 1):
        one.take(step, 2, parts)
    reference = torch.tensor([[1.0]], requires_grad=True)
    adamw = torch.optim.AdamW([reference], lr=0.1, weight_decay=0.0)
    for parts in steps:
        adamw.zero_grad()
        means = [
            (reference * part.views["left"].tokens.ids[:, None] * part.targets["score"]).mean()
            for part in parts
        ]
        (sum(means) / len(means)).backward()  # type: ignore[union-attr]
        adamw.step()
    assert weight(one) == pytest.approx(reference.item(), rel=1e-6)


@pytest.mark.parametrize(("clip", "kept"), [(None, 5.0), (10.0, 5.0), (1.0, 1.0)])
def test_clipping_limits_the_gradient_and_the_norm_is_reported_before_it(monkeypatch, clip, kept: float):
    one = stepper(clip=clip)
    seen = []
    monkeypatch.setattr(
        one.optimizer, "step", lambda *_, **__: seen.append(one.trained["encoder"].weight.grad.item())
    )
    values = one.take(1, 10, [batch([5], [1.0])])
    assert float(values["gradient_norm"]) == pytest.approx(5)
    assert seen == [pytest.approx(kept, rel=1e-5)]


def test_the_forward_pass_runs_in_the_training_precision_and_weights_stay_float32():
    class Matrix(OneWeight):
        def forward(self, tokens: Tokens, **_: object) -> Tensor:
            vectors = tokens.ids[:, None].float() @ self.weight  # (texts, 1)
            self.dtype = vectors.dtype
            return vectors

    encoder = Matrix()
    one = Stepper(encoder, MeanProduct(), Compute(torch.device("cpu"), "bf16"), TrainingConfig())  # type: ignore[arg-type]
    one.take(1, 10, [batch([2], [1.0])])
    assert encoder.dtype == torch.bfloat16
    assert encoder.weight.dtype == torch.float32


class Products(OneWeight):
    """Notes whether float32 matrix products may be rounded, in its forward and in its backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, bool]] = []
        self.weight.register_hook(lambda _: self.seen.append(("backward", rounded())))

    def forward(self, tokens: Tokens, **options: object) -> Tensor:
        self.seen.append(("forward", rounded()))
        return super().forward(tokens)


def rounded() -> bool:
    return torch.backends.cuda.matmul.allow_tf32


@pytest.mark.parametrize("micro_batch_size", [None, 1])
@pytest.mark.parametrize("precision", ["tf32", "fp32"])
def test_tensorfloat_is_for_the_backbone_alone_forward_and_backward(precision: str, micro_batch_size):
    class Noted(MeanProduct):
        def forward(self, embeddings, targets):
            encoder.seen.append(("loss", rounded()))
            embeddings["left"].register_hook(lambda _: encoder.seen.append(("loss backward", rounded())))
            return super().forward(embeddings, targets)

    encoder = Products()
    config = TrainingConfig(micro_batch_size=micro_batch_size)
    one = Stepper(encoder, Noted(), Compute(torch.device("cpu"), precision), config)  # type: ignore[arg-type]
    one.take(1, 10, [batch([2, 4], [1.0, 2.0])])
    tf32 = precision == "tf32"
    assert set(encoder.seen) == {
        ("forward", tf32), ("backward", tf32), ("loss", False), ("loss backward", False)
    }  # fmt: skip
    assert not rounded()


def rates(steps: int, **options) -> dict[int, float]:
    config = TrainingConfig(lr=1.0, **options)
    return {step: learning_rate(step, steps, config) for step in range(1, steps + 1)}


def test_linear_schedule_by_hand():
    found = rates(100, warmup_ratio=0.1)
    assert found[1] == pytest.approx(0.1)
    assert found[5] == pytest.approx(0.5)
    assert found[10] == found[11] == pytest.approx(1.0)
    assert found[56] == pytest.approx(0.5)  # 45 of 90 steps are left, this one among them
    assert found[100] == pytest.approx(1 / 90)


def test_cosine_schedule_by_hand():
    found = rates(105, schedule="cosine", warmup_steps=5)  # t = (step - 6) / 100
    assert found[3] == pytest.approx(0.6)
    assert found[5] == found[6] == pytest.approx(1.0)
    assert found[31] == pytest.approx((1 + math.sqrt(0.5)) / 2)  # t = 1/4: cos 45 degrees
    assert found[56] == pytest.approx(0.5)  # t = 1/2
    assert found[81] == pytest.approx((1 - math.sqrt(0.5)) / 2)
    assert found[105] == pytest.approx(0.00024672, rel=1e-4)  # (1 - cos 1.8 degrees) / 2


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.linear = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)
        self.frozen = nn.Linear(4, 4).requires_grad_(False)


def test_weights_decay_and_biases_and_norms_do_not():
    model = Small()
    decayed, plain = build([model], TrainingConfig(weight_decay=0.1)).param_groups
    names = {id(weight): name for name, weight in model.named_parameters()}
    assert decayed["weight_decay"] == 0.1
    assert {names[id(weight)] for weight in decayed["params"]} == {"embedding.weight", "linear.weight"}
    assert plain["weight_decay"] == 0
    assert {names[id(weight)] for weight in plain["params"]} == {"linear.bias", "norm.weight", "norm.bias"}


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


def test_an_encoder_without_a_weight_to_train_is_refused():
    encoder = OneWeight()
    encoder.weight.requires_grad_(False)
    with pytest.raises(ConfigError, match="none of its weights can be trained; give it an adapter"):
        Stepper(encoder, MeanProduct(), CPU, TrainingConfig())  # type: ignore[arg-type]
