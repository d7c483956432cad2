"""One optimizer step: forward, losses, backward, clipping, update."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import torch
from torch import Tensor, nn

from embedrun.backbone import recompute
from embedrun.batch import Batch
from embedrun.config import TrainingConfig
from embedrun.encoder import Encoder
from embedrun.errors import ConfigError
from embedrun.gpu import Compute
from embedrun.loss.mix import Mix
from embedrun.training import compiled, optimizer, sam
from embedrun.training.finite import Check, Values
from embedrun.training.gradient import Gradient
from embedrun.training.parts import Parts, Unrepeatable, seeded
from embedrun.training.processes import Processes
from embedrun.training.teachers import Teachers


class Stepper:
    """Takes optimizer steps.

    Several batches a step (`training.accumulate`) add their gradients, each divided by their number. That is
    the gradient of the mean loss over batches; it is not the gradient of one large batch, because every loss
    compares the rows of its own batch only.

    With `training.optimizer=sam` every step has two gradients over the same batches with the same dropout:
    at the weights, and then where the loss is highest nearby (:func:`~embedrun.training.sam.nearby`). AdamW
    takes the second, clipped. On several processes both are the gradient of all of them.

    Args:
        encoder: on its device.
        mix: the losses; terms with weights of their own are trained too.
        compute: device and precision.
        config: the training options.
        teachers: frozen encoders, for the losses that learn from their vectors.
        taught: the views whose texts the teachers encode.
        processes: who encodes which rows.

    Raises:
        ConfigError: for options that do not go together, or an encoder without a weight to train.
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
        self._encoder, self._compute, self._config = encoder, compute, config
        self._teachers, self._taught = teachers, tuple(taught)
        self._processes = processes or Processes()
        self.parts = Parts(config.micro_batch_size, seeded(config, processes=self._processes.size))
        self._refuse()
        self.trained = nn.ModuleDict({"encoder": encoder, "mix": mix})
        self.optimizer = optimizer.build([self.trained], config)
        self.scaler = compute.scaler()
        self._weights = [weight for weight in self.trained.parameters() if weight.requires_grad]
        self._gradient = Gradient(encoder, mix, compute, self.parts, self._processes)
        self._check = Check(compute.most_skipped if self.scaler.is_enabled() else None)
        if config.gradient_checkpointing:
            recompute.enable(encoder.backbone.model)

    def _refuse(self) -> None:
        config, processes = self._config, self._processes.size
        found = sam.problems(config, self._compute.precision)
        if self._compute.compile:
            found += compiled.problems(config, None, processes=processes)
        if not any(weight.requires_grad for weight in self._encoder.parameters()):
            found.append(
                "backbone: none of its weights can be trained; give it an adapter with "
                "'backbone.adapter={}', or name a model whose weights are not frozen"
            )
        if (config.micro_batch_size is not None or processes > 1) and not self.parts.seeded:
            found.append(
                "training.seeded_dropout: a batch in parts or on several processes needs it; leave it null"
            )
        if found:
            raise ConfigError(found)

    def rehearse(self, batch: Batch) -> None:
        """Encode the first rows of a batch as training would, and forget the result.

        Raises:
            ConfigError: if the backbone cannot be trained or compiled this way, or has no dropout where two
                passes of one text should differ by it.
        """
        devices = [self._compute.device] if self._compute.device.type == "cuda" else []
        self.trained.train()
        # What is compiled for a pass without a graph would not do for the first step.
        graph = torch.set_grad_enabled(self._compute.compile)
        with torch.random.fork_rng(devices), graph, self._gradient.compiling():
            found = self._gradient.encode(batch, slice(0, 2))
        drawn = [key for key, view in batch.views.items() if view.dropout]
        for one, other in combinations(drawn, 2):
            same_text = torch.equal(batch.views[one].tokens.ids, batch.views[other].tokens.ids)
            if same_text and torch.equal(found[one], found[other]):
                raise ConfigError(
                    f"loss: {one} and {other} are passes of one text that should differ by their dropout, "
                    "and this backbone has none; choose a backbone with dropout, or another loss"
                )

    def take(self, step: int, steps: int, batches: Sequence[Batch], *, watch: bool = False) -> Values:
        """Step `step` of `steps`, over these batches; the device is waited for once.

        Args:
            step: the first is 1.
            steps: of the run.
            batches: as many as `training.accumulate`.
            watch: also say what the losses compare.

        Returns:
            Values by name: `loss`, `loss/<term>` (unweighted), `lr`, `gradient_norm` (before clipping); to
            watch, `active/<term>` and `violated/<term>`. In float16 also `skipped`, the steps of the run that
            were not taken because a gradient overflowed. With SAM these are all of the gradient at the
            weights, and `sam/loss_nearby` and `sam/gradient_norm_nearby` of the one that is taken. Tensors
            stay on the device; to read one is to wait.

        Raises:
            NonFinite: on a loss or gradient that is not finite, or too many skipped steps in a row, before
                the weights change (exit 4).
            RunFailed: if memory does not do, however few rows are encoded at a time (exit 6).
        """
        rate = optimizer.learning_rate(step, steps, self._config)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        targets = [self._targets(batch) for batch in batches]
        try:
            values = self._gradients(batches, targets, watch)
        except Unrepeatable:
            values = self._gradients(batches, targets, watch)
        values["lr"] = rate
        if self._check.usable(step, batches, values):
            norm = values.get("sam/gradient_norm_nearby", values["gradient_norm"])
            if self._config.clip is not None:
                nn.utils.clip_grads_with_norm_(self._weights, self._config.clip, torch.as_tensor(norm))
            self.optimizer.step()
        self.scaler.update()
        self._gradient.begin()
        return {**values, "skipped": float(self._check.skipped)} if self.scaler.is_enabled() else values

    def state(self) -> dict[str, Any]:
        """Plain data to go on with, beside weights, moments and random state: see `load_state`."""
        return {
            "precision": self._compute.precision,
            "scaler": self.scaler.state_dict(),
            "micro_batch_size": self.parts.size,
            "seeded_dropout": self.parts.seeded,
            "skipped": self._check.skipped,
            "skipped_in_a_row": self._check.in_a_row,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on as the run whose `state` this is would have.

        A run that goes on in float16 and was in another precision before begins with a fresh scale.
        """
        if self.scaler.is_enabled() and state["scaler"]:
            self.scaler.load_state_dict(dict(state["scaler"]))
        self.parts.size, self.parts.seeded = state["micro_batch_size"], state["seeded_dropout"]
        self._check.skipped, self._check.in_a_row = state["skipped"], state["skipped_in_a_row"]

    def _gradients(
        self, batches: Sequence[Batch], targets: Sequence[Mapping[str, Tensor]], watch: bool
    ) -> Values:
        """Values of the step; the gradient that is to be taken is that of the weights."""
        if self._config.optimizer == "adamw":
            return self._pass(batches, targets, watch)
        device = self._compute.device
        state = sam.random_state(device)
        values = self._pass(batches, targets, watch)
        with sam.nearby(self._weights, torch.as_tensor(values["gradient_norm"]), self._config.sam_rho):
            sam.put_back(state, device)
            beside = self._pass(batches, targets, False)
        nearby = {f"sam/{name}_nearby": beside[name] for name in ("loss", "gradient_norm")}
        return {**values, **nearby}

    def _pass(self, batches: Sequence[Batch], targets: Sequence[Mapping[str, Tensor]], watch: bool) -> Values:
        """One gradient of all batches on all processes, in place of any before it."""
        self._gradient.begin()
        values: Values = {}
        for batch, known in zip(batches, targets, strict=True):
            found = self._gradient.add(
                batch, known, lambda loss: self.scaler.scale(loss / len(batches)), watch=watch
            )
            for name, value in found.items():
                values[name] = values.get(name, 0.0) + value / len(batches)
        self._processes.add_up(self._encoder.parameters(), self.trained["mix"].parameters())
        self.scaler.unscale_(self.optimizer)
        gradients = [weight.grad for weight in self._weights if weight.grad is not None]
        values["gradient_norm"] = nn.utils.get_total_norm(gradients)
        return values

    def _targets(self, batch: Batch) -> dict[str, Tensor]:
        """Columns of all rows, and the teachers' vectors, on the device, ``(rows, ...)`` each."""
        device = self._compute.device
        columns = {name: target.to(device, non_blocking=True) for name, target in batch.targets.items()}
        return columns | self._processes.gather(self._lessons(batch), len(batch.rows))

    def _lessons(self, batch: Batch) -> dict[str, Tensor]:
        """The teachers' vectors of the own rows, ``(own, teachers, widest)`` each."""
        if self._teachers is None:
            return {}
        device = self._compute.device
        return {
            f"{view}_teacher": self._teachers.vectors(batch.targets[f"{view}_identity"][batch.own]).to(device)
            for view in self._taught
        }
