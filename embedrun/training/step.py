"""One optimizer step, and the refusal of one that is not finite."""

import contextlib
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations

import numpy as np
import torch
from torch import Tensor, nn

from embedrun.backbone import pretrained
from embedrun.batch import Batch, sent
from embedrun.config import TrainingConfig
from embedrun.encoder import Encoder
from embedrun.errors import NON_FINITE, ConfigError, RunFailed, is_out_of_memory
from embedrun.files import Plain
from embedrun.gpu import Compute
from embedrun.loss.mix import Mix
from embedrun.loss.terms import reads_tokens
from embedrun.training.average import average
from embedrun.training.feed import Teachers
from embedrun.training.gradient import Gradient, Parts, rows_of, seeded
from embedrun.training.processes import Processes
from embedrun.training.shards import alike, is_shard, total_norm

_FUSED = ("cpu", "cuda")  # devices on which every torch that we support has the fused kernel


def build(modules: Iterable[nn.Module], config: TrainingConfig) -> torch.optim.AdamW:
    """AdamW over every trainable parameter.

    Weight decay applies to weights of two dimensions and more, not to biases, norms and other vectors, as in
    the training code of BERT (Devlin et al. 2019).

    The fused kernel goes over each weight once. On a CPU, too, it takes a fifth of the time of the other
    (20 instead of 95 ms for 24 million weights on one thread), and gives the same bytes in every run.
    """
    trained = [weight for module in modules for weight in module.parameters() if weight.requires_grad]
    groups = [
        group
        for kind in alike(trained)
        for group in (
            {"params": [weight for weight in kind if weight.dim() >= 2], "weight_decay": config.weight_decay},
            {"params": [weight for weight in kind if weight.dim() < 2], "weight_decay": 0.0},
        )
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

    Rises linearly to `lr` over the warm-up. Then, with :math:`t` the share of the steps after the warm-up
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


# Of the values of a step, what must be finite; in the order in which a fault comes about.
_CHECKED = ("loss", "gradient_norm", "sam/loss_nearby", "sam/gradient_norm_nearby")
_SHOWN = 8  # rows in the message

Values = dict[str, Tensor | float]  # by name; tensors are scalars on the device


class NonFinite(RunFailed):
    """The run ends before the step is taken: the weights are those of the step before (exit 4).

    `what`, in words, is not finite. `step` was not taken; `rows` are the positions in the training split of
    the rows of each of its batches. Of its `values` by name some are infinite or NaN, which JSON cannot hold.
    """

    def __init__(
        self, what: str, *, step: int, batches: Sequence[Batch], values: Mapping[str, Tensor | float]
    ) -> None:
        self.step = step
        self.rows: list[list[int]] = [batch.rows.tolist() for batch in batches]
        self.values = {name: float(value) for name, value in values.items()}
        text = ", ".join(f"{name} {value:.4g}" for name, value in self.values.items())
        rows = [str(row) for batch in self.rows for row in batch]
        more = ", ..." if len(rows) > _SHOWN else ""
        super().__init__(
            f"{what} at step {step}; no step was taken with it ({text}; training rows "
            f"{', '.join(rows[:_SHOWN])}{more}). Lower training.lr, or choose gpu.precision=fp32, in a new "
            "run (training.resume=never)",
            exit_code=NON_FINITE,
        )


class Check:
    """Looks at each step before it is taken.

    Args:
        most_skipped: steps in a row that may be skipped because a gradient overflowed, as is expected now
            and then of a gradient that is scaled up for float16; None: none may.

    """

    def __init__(self, most_skipped: int | None) -> None:
        self._most = most_skipped
        self.skipped = self.in_a_row = 0
        self.waited = 0.0  # seconds, for the device

    def usable(self, step: int, batches: Sequence[Batch], values: Values) -> bool:
        """Whether the step may be taken; the one place of a step that waits for the device.

        A loss that is not finite nearly always makes a gradient that is not. But a loss may be infinite with
        a slope that is not, and NaN in a term that reaches no weight. So both are checked at once. On
        several processes all see the same, the gradient of all and the loss of all rows. A step that may
        neither be taken nor skipped is a NonFinite.
        """
        names = [name for name in _CHECKED if name in values]
        flags = torch.stack([torch.isfinite(torch.as_tensor(values[name])) for name in names])  # (names,)
        begun = time.monotonic()
        finite = flags.tolist()
        self.waited += time.monotonic() - begun
        wrong = [name for name, is_so in zip(names, finite, strict=True) if not is_so]
        if not wrong:
            self.in_a_row = 0
            return True
        # Skipping a step lowers the scale. The loss does not depend on the scale, so that would not help.
        if self._most is None or "loss" in wrong:
            what = f"{wrong[0].replace('_', ' ')} is {float(values[wrong[0]])}"
            raise NonFinite(what, step=step, batches=batches, values=values)
        self.skipped += 1
        self.in_a_row += 1
        if self.in_a_row > self._most:
            what = f"the gradient overflowed {self.in_a_row} times in a row (gpu.most_skipped), the last time"
            raise NonFinite(what, step=step, batches=batches, values=values)
        return False


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
    to add and to subtract would round twice. `norm`, of g, is a finite scalar on the device of the weights.
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


def seed_of(*numbers: int) -> int:
    """A seed of a generator from several numbers, none below 0; 64 bits."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])


class Stepper:
    """Takes optimizer steps.

    Gradient accumulation: the batches of a step (`training.accumulate`) add their gradients, each divided by
    their number. That is the gradient of the mean loss over batches; it is not the gradient of one large
    batch, because every loss compares the rows of its own batch only.

    With `training.optimizer=sam` every step has two gradients over the same batches with the same dropout:
    at the weights, and then where the loss is highest nearby (:func:`nearby`). AdamW
    takes the second, clipped. On several processes both are the gradient of all of them.

    The encoder is on its device. Loss terms with weights of their own are trained too. `teachers` are frozen
    encoders, for the losses that learn from their vectors, and `taught` the views whose texts they encode. Of
    a mixture of data sets, `mix` has that of each part, and the values of a batch are under its part's name.
    """

    def __init__(
        self,
        encoder: Encoder,
        mix: Mix | nn.ModuleDict,
        compute: Compute,
        config: TrainingConfig,
        *,
        teachers: Teachers | None = None,
        taught: Sequence[str] = (),
        processes: Processes | None = None,
    ) -> None:
        self.encoder, self._compute, self._config = encoder, compute, config
        self._teachers, self._taught = teachers, tuple(taught)
        self._processes = processes or Processes()
        self.parts = Parts(config.micro_batch_size, seeded(config))
        self._refuse()
        self.trained = nn.ModuleDict({"encoder": encoder, "mix": mix})
        self.optimizer = build([self.trained], config)
        self.scaler = compute.scaler()
        self._weights = [weight for weight in self.trained.parameters() if weight.requires_grad]
        # Each process has the gradient of its own rows, but for losses of vectors, which see all. A head may
        # share weights with the encoder; each weight is sent once.
        heads = [term for term in mix.modules() if reads_tokens(term)]
        of_rows = dict.fromkeys(chain(*(module.parameters() for module in (encoder, *heads))))
        self._summed = [weight for weight in of_rows if not is_shard(weight)]
        self._equal = [weight for weight in mix.parameters() if weight not in of_rows]
        self._gradient = Gradient(encoder, mix, compute, self.parts, self._processes)
        self._seed = torch.initial_seed()  # of the run, on every process
        self._check = Check(compute.most_skipped if self.scaler.is_enabled() else None)
        if config.gradient_checkpointing:
            pretrained.enable(encoder.backbone.model)

    def _refuse(self) -> None:
        """What is known of a model and a device alone; the options were held against each other before."""
        reasons = problems(self._config, self._compute.precision)
        if not any(weight.requires_grad for weight in self.encoder.parameters()):
            reasons.append(
                "backbone: none of its weights can be trained; give it an adapter with "
                "'backbone.adapter={}', or name a model whose weights are not frozen"
            )
        if reasons:
            raise ConfigError(reasons)

    def rehearse(self, batch: Batch) -> None:
        """Encode the first rows of a batch as training would, and refuse what the backbone cannot do."""
        devices = [self._compute.device] if self._compute.device.type == "cuda" else []
        self.trained.train()
        # With `compile`, keep the graph: the first step could not use code compiled for a pass without one.
        graph = torch.set_grad_enabled(self._compute.compile)
        with torch.random.fork_rng(devices), graph, self._gradient.compiling():
            # Padded, so that two passes over one text are equal to the last byte where nothing is dropped.
            vectors = self._gradient.encode(batch, slice(0, 2), unpadded=False)
        drawn = [key for key in vectors if batch.views[key].dropout]
        for first, second in combinations(drawn, 2):
            same_text = torch.equal(batch.views[first].tokens.ids, batch.views[second].tokens.ids)
            if same_text and torch.equal(vectors[first], vectors[second]):
                raise ConfigError(
                    f"loss: {first} and {second} are passes of one text that should differ by their dropout, "
                    "and this backbone has none; choose a backbone with dropout, or another loss"
                )

    def take(self, step: int, steps: int, batches: Sequence[Batch], *, watch: bool = False) -> Values:
        """Take step `step` (the first is 1) of `steps`; the device is waited for once.

        There are as many batches as `training.accumulate`. With `watch`, also say what the losses compare.

        Returns:
            Values by name: `loss`, `loss/<term>` (unweighted), `lr`, `gradient_norm` (before clipping); to
            watch, `active/<term>`, `violated/<term>` and `gradient_share/<term>`. Those of a part of a
            mixture are `<part>/loss` and so on, means over its batches. In float16 also `skipped`,
            the steps of the run that were skipped because a gradient overflowed. With SAM these are all of
            the gradient at the weights, and `sam/loss_nearby` and `sam/gradient_norm_nearby` of the one that
            is taken. Tensors stay on the device; to read one is to wait.
        """
        if self._processes.size > 1 and not self.parts.seeded:
            # Each process drops its own, as a function of the step, so that a resumed run does so again.
            torch.manual_seed(seed_of(self._seed, step, self._processes.rank))
        rate = learning_rate(step, steps, self._config)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        targets = [self._targets(batch) for batch in batches]
        while (values := self._tried(batches, targets, watch)) is None:
            self.parts.halve(max(map(rows_of, batches)), processes=self._processes.size)
        values["lr"] = rate
        if self._check.usable(step, batches, values):
            norm = values.get("sam/gradient_norm_nearby", values["gradient_norm"])
            if self._config.clip is not None:
                for kind in alike(self._weights):
                    nn.utils.clip_grads_with_norm_(kind, self._config.clip, torch.as_tensor(norm))
            self.optimizer.step()
            if self._config.ema is not None:
                average(self.optimizer, step, self._config.ema)
        self.scaler.update()
        self._gradient.begin()
        return {**values, "skipped": float(self._check.skipped)} if self.scaler.is_enabled() else values

    @property
    def waited(self) -> float:
        """Seconds in which the processor has waited for the device."""
        return self._check.waited

    def state(self) -> Plain:
        """Plain data to resume from, beside weights, moments and random state: see `load_state`."""
        return {
            "precision": self._compute.precision,
            "scaler": self.scaler.state_dict(),
            "micro_batch_size": self.parts.size,
            "seeded_dropout": self.parts.seeded,
            "skipped": self._check.skipped,
            "skipped_in_a_row": self._check.in_a_row,
        }

    def load_state(self, state: Plain) -> None:
        """Resume from a run's `state`.

        A run that resumes in float16 and was in another precision before begins with a fresh loss scale.
        """
        if self.scaler.is_enabled() and state["scaler"]:
            self.scaler.load_state_dict(dict(state["scaler"]))
        self.parts.size, self.parts.seeded = state["micro_batch_size"], state["seeded_dropout"]
        self._check.skipped, self._check.in_a_row = state["skipped"], state["skipped_in_a_row"]

    def _tried(
        self, batches: Sequence[Batch], targets: Sequence[Mapping[str, Tensor]], watch: bool
    ) -> Values | None:
        """Values of the step, whose gradient the weights then have; None where memory ran out.

        Then nothing of the attempt is referenced any more: an exception keeps all of its frames while it is
        handled, and every tensor in those.
        """
        try:
            return self._gradients(batches, targets, watch)
        except (RuntimeError, MemoryError) as fault:
            if not is_out_of_memory(fault):
                raise
        self._gradient.begin()
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()  # what is left over lies in pieces too small for another size
        return None

    def _gradients(
        self, batches: Sequence[Batch], targets: Sequence[Mapping[str, Tensor]], watch: bool
    ) -> Values:
        if self._config.optimizer == "adamw":
            return self._pass(batches, targets, watch)
        devices = [self._compute.device] if self._compute.device.type == "cuda" else []
        with torch.random.fork_rng(devices):  # the second pass then draws the same dropout again
            values = self._pass(batches, targets, watch)
        with nearby(self._weights, torch.as_tensor(values["gradient_norm"]), self._config.sam_rho):
            beside = self._pass(batches, targets, False)
        return values | {f"sam/{name}_nearby": beside[name] for name in ("loss", "gradient_norm")}

    def _pass(self, batches: Sequence[Batch], targets: Sequence[Mapping[str, Tensor]], watch: bool) -> Values:
        self._gradient.begin()
        values: Values = {}
        times = Counter(batch.part for batch in batches)
        for batch, known in zip(batches, targets, strict=True):
            batch_values = self._gradient.add(
                batch, known, lambda loss: self.scaler.scale(loss / len(batches)), watch=watch
            )
            if batch.part:
                values["loss"] = values.get("loss", 0.0) + batch_values["loss"] / len(batches)
                batch_values = {f"{batch.part}/{name}": value for name, value in batch_values.items()}
            for name, value in batch_values.items():
                values[name] = values.get(name, 0.0) + value / times[batch.part]
        self._processes.add_up(self._summed, self._equal)
        self.scaler.unscale_(self.optimizer)
        gradients = [weight.grad for weight in self._weights if weight.grad is not None]
        values["gradient_norm"] = total_norm(gradients)
        return values

    def _targets(self, batch: Batch) -> dict[str, Tensor]:
        """Columns of all rows, and the teachers' vectors, on the device, ``(rows, ...)`` each."""
        device = self._compute.device
        columns = {name: sent(target, device) for name, target in batch.targets.items()}
        if self._teachers is None:
            return columns
        taught = [view for view in self._taught if f"{view}_identity" in batch.targets]
        texts = {view: batch.targets[f"{view}_identity"][batch.own] for view in taught}  # (own,) each
        vectors = {
            f"{view}_teacher": sent(self._teachers.vectors(ids), device) for view, ids in texts.items()
        }
        return columns | self._processes.gather(vectors, len(batch.rows))
