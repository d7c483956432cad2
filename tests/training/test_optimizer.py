import math

import pytest
import torch
from torch import nn

from embedrun.config import TrainingConfig
from embedrun.training.step import build, learning_rate


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


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_the_rate_would_be_zero_one_step_after_the_last(schedule: str):
    config = TrainingConfig(lr=1.0, schedule=schedule, warmup_ratio=0.1)
    assert learning_rate(41, 40, config) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
@pytest.mark.parametrize("warmup", [0, 1, 7, 30])
def test_the_rate_rises_then_falls_and_is_never_zero(warmup: int, schedule: str):
    found = list(rates(30, warmup_steps=warmup, schedule=schedule).values())
    assert all(0 < rate <= 1 for rate in found)
    top = found.index(max(found))
    assert found[: top + 1] == sorted(found[: top + 1])
    assert found[top:] == sorted(found[top:], reverse=True)


def test_constant_schedule_stays_level_after_the_warm_up():
    found = rates(100, schedule="constant", warmup_ratio=0.1)
    assert found[5] == pytest.approx(0.5)
    assert {found[step] for step in range(10, 101)} == {1.0}


def test_without_warm_up_the_first_step_is_full():
    assert rates(10, warmup_ratio=0)[1] == 1
    assert rates(10, warmup_ratio=0.5, warmup_steps=0)[1] == 1  # steps have the last word


def test_a_part_of_a_warm_up_step_counts_as_a_whole_one():
    assert rates(25, warmup_ratio=0.1)[1] == pytest.approx(1 / 3)  # 2.5 steps


def test_a_run_of_one_step_takes_it_in_full():
    assert rates(1, warmup_ratio=0.1)[1] == 1


def test_a_warm_up_longer_than_the_run_never_gets_to_the_top():
    assert rates(10, warmup_steps=20)[10] == pytest.approx(0.5)


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


def test_decay_shrinks_a_weight_without_gradient_by_lr_times_decay():
    layer = nn.Linear(1, 1)
    nn.init.constant_(layer.weight, 2.0)
    nn.init.constant_(layer.bias, 2.0)
    adamw = build([layer], TrainingConfig(lr=0.5, weight_decay=0.1))
    for weight in layer.parameters():
        weight.grad = torch.zeros_like(weight)
    adamw.step()
    assert layer.weight.item() == pytest.approx(2 * (1 - 0.5 * 0.1))
    assert layer.bias.item() == 2


def test_a_module_of_vectors_alone_makes_one_group():
    (group,) = build([nn.LayerNorm(3)], TrainingConfig(weight_decay=0.1)).param_groups
    assert group["weight_decay"] == 0


def test_the_options_of_adam_are_passed_on():
    config = TrainingConfig(lr=0.3, adam_beta1=0.8, adam_beta2=0.95, adam_epsilon=1e-6)
    passed = build([nn.Linear(1, 1)], config).defaults
    assert (passed["lr"], passed["betas"], passed["eps"]) == (0.3, (0.8, 0.95), 1e-6)


def trained(fused: bool | None) -> list[torch.Tensor]:
    """The weights after three steps of AdamW on fixed gradients."""
    torch.manual_seed(0)
    layer = nn.Linear(37, 5)
    adamw = build([layer], TrainingConfig(lr=0.1, weight_decay=0.1))
    if fused is not None:
        groups = [{**group, "fused": fused} for group in adamw.param_groups]
        adamw = torch.optim.AdamW(groups)
    for step in range(3):
        for weight in layer.parameters():
            weight.grad = torch.sin(weight.detach() * 50 + step)
        adamw.step()
    return [weight.detach() for weight in layer.parameters()]


def test_the_fused_kernel_is_used_repeats_itself_and_does_what_the_plain_one_does():
    assert build([nn.Linear(1, 1)], TrainingConfig()).param_groups[0]["fused"]
    for one, again, plain in zip(trained(None), trained(None), trained(False), strict=True):
        assert torch.equal(one, again)
        torch.testing.assert_close(one, plain, rtol=1e-5, atol=1e-6)
