import pytest
import torch
from one_weight import CPU, MeanProduct, OneWeight, Scaled, batch, stepper, weight
from torch import Tensor, nn

from embedrun.batch import Tokens
from embedrun.config import TrainingConfig
from embedrun.errors import ConfigError
from embedrun.gpu import Compute
from embedrun.training.step import Stepper


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


def test_a_step_is_taken_on_several_batches_of_different_size():
    values = stepper().take(1, 10, [batch([2], [1.0]), batch([1, 2, 3], [1.0, 1.0, 1.0])])
    assert float(values["gradient_norm"]) == pytest.approx(2)


def test_a_scaled_gradient_is_unscaled_before_it_is_measured_and_clipped():
    one = stepper(Scaled(torch.device("cpu"), "fp32"), clip=1.0)
    values = one.take(1, 10, [batch([2, 4], [1.0, 2.0])])
    assert float(values["gradient_norm"]) == pytest.approx(5)
    assert weight(one) == pytest.approx(1 - 0.1)


def test_the_state_of_a_run_in_float32_is_plain_and_without_a_scale():
    assert stepper().state() == {
        "precision": "fp32",
        "scaler": {},
        "micro_batch_size": None,
        "seeded_dropout": False,
        "skipped": 0,
        "skipped_in_a_row": 0,
    }
    stepper().load_state(stepper().state())


def test_a_run_in_float32_goes_on_in_float16_with_a_fresh_scale():
    one = stepper(Scaled(torch.device("cpu"), "fp16"))
    one.load_state(stepper().state())
    assert one.scaler.get_scale() == 1024
    assert one.state()["precision"] == "fp16"


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


def test_options_that_do_not_go_together_are_refused_in_one_go():
    config = TrainingConfig(optimizer="sam", micro_batch_size=2, seeded_dropout=False)
    with pytest.raises(ConfigError) as refused:
        Stepper(OneWeight(), MeanProduct(), Compute(torch.device("cpu"), "fp16"), config)  # type: ignore[arg-type]
    assert [problem.split(":")[0] for problem in refused.value.problems] == [
        "training.optimizer", "training.seeded_dropout"
    ]  # fmt: skip
