"""Sharpness-aware minimisation: the gradient where the loss is highest nearby."""

import contextlib
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from embedrun.config import TrainingConfig


@contextlib.contextmanager
def nearby(weights: Sequence[nn.Parameter], norm: Tensor, rho: float) -> Iterator[None]:
    r"""Within it, the weights are moved to where the loss is highest nearby, to first order.

    With the gradient :math:`g` of a step over all trained weights :math:`w`, they are :math:`w + \epsilon`,

    .. math:: \epsilon = \rho \, \frac{g}{\lVert g \rVert_2},

    and :math:`\epsilon = 0` where :math:`g = 0`. The gradient there, not that at :math:`w`, is what the
    optimizer then uses at :math:`w`.

    Source: Foret et al. 2021 (SAM), arXiv:2010.01412, Eq. 2 and 4 for p = 2, and Algorithm 1. All trained
    weights are moved and count in the norm, biases and norms too; weight decay is not included.

    Afterwards, also after an exception, every weight is bit-identical to what it was: a copy is kept, because
    to add and to subtract would round twice.

    Args:
        weights: all that are trained; `grad` of each is its part of g, or None.
        norm: of g, a scalar on their device; must be finite.
        rho: how far to move, as a norm over all weights, > 0.
    """
    kept = [weight.detach().clone() for weight in weights]  # the shape of each weight
    with torch.no_grad():
        scale = torch.where(norm > 0, rho / norm, 0.0)  # scalar, left on the device
        for weight in weights:
            if weight.grad is not None:
                weight.add_(weight.grad * scale)
    try:
        yield
    finally:
        with torch.no_grad():
            for weight, value in zip(weights, kept, strict=True):
                weight.copy_(value)


def random_state(device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Torch's random state, of the CPU and of the device that computes."""
    return torch.get_rng_state(), torch.cuda.get_rng_state(device) if device.type == "cuda" else None


def put_back(state: tuple[Tensor, Tensor | None], device: torch.device) -> None:
    """Make torch repeat what it has drawn since the state was read, such as dropout without seeds."""
    own, cuda = state
    torch.set_rng_state(own)
    if cuda is not None:
        torch.cuda.set_rng_state(cuda, device)


def problems(training: TrainingConfig, precision: str) -> list[str]:
    """What keeps these options from being used together.

    `precision` is the backbone's: `fp32`, `tf32`, `bf16`, `fp16`, or `auto`, which may become any of them.
    """
    if training.optimizer == "sam" and precision == "fp16":
        return [
            "training.optimizer: sam needs every gradient of a step, and fp16 skips steps that overflow; "
            "choose gpu.precision bf16 or fp32, or optimizer=adamw"
        ]
    return []
