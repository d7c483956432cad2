"""What trains: encoder, losses, rows as tokens, and their order, from a plan."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np

from embedrun.backbone.adapter import count
from embedrun.backbone.tokens import tokenize
from embedrun.config import BackboneConfig, PoolingConfig, TrainConfig, TrainingConfig
from embedrun.dataset import views_of
from embedrun.encoder import Encoder
from embedrun.errors import ConfigError
from embedrun.experiment.plan import TrainPlan
from embedrun.gpu import Compute
from embedrun.loss.mix import Mix
from embedrun.loss.terms import Pass
from embedrun.prompt import in_training, in_use
from embedrun.rows import Rows, numbered_negatives
from embedrun.training.feed import Feed, Teachers, order_of
from embedrun.training.order import Draw, Order
from embedrun.training.processes import Processes
from embedrun.training.step import Stepper


@dataclass(frozen=True)
class Built:
    """What trains: an untrained encoder, and the rows as tokens; `order` has the rows of each step."""

    encoder: Encoder
    stepper: Stepper
    feed: Feed
    order: Order


def build(plan: TrainPlan, rows: Rows, compute: Compute, processes: Processes) -> Built:
    """Everything that training needs, made in one order, so that a seed determines the run."""
    config, losses = plan.config, plan.losses
    encoder = Encoder.build(
        config.backbone, config.pooling, seed=config.seed, vocabulary_texts=rows.sentences
    ).to(compute.device)
    prompts = in_training(encoder.prompt, config.dataset.get("prompts") or {}, views_of(plan.dataset))
    encoder.score_at(config.evaluation.max_length, trained=config.backbone.max_length)
    encoder.use(in_use(encoder.prompt, config.evaluation.prompt, config.evaluation.text_edit))
    _check_views(losses.passes.values(), encoder.backbone.max_length)
    feed = Feed(
        rows,
        partial(tokenize, encoder.backbone),
        losses.passes,
        losses.targets,
        seed=config.seed,
        processes=processes,
        mask=_mask(rows, encoder),
        prompts=prompts,
        anew=encoder.backbone.tokenize,
    )
    teachers = _teachers(config, feed, compute)
    mix = Mix(
        config.loss.terms,
        dim=encoder.dim,
        teacher_dims=teachers.dims,
        negatives=len(numbered_negatives(rows.texts)),
    ).to(compute.device)
    stepper = Stepper(
        encoder, mix, compute, config.training, teachers=teachers, taught=losses.taught, processes=processes
    )
    # What a backbone cannot do should show before anything is scored.
    stepper.rehearse(feed.batch(Draw(0, 0, np.arange(min(max(2, processes.size), len(rows))))))
    order = order_of(feed, rows, config.training, config.seed, processes=processes.size)
    return Built(encoder, stepper, feed, order)


def announcement(
    built: Built, rows: Rows, training: TrainingConfig, compute: Compute, processes: Processes
) -> list[str]:
    """What is about to be trained, and warnings of what a person may not expect: a line each."""
    encoder, order = built.encoder, built.order
    weights = sum(weight.numel() for weight in encoder.parameters() if weight.requires_grad)
    steps = order.steps(training.epochs, training.max_steps)
    most = "at most " if training.batch_tokens is not None else ""
    lines = [
        f"{len(rows):,} rows of {rows.name}, {steps:,} steps of {most}{training.batch_size} rows"
        + (f" x {training.accumulate}" if training.accumulate > 1 else "")
        + f", {weights:,} of {count(encoder):,} parameters trainable"
        + f", {compute.device.type} {compute.precision}, pooling {encoder.pooling.name}"
    ]
    if processes.size > 1:
        size = training.batch_size
        lines.append(
            f"{size:,} rows over {processes.size} processes, each anchor is compared with {size - 1:,} others"
        )
    if training.distinct_texts or training.batch_tokens is not None:
        lines.append(f"{order.left_out(0):,} of {len(rows):,} rows fill no batch in the first epoch")
    if training.accumulate > 1:
        lines.append(
            f"warning: training.accumulate={training.accumulate}: the losses compare the "
            f"{training.batch_size} rows of a batch only, not all "
            f"{training.batch_size * training.accumulate} of a step"
        )
    if rows.masked is not None:
        usable = int(rows.targets["maskable"].sum())
        share = 100 * usable / len(rows)
        lines.append(f"{usable:,} of {len(rows):,} sentences ({share:.1f} %) are long enough to be masked")
    return lines


def _check_views(passes: Iterable[Pass], longest: int) -> None:
    most = max((way.max_length or 0 for way in passes), default=0)
    if most > longest:
        raise ConfigError(
            f"a loss asks for a view of {most} tokens, and training reads {longest}; lower max_length of the "
            "view, or raise backbone.max_length where the model allows it"
        )


def _mask(rows: Rows, encoder: Encoder) -> str:
    if rows.masked is None or rows.masked.kind == "delete":
        return ""
    token = encoder.backbone.tokenizer.mask_token
    if token is None:
        raise ConfigError(
            "dataset.masking.kind: this backbone's tokenizer has no mask token; choose kind: delete"
        )
    return token


def _teachers(config: TrainConfig, feed: Feed, compute: Compute) -> Teachers:
    training = config.training
    encoders = [
        Encoder.build(
            BackboneConfig(name=teacher.name, revision=teacher.revision, max_length=teacher.max_length),
            PoolingConfig(name=teacher.pooling, first_layer=teacher.first_layer),
            seed=config.seed,
        ).to(compute.device)
        for teacher in training.teachers or ()
    ]
    return Teachers(encoders, feed.texts, in_memory=training.teacher_vectors == "memory")
