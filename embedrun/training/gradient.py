"""The gradient of a batch, whole or in parts that fit into memory, compiled where asked for."""

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from embedrun.backbone.unpadded import usable
from embedrun.batch import VISIBLE, Batch, Tokens, View, sent
from embedrun.config import AdapterConfig, TrainingConfig
from embedrun.console import say
from embedrun.encoder import Encoder
from embedrun.errors import OUT_OF_MEMORY, ConfigError, RunFailed, is_out_of_memory
from embedrun.gpu import Compute
from embedrun.loss.mix import Mix, mix_of
from embedrun.training.processes import Processes

_log = logging.getLogger("embedrun")


def compiled(model: nn.Module) -> Callable[..., object]:
    """The forward pass of a model, compiled at its first call, for texts of any number and length.

    The gradient is that of the model itself but for rounding. Dropout still follows torch's random state and
    can be repeated with it, but drops other elements than an uncompiled model. The model is not changed, and
    its weights keep their names. A pass that fails, but for lack of memory, is a ConfigError.
    """
    forward = torch.compile(model.forward, dynamic=True)

    def explained(*arguments: object, **options: object) -> object:
        try:
            return forward(*arguments, **options)
        except RuntimeError as fault:
            if is_out_of_memory(fault):
                raise
            first = str(fault).strip().partition("\n")[0]
            raise ConfigError(
                f"gpu.compile: the compiled model fails here ({first}); leave it false"
            ) from fault

    return explained


def problems(training: TrainingConfig, adapter: AdapterConfig | None) -> list[str]:
    """Why the backbone cannot be compiled."""
    reasons = []
    if seeded(training):
        reasons.append(
            "gpu.compile: dropout by a seed of each text, which training.micro_batch_size and "
            "training.seeded_dropout ask for, cannot be compiled; leave it false"
        )
    if training.gradient_checkpointing:
        reasons.append("gpu.compile: does not go with training.gradient_checkpointing; leave it false")
    if adapter is not None and adapter.quantize is not None:
        reasons.append("gpu.compile: weights in 4 bits cannot be compiled; leave it false")
    return reasons


@dataclass
class Parts:
    """How many rows of a batch are encoded at a time (None: all), halved where memory runs out.

    Where `seeded`, dropout follows the seed of each text, so that a part drops what the batch would.
    """

    size: int | None
    seeded: bool

    def of(self, rows: int) -> list[slice]:
        """The parts of a batch of so many rows."""
        size = self.size or rows
        return [slice(begin, min(begin + size, rows)) for begin in range(0, rows, size)]

    def halve(self, rows: int, *, processes: int) -> None:
        """Halve the size, which was too much for a batch of so many rows; one line says so.

        Dropout follows seeds for the rest of the run, since that of torch cannot be drawn again. Refused
        (exit 6) for one row, and where other processes already wait for this one.
        """
        size = min(self.size or rows, rows)
        if size == 1:
            raise RunFailed(
                "out of memory with one row encoded at a time. Set training.gradient_checkpointing=true, "
                "gpu.precision=bf16 where the device has it, or lower backbone.max_length; an adapter "
                "('backbone.adapter={}') needs no optimizer state for the frozen weights. Losses compare all "
                "rows of a batch: lower training.batch_size where they need the room",
                exit_code=OUT_OF_MEMORY,
            )
        if processes > 1:
            raise RunFailed(
                f"out of memory with {size} rows encoded at a time; set "
                f"training.micro_batch_size={size // 2} in a new run, for the same gradient",
                exit_code=OUT_OF_MEMORY,
            )
        self.size = size // 2
        warning = (
            f"out of memory: from here on {self.size} rows are encoded at a time, twice each, for the same "
            f"gradient; with training.micro_batch_size={self.size} the next run does so from the start"
        )
        if not self.seeded:
            warning += ". Each text has its own dropout seed from here on (training.seeded_dropout)"
        self.seeded = True
        _log.warning("%s", warning)
        say(f"warning: {warning}")


def seeded(training: TrainingConfig) -> bool:
    """Whether dropout follows seeds: a part of a batch that is encoded twice must drop the same twice."""
    if training.seeded_dropout is None:
        return training.micro_batch_size is not None
    return training.seeded_dropout


