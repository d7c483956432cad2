"""What options have to do with each other, and with the machine."""

import json

from embedrun.commands import dev
from embedrun.config import Checker, GpuConfig, PoolingConfig, TrainConfig, nearest

_OF_TRAINING = (
    "processes",
    "nodes",
    "rendezvous",
    "compile",
)  # in the gpu group; `precision` is another matter


def cross_check(checker: Checker, config: TrainConfig) -> None:
    """Note what does not go together in a training configuration."""
    from embedrun.backbone import machine

    check_pooling(checker, config.pooling)
    for place, teacher in enumerate(config.training.teachers or ()):
        own = PoolingConfig(name=teacher.pooling, first_layer=teacher.first_layer)
        check_pooling(
            checker,
            own,
            f"training.teachers[{place}].pooling",
            f"training.teachers[{place}].first_layer",
            teacher=True,
        )
    _check_training(checker, config)
    check_gpu(checker, config.gpu)
    backbone, scratch = config.backbone, config.backbone.scratch
    checker.problems += machine.contradictions(
        backbone, device=config.gpu.device, precision=config.gpu.precision
    )
    if (backbone.name is None) == (scratch is None):
        checker.problems.append(
            "backbone: give either a name (hub id, folder or run directory) or, for a model from nothing, "
            "scratch with name: null; backbone=tiny is such a one"
        )
    if scratch is not None:
        from embedrun.backbone.scratch import problems as shape_problems

        checker.problems += shape_problems(scratch)
    if scratch is not None and backbone.max_length is not None and backbone.max_length > scratch.positions:
        checker.problems.append(
            f"backbone.max_length: must be at most backbone.scratch.positions ({scratch.positions}), "
            f"got {backbone.max_length}"
        )


def _check_training(checker: Checker, config: TrainConfig) -> None:
    from embedrun import tracking
    from embedrun.commands import workers
    from embedrun.training import compiled, sam

    training = config.training
    if training.micro_batch_size is not None and training.seeded_dropout is False:
        checker.problems.append(
            "training.seeded_dropout: a batch encoded in parts needs it; leave it null, or micro_batch_size"
        )
    if training.select_by is not None and not dev.is_dev(training.select_by):
        checker.problems.append(
            f"training.select_by: {training.select_by!r} is the key of no dev score, and a test set never "
            "selects a checkpoint; null is Spearman on the dev split, and training.dev_tasks gives more"
        )
    if training.patience is not None and training.evaluate_every is training.evaluations_per_epoch is None:
        checker.problems.append(
            "training.patience: there is one dev score, at the end; give training.evaluate_every too"
        )
    checker.problems += workers.problems(config.gpu, training)
    checker.problems += sam.problems(training, config.gpu.precision)
    if config.gpu.compile:
        processes = config.gpu.processes * config.gpu.nodes
        checker.problems += compiled.problems(training, config.backbone.adapter, processes=processes)
    checker.problems += tracking.problems(config.tracking)


def check_pooling(
    checker: Checker,
    pooling: PoolingConfig,
    name: str = "pooling.name",
    first_layer: str = "pooling.first_layer",
    *,
    teacher: bool = False,
) -> None:
    """Note what is wrong with a pooling, under the names of its options."""
    from embedrun.pooling import HEAD, LEGACY, POOLINGS, problems

    # A teacher has neither the options of these nor a head to train.
    known = ("auto", *(one for one in POOLINGS if not (teacher and one in (HEAD, *LEGACY))))
    if pooling.name not in known:
        hint = nearest(pooling.name, known)
        checker.problems.append(f"{name}: no pooling {pooling.name!r}{hint} (there are: {', '.join(known)})")
    if (pooling.name == "first_last_mean") != (pooling.first_layer is not None):
        checker.problems.append(
            f"{first_layer}: 0 (the embedding layer) or 1 (the first transformer layer) goes with "
            f"pooling=first_last_mean and with no other, got {pooling.first_layer} with {pooling.name}"
        )
    if not teacher:
        others = ("pooling.padded_to:", "pooling.keep_head:")
        checker.problems += [text for text in problems(pooling) if text.startswith(others)]


def check_gpu(checker: Checker, config: GpuConfig) -> None:
    """Note what this machine cannot do."""
    from embedrun.gpu import problems

    checker.problems += problems(config)


def refuse_training_gpu(checker: Checker, config: GpuConfig) -> None:
    """Note what of the gpu group only training heeds, where nothing is trained."""
    usual = GpuConfig()
    for name in _OF_TRAINING:
        given, default = getattr(config, name), getattr(usual, name)
        if given != default:
            checker.problems.append(
                f"gpu.{name}: is of training, got {json.dumps(given)}; leave it {json.dumps(default)}"
            )
