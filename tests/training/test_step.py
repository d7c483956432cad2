import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from embedrun.batch import Batch, Tokens, View
from embedrun.config import TrainingConfig
from embedrun.errors import ConfigError, RunFailed
from embedrun.gpu import Compute
from embedrun.training.step import Stepper

CPU = Compute(torch.device("cpu"), "fp32")


class OneWeight(nn.Module):
    """An encoder of one-token texts: the vector of token `t` is `weight * t`."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[1.0]]))
        self.texts = 0

    def forward(self, tokens: Tokens, *, dropout: bool = True, seeds: Tensor | None = None) -> Tensor:
        self.texts += len(tokens)
        return tokens.ids[:, None].float() * self.weight  # (texts, 1)


class MeanProduct(nn.Module):
    """A loss whose gradient is the mean of left * target, known by hand."""

    def forward(
        self, embeddings: dict[str, Tensor], targets: dict[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        loss = (embeddings["left"][:, 0] * targets["score"]).mean() + 0 * embeddings["right"].sum()
        return loss, {"product": loss.detach() / 2}

    def signals(self, embeddings: dict[str, Tensor], targets: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"active/product": torch.tensor(0.5)}


def batch(left: list[int], score: list[float]) -> Batch:
    tokens = Tokens(torch.tensor(left), torch.ones(len(left), dtype=torch.int64))
    texts = View(tokens, torch.arange(len(left)))
    return Batch({"left": texts, "right": texts}, {"score": torch.tensor(score)}, np.arange(len(left)))


def stepper(compute: Compute = CPU, **options) -> Stepper:
    config = TrainingConfig(
        **{"lr": 0.1, "clip": None, "warmup_ratio": 0.0, "schedule": "constant", **options}
    )
    return Stepper(OneWeight(), MeanProduct(), compute, config)  # type: ignore[arg-type]


def weight(of: Stepper) -> float:
    return of.trained["encoder"].weight.item()  # type: ignore[union-attr]


def test_an_encoder_without_a_weight_to_train_is_refused():
    encoder = OneWeight()
    encoder.weight.requires_grad_(False)
    with pytest.raises(ConfigError, match="none of its weights can be trained; give it an adapter"):
        Stepper(encoder, MeanProduct(), CPU, TrainingConfig())  # type: ignore[arg-type]


def test_the_first_step_of_adam_moves_a_weight_by_the_learning_rate():
    one = stepper()
    values = one.take(1, 10, [batch([2, 4], [1.0, 2.0])])  # gradient (2 + 8) / 2 = 5
    assert weight(one) == pytest.approx(1 - 0.1)
    assert float(values["loss"]) == pytest.approx(5)
    assert float(values["loss/product"]) == pytest.approx(2.5)
    assert float(values["gradient_norm"]) == pytest.approx(5)
    assert values["lr"] == pytest.approx(0.1)


def test_accumulation_is_the_mean_of_the_losses_of_the_batches():
    parts = [batch([2, 4], [1.0, 2.0]), batch([1, 1], [3.0, 5.0])]  # losses 5 and 4, gradients as well
    values = stepper().take(1, 10, parts)
    assert float(values["loss"]) == pytest.approx(4.5)
    assert float(values["loss/product"]) == pytest.approx(2.25)
    assert float(values["gradient_norm"]) == pytest.approx(4.5)


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


def test_no_gradient_is_left_over_from_the_step_before():
    one = stepper()
    one.take(1, 10, [batch([2], [1.0])])
    values = one.take(2, 10, [batch([2], [1.0])])
    assert float(values["gradient_norm"]) == pytest.approx(2)


def test_all_views_pass_through_the_encoder_together():
    one = stepper()
    one.take(1, 10, [batch([2, 4, 6], [1.0, 2.0, 3.0])])
    assert one.trained["encoder"].texts == 6


def test_the_learning_rate_of_the_step_is_used():
    one = stepper(schedule="linear", warmup_steps=10)
    assert one.take(5, 100, [batch([1], [1.0])])["lr"] == pytest.approx(0.05)
    assert weight(one) == pytest.approx(1 - 0.05)


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


@pytest.mark.parametrize("score", [math.nan, math.inf])
@pytest.mark.parametrize("clip", [None, 1.0])
def test_a_loss_that_is_not_finite_ends_the_run_before_the_weights_change(score: float, clip):
    one = stepper(clip=clip)
    with pytest.raises(RunFailed, match=r"loss is (nan|inf) at step 3; no step was taken") as failure:
        one.take(3, 10, [batch([1], [1.0]), batch([1, 2], [1.0, score])])
    assert failure.value.exit_code == 4
    assert "training rows 0, 1" in str(failure.value)
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
    with pytest.raises(RunFailed, match=r"gradient norm is (nan|inf) at step 1") as failure:
        one.take(1, 10, [batch([1], [1.0])])
    assert failure.value.exit_code == 4
    assert weight(one) == 1


def test_weights_of_the_loss_are_trained_as_well():
    class Scaled(MeanProduct):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.tensor([[1.0]]))

        def forward(self, embeddings, targets):
            loss, terms = super().forward(embeddings, targets)
            return loss * self.scale.sum(), terms

    one = Stepper(OneWeight(), Scaled(), CPU, TrainingConfig(lr=0.1, warmup_ratio=0.0))  # type: ignore[arg-type]
    one.take(1, 10, [batch([2], [1.0])])
    assert one.trained["mix"].scale.item() == pytest.approx(0.9)  # type: ignore[union-attr]


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


class Scaled(Compute):
    """Float16's scaler on a CPU, without the passes in float16."""

    def scaler(self) -> torch.amp.GradScaler:
        return torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=1, enabled=True)


def test_a_scaled_gradient_is_unscaled_before_it_is_measured_and_clipped():
    one = stepper(Scaled(torch.device("cpu"), "fp32"), clip=1.0)
    values = one.take(1, 10, [batch([2, 4], [1.0, 2.0])])
    assert float(values["gradient_norm"]) == pytest.approx(5)
    assert weight(one) == pytest.approx(1 - 0.1)


def test_an_overflow_in_float16_skips_the_step_and_lowers_the_scale():
    one = stepper(Scaled(torch.device("cpu"), "fp32"))
    values = one.take(1, 10, [batch([2], [1e37])])  # times 1024 it is infinite
    assert not math.isfinite(float(values["gradient_norm"]))
    assert weight(one) == 1
    assert one.scaler.get_scale() == 512
