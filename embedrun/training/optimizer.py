"""AdamW without decay on biases and norms, and the learning rate of each step."""

import math
from collections.abc import Iterable

import torch
from torch import nn

from embedrun.config import TrainingConfig


def build(modules: Iterable[nn.Module], config: TrainingConfig) -> torch.optim.AdamW:
    """AdamW over every trainable parameter.

    Decay reaches weights of two dimensions and more; biases, norms and other vectors have none, as in the
    training code of BERT (Devlin et al. 2019).
    """
    trained = [weight for module in modules for weight in module.parameters() if weight.requires_grad]
    groups = [
        {"params": [weight for weight in trained if weight.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [weight for weight in trained if weight.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=config.lr,
        betas=(config.adam_beta1, config.adam_beta2),
        eps=config.adam_epsilon,
    )


def learning_rate(step: int, steps: int, config: TrainingConfig) -> float:
    """The learning rate of optimizer step `step` (the first is 1) of `steps`.

    Rises linearly to `lr` over the warm-up, then falls linearly towards 0, which it would reach one
    step after the last, or stays level.
    """
    warmup = (
        config.warmup_steps if config.warmup_steps is not None else math.ceil(config.warmup_ratio * steps)
    )
    if step <= warmup:
        return config.lr * step / warmup
    if config.schedule == "constant":
        return config.lr
    return config.lr * (steps - step + 1) / max(1, steps - warmup)
