"""From a composed configuration to checked parts, with every fault reported together and nothing loaded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from embedrun.blocks import Shard
from embedrun.commands.contamination import plan_seen
from embedrun.commands.cross_checks import check_gpu, check_pooling, cross_check, refuse_training_gpu
from embedrun.commands.dev import OWN
from embedrun.commands.losses import Losses, plan_losses
from embedrun.commands.tasks import graded, plan_dev_tasks, plan_tasks
from embedrun.config import (
    REQUIRED,
    AnnotateConfig,
    AnnotatorConfig,
    Checker,
    EvaluateConfig,
    TrainConfig,
    nearest,
)
from embedrun.dataset.annotation import prompt_problem
from embedrun.errors import ConfigError
from embedrun.family import build, family_name, without
from embedrun.prompt import check_prompts
from embedrun.runs.directory import check_name


@dataclass(frozen=True)
class TrainPlan:
    """What one training run is made of.

    Args:
        config: the checked options.
        dataset: the data set to train on.
        dev: the data set whose `dev` split selects the checkpoint: its own, else STS-B.
        tasks: evaluation tasks by name.
        losses: what the loss terms read.
        seen: the data set of `evaluation.contamination`, or None.
        dev_tasks: what is scored on dev splits beside, by name.
    """

    config: TrainConfig
    dataset: Any
    dev: Any
    tasks: dict[str, Any]
    losses: Losses
    seen: Any
    dev_tasks: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EvaluatePlan:
    """What one evaluation is made of.

    Args:
        config: the checked options.
        dataset: the data set of `evaluation=heldout`, or None.
        tasks: evaluation tasks by name.
        seen: the data set of `evaluation.contamination`, or None.
    """

    config: EvaluateConfig
    dataset: Any
    tasks: dict[str, Any]
    seen: Any


@dataclass(frozen=True)
class AnnotatePlan:
    """What one annotation is made of.

    Args:
        config: the checked options.
        dataset: the labelled pairs.
        shard: which of their blocks.
    """

    config: AnnotateConfig
    dataset: Any
    shard: Shard


def plan_train(plain: Mapping[str, Any]) -> TrainPlan:
    """Check a composed training configuration.

    Raises:
        ConfigError: with every fault.
    """
    checker = Checker()
    config = checker.build(TrainConfig, plain)
    dataset = _dataset(checker, plain.get("dataset"))
    losses = plan_losses(checker, plain, dataset)
    tasks = plan_tasks(checker, _of(plain, "evaluation", "tasks"), dataset)
    if OWN in tasks:
        checker.problems.append(
            f"evaluation.tasks.{OWN}: the score that selects the checkpoint has this name; choose another"
        )
    dev_tasks = plan_dev_tasks(checker, _of(plain, "training", "dev_tasks"), dataset)
    seen = plan_seen(checker, plain.get("evaluation"))
    check_prompts(checker, plain, dataset)
    _name(checker, plain.get("name"))
    if config is not None:
        cross_check(checker, config)
    if checker.problems or config is None or dataset is None:
        raise ConfigError(list(dict.fromkeys(checker.problems)))
    from embedrun.dataset.stsb import Stsb

    own = graded(dataset, "dev")
    return TrainPlan(config, dataset, dataset if own else Stsb(), tasks, losses, seen, dev_tasks)


def plan_evaluate(plain: Mapping[str, Any]) -> EvaluatePlan:
    """Check a composed evaluation configuration.

    Raises:
        ConfigError: with every fault.
    """
    checker = Checker()
    config = checker.build(EvaluateConfig, plain)
    dataset = _dataset(checker, plain["dataset"]) if plain.get("dataset") is not None else None
    tasks = plan_tasks(checker, _of(plain, "evaluation", "tasks"), dataset)
    seen = plan_seen(checker, plain.get("evaluation"))
    check_prompts(checker, plain, dataset)
    if not tasks and not checker.problems:
        checker.problems.append("evaluation.tasks: nothing to score; choose evaluation=sts")
    _name(checker, plain.get("name"))
    if config is not None:
        check_pooling(checker, config.pooling)
        if config.pooling.name == "cls_mlp":
            checker.problems.append(
                "pooling.name: cls_mlp is for training; choose pooling=auto, which uses the head of a model "
                "that has kept it, or pooling=cls"
            )
        check_gpu(checker, config.gpu)
        refuse_training_gpu(checker, config.gpu)
        if config.gpu.precision not in ("auto", "fp32"):
            checker.problems.append(
                "gpu.precision: is of training; an evaluation has evaluation.precision=fp32 or bf16, got "
                f"{config.gpu.precision}"
            )
    if checker.problems or config is None:
        raise ConfigError(list(dict.fromkeys(checker.problems)))
    return EvaluatePlan(config, dataset, tasks, seen)


def plan_annotate(plain: Mapping[str, Any]) -> AnnotatePlan:
    """Check a composed annotation configuration.

    Raises:
        ConfigError: with every fault.
    """
    checker = Checker()
    config = checker.build(AnnotateConfig, plain)
    dataset = _dataset(checker, plain.get("dataset"))
    if dataset is not None and not (dataset.form == "pair" and "label" in dataset.targets):
        checker.problems.append(
            f"dataset={family_name(dataset)}: gives no pairs with a label, which annotate scores; choose "
            "dataset=nli_three_way, or dataset=pairs with 'dataset.columns={text1: A, text2: B, label: C}'"
        )
    shard = Shard(0, 1)
    if config is not None:
        check_gpu(checker, config.gpu)
        refuse_training_gpu(checker, config.gpu)
        if config.gpu.precision not in ("auto", "fp32"):
            checker.problems.append(
                f"gpu.precision: teachers compute in float32, got {config.gpu.precision}; leave it at auto"
            )
        _annotators(checker, config.teachers)
        try:
            shard = Shard.parse(config.shard)
        except ValueError as fault:
            checker.problems.append(f"shard: {fault}")
    if checker.problems or config is None or dataset is None:
        raise ConfigError(list(dict.fromkeys(checker.problems)))
    return AnnotatePlan(config, dataset, shard)


def _annotators(checker: Checker, teachers: Sequence[AnnotatorConfig]) -> None:
    from embedrun.pooling import FIRST_LAST, HEAD, LEGACY, POOLINGS

    # A teacher has no option that says which layer is the first or how far to pad, and trains no head.
    known = ("auto", *(name for name in POOLINGS if name not in (FIRST_LAST, HEAD, *LEGACY)))
    if not teachers:
        checker.problems.append("teachers: none given; pass 'teachers=[{name: HUB_ID_OR_FOLDER}]'")
    for index, teacher in enumerate(teachers):
        if teacher.pooling not in known:
            hint = nearest(teacher.pooling, known)
            checker.problems.append(
                f"teachers[{index}].pooling: no pooling {teacher.pooling!r}{hint} "
                f"(there are: {', '.join(known)})"
            )
        if problem := prompt_problem(teacher.prompt):
            checker.problems.append(f"teachers[{index}].prompt: {problem}")


def _dataset(checker: Checker, options: Any) -> Any:
    if not isinstance(options, Mapping):
        return None  # the schema has said so
    if "name" not in options:
        checker.problems.append("dataset.name: no value given; choose dataset=...")
        return None
    # Prompts are of every data set; no class knows of them.
    own = without(options, "name", "prompts")
    return build(checker, "dataset", options["name"], own, "dataset")


def _of(plain: Mapping[str, Any], group: str, option: str) -> Any:
    """An option, or None where its group is none."""
    own = plain.get(group)
    return own.get(option) if isinstance(own, Mapping) else None


def _name(checker: Checker, name: Any) -> None:
    if not isinstance(name, str) or name == REQUIRED:
        return  # the schema has said so
    try:
        check_name(name)
    except ConfigError as fault:
        checker.problems += fault.problems
