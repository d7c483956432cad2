"""One optimizer step: forward, losses, backward, clipping, update."""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import torch
from torch import Tensor, nn

from embedrun.backbone import recompute
from embedrun.batch import Batch, Tokens
from embedrun.config import TrainingConfig
from embedrun.encoder import Encoder
from embedrun.errors import NON_FINITE, ConfigError, RunFailed
from embedrun.gpu import Compute
from embedrun.loss.mix import Mix
from embedrun.training import optimizer
from embedrun.training.processes import Processes
from embedrun.training.teachers import Teachers


class Stepper:
    """Takes optimizer steps.

    A batch is what the losses compare. It may be encoded in parts (`training.micro_batch_size`): first
    without a graph, then, once the gradient of the loss at all vectors is known, part by part again
    with the same dropout (Gao et al. 2021, GradCache, arXiv:2101.06983). The gradient is
    that of the whole batch in one pass; memory is that of one part. Each text is encoded twice.

    Several batches a step (`training.accumulate`) add their gradients, each divided by their number. That is
    the gradient of the mean loss over batches; it is not the gradient of one large batch, because every loss
    compares the rows of its own batch only.

    Args:
        encoder: on its device.
        mix: the losses; terms with weights of their own are trained too.
        compute: device and precision.
        config: the training options.
        teachers: frozen encoders, for the losses that learn from their vectors.
        taught: the views whose texts the teachers encode.
        processes: who encodes which rows.
    """

    def __init__(
        self,
        encoder: Encoder,
        mix: Mix,
        compute: Compute,
        config: TrainingConfig,
        *,
        teachers: Teachers | None = None,
        taught: Sequence[str] = (),
        processes: Processes | None = None,
    ) -> None:
        self._encoder, self._mix, self._compute, self._config = encoder, mix, compute, config
        self._teachers, self._taught = teachers, tuple(taught)
        if not any(weight.requires_grad for weight in encoder.parameters()):
            raise ConfigError(
                "backbone: none of its weights can be trained; give it an adapter with "
                "'backbone.adapter={}', or name a model whose weights are not frozen"
            )
        self._processes = processes or Processes()
        self.trained = nn.ModuleDict({"encoder": encoder, "mix": mix})
        self.optimizer = optimizer.build([self.trained], config)
        self.scaler = compute.scaler()
        self._weights = [weight for weight in self.trained.parameters() if weight.requires_grad]
        # Parts of a batch must drop what the whole batch drops, wherever they are encoded.
        parts = config.micro_batch_size is not None or self._processes.size > 1
        if parts and config.seeded_dropout is False:
            raise ConfigError(
                "training.seeded_dropout: a batch in parts or on several processes needs it; leave it null"
            )
        self._seeded = parts if config.seeded_dropout is None else config.seeded_dropout
        if config.gradient_checkpointing:
            recompute.enable(encoder.backbone.model)

    def rehearse(self, batch: Batch) -> None:
        """Encode the first rows of a batch as training would, and forget the result.

        Raises:
            ConfigError: if the backbone cannot be trained this way, or has no dropout where two passes of one
                text should differ by it.
        """
        devices = [self._compute.device] if self._compute.device.type == "cuda" else []
        self.trained.train()
        with torch.random.fork_rng(devices), torch.no_grad():
            found = self._encode(batch, slice(0, 2))
        drawn = [key for key, view in batch.views.items() if view.dropout]
        for one, other in combinations(drawn, 2):
            same_text = torch.equal(batch.views[one].tokens.ids, batch.views[other].tokens.ids)
            if same_text and torch.equal(found[one], found[other]):
                raise ConfigError(
                    f"loss: {one} and {other} are passes of one text that should differ by their dropout, "
                    "and this backbone has none; choose a backbone with dropout, or another loss"
                )

    def take(
        self, step: int, steps: int, batches: Sequence[Batch], *, watch: bool = False
    ) -> dict[str, Tensor | float]:
        """Step `step` of `steps`, over these batches.

        Args:
            step: the first is 1.
            steps: of the run.
            batches: as many as `training.accumulate`.
            watch: also say what the losses compare.

        Returns:
            Values by name: `loss`, `loss/<term>` (unweighted), `lr`, `gradient_norm` (before clipping); to
            watch, `active/<term>` and `violated/<term>`. Tensors stay on the device; to read one is to wait.

        Raises:
            RunFailed: on a loss or gradient that is not finite, before the weights change (exit 4).
        """
        rate = optimizer.learning_rate(step, steps, self._config)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        values: dict[str, Tensor | float] = {}
        for batch in batches:
            for name, value in self._backward(step, batch, len(batches), watch).items():
                values[name] = values.get(name, 0.0) + value / len(batches)
        self._processes.add_up(self._encoder.parameters(), self._mix.parameters())
        self.scaler.unscale_(self.optimizer)
        norm = nn.utils.clip_grad_norm_(self._weights, self._config.clip or math.inf)
        # In float16 a gradient that overflowed is expected now and then: the scaler skips the step.
        if not self.scaler.is_enabled() and not torch.isfinite(norm):
            raise _not_finite(f"gradient norm is {float(norm)}", step, batches[-1], values)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return {**values, "lr": rate, "gradient_norm": norm}

    def _backward(self, step: int, batch: Batch, batches: int, watch: bool) -> dict[str, Tensor]:
        """Add one batch's share of the gradient."""
        parts = self._parts(batch)
        vectors = self._vectors(batch, parts)  # (own, dim) each
        rows = len(batch.rows)
        embeddings = self._processes.gather(vectors, rows)  # (rows, dim) each
        device = self._compute.device
        targets = {name: target.to(device, non_blocking=True) for name, target in batch.targets.items()}
        targets |= self._processes.gather(self._lessons(batch), rows)  # (rows, teachers, widest) each
        loss, terms = self._mix(embeddings, targets)
        values = {"loss": loss.detach(), **{f"loss/{name}": value for name, value in terms.items()}}
        if not torch.isfinite(loss):
            raise _not_finite(f"loss is {float(values['loss'])}", step, batch, values)
        self.scaler.scale(loss / batches).backward()
        if len(parts) > 1:
            self._replay(batch, parts, vectors)
        return values | self._mix.signals(embeddings, targets) if watch else values

    def _parts(self, batch: Batch) -> list[slice]:
        """Which of the own rows are encoded together."""
        rows = len(next(iter(batch.views.values())))
        size = self._config.micro_batch_size or rows
        return [slice(begin, min(begin + size, rows)) for begin in range(0, rows, size)]

    def _vectors(self, batch: Batch, parts: list[slice]) -> dict[str, Tensor]:
        """Vectors of the own rows, ``(own, dim)`` each; with the graph behind them if there is one part."""
        if len(parts) == 1:
            return self._encode(batch, parts[0])
        with torch.no_grad():
            found = [self._encode(batch, part) for part in parts]
        return {key: torch.cat([one[key] for one in found]).requires_grad_() for key in found[0]}

    def _replay(self, batch: Batch, parts: list[slice], vectors: Mapping[str, Tensor]) -> None:
        """Carry the gradient at the vectors on into the encoder, part by part."""
        reached = {key: one.grad for key, one in vectors.items() if one.grad is not None}  # (own, dim) each
        for part in parts:
            again = self._encode(batch, part)  # (part, dim) each
            torch.autograd.backward(
                [again[key] for key in reached], [grad[part] for grad in reached.values()]
            )

    def _encode(self, batch: Batch, part: slice) -> dict[str, Tensor]:
        """Vectors of some of the own rows, ``(part, dim)`` each, in one pass for each setting of dropout."""
        found: dict[str, Tensor] = {}
        for dropout in (True, False):
            views = {key: view.part(part) for key, view in batch.views.items() if view.dropout is dropout}
            if not views:
                continue
            tokens = Tokens.join([view.tokens for view in views.values()])
            seeds = torch.cat([view.seeds for view in views.values()])  # (views * part,)
            with self._compute.autocast():
                vectors = self._encoder(
                    tokens, dropout=dropout, seeds=seeds if dropout and self._seeded else None
                )  # (views * part, dim)
            each = vectors.split([len(view) for view in views.values()])
            found |= dict(zip(views, each, strict=True))
        return found

    def _lessons(self, batch: Batch) -> dict[str, Tensor]:
        """The teachers' vectors of the own rows, ``(own, teachers, widest)`` each."""
        if self._teachers is None:
            return {}
        device = self._compute.device
        return {
            f"{view}_teacher": self._teachers.vectors(batch.targets[f"{view}_identity"][batch.own]).to(device)
            for view in self._taught
        }


def _not_finite(what: str, step: int, batch: Batch, values: dict[str, Tensor | float]) -> RunFailed:
    each = ", ".join(f"{name} {float(value):.4g}" for name, value in values.items())
    rows = ", ".join(str(row) for row in batch.rows[:8])
    return RunFailed(
        f"{what} at step {step}; no step was taken with it ({each}; training rows {rows}, ...). "
        "Lower training.lr, or choose gpu.precision=fp32",
        exit_code=NON_FINITE,
    )