def halved(module: nn.Module, dtype: torch.dtype | None) -> dict[str, Tensor]:
    """The trained weights of linear layers in 16 bits, by name, all cast at once.

    Autocast casts each by itself and its gradient back, two kernels a weight and step; a processor needs
    longer to start a kernel than the device for a cast. The numbers are the same.
    """
    weights = {
        f"{name}.{kind}": weight
        for name, layer in module.named_modules()
        if isinstance(layer, nn.Linear)
        for kind, weight in layer.named_parameters(recurse=False)
        if weight.requires_grad and weight.dtype == torch.float32
    }
    if not weights:
        return {}
    flat = torch.cat([weight.flatten() for weight in weights.values()]).to(dtype)  # (numbers,)
    parts = flat.split([weight.numel() for weight in weights.values()])
    return {name: part.view_as(weights[name]) for name, part in zip(weights, parts, strict=True)}


Vectors = dict[str, Tensor]  # by the key of the pass, (rows, dim) each


class Gradient:
    """Adds the gradients of the batches of a step to the weights.

    A batch is what the losses compare. Its gradient is found in three steps: the vectors of its texts, the
    gradient of the loss at these vectors, and its backpropagation into the weights. So the losses, between
    two passes through the backbone, are in float32 whatever the precision of those.

    A batch may be encoded in parts: first without a graph, then, once the gradient at the vectors is known,
    part by part again with the same dropout (Gao et al. 2021, GradCache, arXiv:2101.06983). The gradient is
    that of the whole batch in one pass; memory is that of one part. Each text is encoded twice.
    """

    def __init__(
        self,
        encoder: Encoder,
        mix: Mix | nn.ModuleDict,
        compute: Compute,
        parts: Parts,
        processes: Processes,
    ) -> None:
        self._encoder, self._mix, self._compute = encoder, mix, compute
        self._parts, self._processes = parts, processes
        self._compiled = compiled(encoder.backbone.model) if compute.compile else None

    def begin(self) -> None:
        """Forget the gradient of the step before."""
        self._encoder.zero_grad(set_to_none=True)
        self._mix.zero_grad(set_to_none=True)

    def add(
        self, batch: Batch, targets: Mapping[str, Tensor], scaled: Callable[[Tensor], Tensor], *, watch: bool
    ) -> dict[str, Tensor]:
        """Add the gradient of one batch, and return values as `Stepper.take`, without those of the step.

        Args:
            targets: by name, ``(rows, ...)`` each, on the device.
            scaled: the loss to what is differentiated.
        """
        mix = mix_of(self._mix, batch.part)
        guessed = self._guess(mix, batch, scaled)
        if all(view.hidden for view in batch.views.values()):
            return guessed
        parts = self._parts.of(rows_of(batch))
        whole = len(parts) == 1
        with self.compiling(), torch.set_grad_enabled(whole):
            encoded = [self.encode(batch, part) for part in parts]
        local = {key: torch.cat([part[key].detach() for part in encoded]) for key in encoded[0]}  # (own, dim)
        everyone = self._processes.gather(local, len(batch.rows))  # (rows, dim) each
        # This frees the graph of the losses before the backward pass through the backbone.
        values, gradients = self._at_vectors(mix, everyone, targets, scaled, watch=watch)
        reached = {key: gradient[batch.own] for key, gradient in gradients.items()}  # (own, dim) each
        for part in parts:
            with self.compiling():
                again = encoded[0] if whole else self.encode(batch, part)  # (part, dim) each
                with self._compute.products():
                    torch.autograd.backward(
                        [again[key] for key in reached], [gradient[part] for gradient in reached.values()]
                    )
        return guessed | values | {"loss": values["loss"] + guessed["loss"] if guessed else values["loss"]}

    def _guess(self, mix: Mix, batch: Batch, scaled: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
        """Add the gradient of the terms that read tokens; their values, and `loss`, the weighted sum.

        Each process adds that of its own rows, of which each part of a batch is encoded once.
        """
        values: dict[str, Tensor] = {}
        hidden = [view for view in batch.views.values() if view.hidden is not None]
        for key in mix.on_tokens if hidden else ():
            of_term = [view for view in hidden if view.hidden and view.hidden.share == mix.terms[key].masked]
            value = torch.zeros((), device=self._compute.device)
            for part in self._parts.of(rows_of(batch)):
                loss = self._of_tokens(mix.terms[key], [view.part(part) for view in of_term])
                with self._compute.products():
                    scaled(mix.weights[key] * loss).backward()
                value = value + loss.detach()
            values[f"loss/{key}"] = value = self._processes.sum(value)
            values["loss"] = values.get("loss", 0.0) + mix.weights[key] * value
        return values

    def _of_tokens(self, term: nn.Module, views: Sequence[View]) -> Tensor:
        """What some texts add to the loss of a term, which is a mean over the tokens of all."""
        tokens = Tokens.join([view.tokens for view in views])
        pieces = torch.cat([view.hidden.pieces.ids for view in views if view.hidden])  # (tokens,)
        chosen = sum(view.hidden.chosen for view in views if view.hidden)
        seeds = torch.cat([view.seeds for view in views]) if self._parts.seeded else None  # (texts,)
        there = pieces != VISIBLE  # (tokens,)
        backbone = self._encoder.backbone
        with self.compiling(), self._compute.autocast():
            states = backbone.token_states(tokens, there, seeds=seeds)  # (places, dim)
            loss = term(states, sent(pieces[there], backbone.device))
        return loss * (len(states) / max(chosen, 1))

    def _at_vectors(
        self,
        mix: Mix,
        vectors: Vectors,
        targets: Mapping[str, Tensor],
        scaled: Callable[[Tensor], Tensor],
        *,
        watch: bool,
    ) -> tuple[dict[str, Tensor], Vectors]:
        """The values of a batch, and the gradient of its loss at the vectors of all rows that it reaches.

        The gradient at the losses' own weights is added to them.
        """
        leaves = {key: value.detach().requires_grad_() for key, value in vectors.items()}
        weights = [weight for weight in mix.parameters() if weight.requires_grad]
        loss, terms = mix(leaves, targets)
        inputs = [*leaves.values(), *weights]
        gradients = torch.autograd.grad(scaled(loss), inputs, allow_unused=True, retain_graph=watch)
        values = {"loss": loss.detach(), **{f"loss/{name}": value.detach() for name, value in terms.items()}}
        if watch:
            values |= mix.signals(leaves, targets) | mix.gradient_shares(leaves, terms)
        for weight, gradient in zip(weights, gradients[len(leaves) :], strict=True):
            if gradient is not None:
                weight.grad = gradient if weight.grad is None else weight.grad + gradient
        at_leaves = zip(leaves, gradients[: len(leaves)], strict=True)
        return values, {key: gradient for key, gradient in at_leaves if gradient is not None}

    def encode(self, batch: Batch, part: slice, *, unpadded: bool = True) -> Vectors:
        """Vectors of some of the own rows, ``(part, dim)`` each, in one pass for each setting of dropout.

        With `unpadded`, passes on a processor may do without padding.
        """
        encoded: Vectors = {}
        for dropout in (True, False):
            views = {
                key: view.part(part)
                for key, view in batch.views.items()
                if view.dropout is dropout and view.hidden is None
            }
            if not views:
                continue
            tokens = Tokens.join([view.tokens for view in views.values()])
            seeds = torch.cat([view.seeds for view in views.values()])  # (views * part,)
            drawn = seeds if dropout and self._parts.seeded else None
            options = {"dropout": dropout, "seeds": drawn, "unpadded": unpadded}
            with self._compute.autocast():
                weights = halved(self._encoder, self._compute.half) if self._casts_at_once() else {}
                vectors = functional_call(self._encoder, weights, (tokens,), options)  # (views * part, dim)
            by_view = vectors.split([len(view) for view in views.values()])
            encoded |= dict(zip(views, by_view, strict=True))
        return encoded

    def _casts_at_once(self) -> bool:
        """Whether weights are cast together: in an unpadded pass, since several would add up in 16 bits."""
        if self._compute.device.type != "cuda" or self._parts.seeded:
            return False
        backbone, pooling = self._encoder.backbone, self._encoder.pooling
        is_one = backbone.attention == "sdpa" and pooling.padded_to is None and not pooling.all_layers
        return is_one and not backbone.one_pass and usable(backbone.model)

    @contextlib.contextmanager
    def compiling(self) -> Iterator[None]:
        """Inside, the backbone's compiled forward pass is used, where that is asked for."""
        # Once dropout follows seeds, as it does after memory ran out, it cannot be compiled any more.
        if self._compiled is None or self._parts.seeded:
            yield
            return
        model = self._encoder.backbone.model
        model.forward = self._compiled  # of this model alone, before that of its class
        try:
            yield
        finally:
            del model.forward


def rows_of(batch: Batch) -> int:
    """How many rows of a batch this process encodes."""
    return len(next(iter(batch.views.values())))
