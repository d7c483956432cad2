"""On a CUDA device: the sorted sums are those of the processor, and so are the masks of seeded dropout."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from embedrun.backbone.dropout import SeededDropout
from embedrun.loss.ordered_pairs import log_sum_over_ordered_pairs

pytestmark = pytest.mark.gpu


def losses(value: Tensor, score: Tensor, label: Tensor) -> list[Tensor]:
    return [
        log_sum_over_ordered_pairs(value, score),
        log_sum_over_ordered_pairs(value, score, interval=2, ties="average"),
        log_sum_over_ordered_pairs(value, score, level=label),
    ]


def values_and_gradients(device: str, rows: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(rows)
    value = (torch.rand(rows, dtype=torch.float64, generator=generator) * 20).to(device).requires_grad_()
    score = torch.randint(40, (rows,), generator=generator).to(device)
    label = torch.randint(3, (rows,), generator=generator).to(device)
    found = []
    for loss in losses(value, score, label):
        (gradient,) = torch.autograd.grad(loss, value)
        found += [loss.detach().cpu(), gradient.cpu()]
    return found


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("rows", [0, 1, 300, 4096])
def test_sums_over_pairs_are_those_of_the_processor(rows: int, deterministic: bool):
    expected = values_and_gradients("cpu", rows)
    torch.use_deterministic_algorithms(deterministic)
    try:
        found = values_and_gradients("cuda", rows)
    finally:
        torch.use_deterministic_algorithms(False)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_dropout_of_a_text_is_that_of_the_processor():
    seeds = torch.arange(64) * 2**40
    masks = []
    for device in ("cpu", "cuda"):
        with SeededDropout(seeds, torch.device(device)):
            masks.append(functional.dropout(torch.ones(64, 20, 384, device=device), 0.1, True).cpu())
    assert torch.equal(*masks)
