"""Steps of an encoder with one weight, whose loss and gradient are known by hand."""

import numpy as np
import torch
from torch import Tensor, nn

from embedrun.batch import Batch, Tokens, View
from embedrun.config import TrainingConfig
from embedrun.gpu import Compute
from embedrun.training.step import Stepper

CPU = Compute(torch.device("cpu"), "fp32")


class OneWeight(nn.Module):
    """An encoder of one-token texts: the vector of token `t` is `weight * t`."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[1.0]]))
        self.texts = 0

    def forward(
        self, tokens: Tokens, *, dropout: bool = True, seeds: Tensor | None = None, unpadded: bool = False
    ) -> Tensor:
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

    def gradient_shares(self, *_: object) -> dict[str, Tensor]:
        return {"gradient_share/product": torch.tensor(1.0)}


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


class Scaled(Compute):
    """Float16's scaler on a CPU, without the passes in float16."""

    def scaler(self) -> torch.amp.GradScaler:
        return torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=1, enabled=True)
