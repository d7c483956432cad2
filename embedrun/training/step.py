"""One optimizer step: forward, losses, backward, clipping, update."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from embedrun.batch import Batch, Tokens
from embedrun.config import TrainingConfig
from embedrun.encoder import Encoder
from embedrun.errors import NON_FINITE, RunFailed
from embedrun.gpu import Compute
from embedrun.loss.mix import Mix
from embedrun.training import optimizer


class Stepper:
    """Takes optimizer steps.

    Several micro-batches a step add their gradients, each divided by their number. That is the
    gradient of the mean loss over micro-batches; it is not the gradient of one large batch, because
    every loss here compares the rows of its own micro-batch only.

    Args:
        encoder: on its device.
        mix: the losses; terms with weights of their own are trained too.
        compute: device and precision.
        config: the training options.
    """

    def __init__(self, encoder: Encoder, mix: Mix, compute: Compute, config: TrainingConfig) -> None:
        self._encoder, self._mix, self._compute, self._config = encoder, mix, compute, config
        self.trained = nn.ModuleDict({"encoder": encoder, "mix": mix})
        self.optimizer = optimizer.build([self.trained], config)
        self.scaler = compute.scaler()
        self._weights = [weight for weight in self.trained.parameters() if weight.requires_grad]

    def take(self, step: int, steps: int, batches: Sequence[Batch]) -> dict[str, Tensor | float]:
        """Step `step` of `steps`, over these micro-batches.

        Returns:
            Values by name: `loss`, `loss/<term>` (unweighted), `lr`, `gradient_norm` (before clipping).

        Raises:
            RunFailed: on a loss or gradient that is not finite, before the weights change (exit 4).
        """
        rate = optimizer.learning_rate(step, steps, self._config)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        values: dict[str, Tensor | float] = {}
        for batch in batches:
            for name, value in self._backward(step, batch, len(batches)).items():
                values[name] = values.get(name, 0.0) + value / len(batches)
        self.scaler.unscale_(self.optimizer)
        norm = nn.utils.clip_grad_norm_(self._weights, self._config.clip or math.inf)
        # In float16 a gradient that overflowed is expected now and then: the scaler skips the step.
        if not self.scaler.is_enabled() and not torch.isfinite(norm):
            raise _not_finite(f"gradient norm is {float(norm)}", step, batches[-1], values)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return {**values, "lr": rate, "gradient_norm": norm}

    def _backward(self, step: int, batch: Batch, parts: int) -> dict[str, Tensor]:
        """Add one micro-batch's share of the gradient."""
        device = self._compute.device
        with self._compute.autocast():
            vectors = self._encoder(Tokens.join(list(batch.views.values())))  # (views * rows, dim)
        embeddings = dict(zip(batch.views, vectors.split(len(batch.rows)), strict=True))  # (rows, dim) each
        targets = {name: target.to(device, non_blocking=True) for name, target in batch.targets.items()}
        loss, terms = self._mix(embeddings, targets)
        values = {"loss": loss.detach(), **{f"loss/{name}": value for name, value in terms.items()}}
        if not torch.isfinite(loss):
            raise _not_finite(f"loss is {float(values['loss'])}", step, batch, values)
        self.scaler.scale(loss / parts).backward()
        return values


def _not_finite(what: str, step: int, batch: Batch, values: dict[str, Tensor | float]) -> RunFailed:
    each = ", ".join(f"{name} {float(value):.4g}" for name, value in values.items())
    rows = ", ".join(str(row) for row in batch.rows[:8])
    return RunFailed(
        f"{what} at step {step}; no step was taken with it ({each}; training rows {rows}, ...). "
        "Lower training.lr, or choose gpu.precision=fp32",
        exit_code=NON_FINITE,
    )
