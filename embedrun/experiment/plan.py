"""From a composed configuration to checked parts, every fault together and nothing loaded."""

import contextlib
import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from torch.nn import ModuleDict

from embedrun import tracking
from embedrun.backbone import adapter, layers
from embedrun.backbone.scratch import problems as shape_problems
from embedrun.config import (
    REQUIRED,
    Checker,
    EvaluateConfig,
    GpuConfig,
    PoolingConfig,
    PromptsConfig,
    TrainConfig,
    nearest,
)
from embedrun.config.decides import is_own
from embedrun.config.mixture import NAME, OF_PART, SPLITS_SCORED, alone, data_sets, is_mix, parts_of, placed
from embedrun.dataset import DataSet, columns_of, graded, roles_of, views_of
from embedrun.dataset.mix import Mix, Part, each
from embedrun.dataset.named import data_split
from embedrun.dataset.published import Stsb
from embedrun.dataset.split import is_ranked
from embedrun.errors import ConfigError
from embedrun.evaluation.heldout import Heldout
from embedrun.evaluation.scores import Task, key_space, pieces
from embedrun.experiment import scoring
from embedrun.experiment.losses import Losses, group_of, plan_losses, untaught
from embedrun.experiment.scoring import OWN
from embedrun.family import Unloadable, build, family_name, find, without
from embedrun.files import Plain
from embedrun.gpu import problems as gpu_problems
from embedrun.pooling import HEAD, LEGACY
from embedrun.pooling import problems as pooling_problems
from embedrun.prompts import PLACE, check_prompts, prompt_problems, role_problems
from embedrun.runs.directory import check_name
from embedrun.signals import seconds_of
from embedrun.training import gradient, processes, shards, step


def _plan_seen(checker: Checker, plain: Plain) -> list[tuple[DataSet, str]]:
    given = group_of(plain, "evaluation").get("contamination")
    seen: list[tuple[DataSet, str]] = []
    for word in given if isinstance(given, list) else [given]:
        if not isinstance(word, str):
            continue  # the schema check has reported it
        try:
            seen.append(data_split(word, "train"))
        except ValueError as fault:
            checker.problems.append(f"evaluation.contamination: {fault}")
    return seen


_DEV_TASKS = "training.dev_tasks"
_WITH_DEV_SCORES = ("senteval",)


def plan_tasks(
    checker: Checker, tasks: object, dataset: DataSet | None, where: str, beside: Mapping[str, Task]
) -> dict[str, Task]:
    """The evaluation tasks by name, as composed at `where`; notes what is wrong with them.

    `beside` are tasks that are scored with them, whose keys they may not have, by what a person calls them.
    """
    if not isinstance(tasks, Mapping):
        return {}  # the schema check has reported it
    built: dict[str, Task] = {}
    for key, options in tasks.items():
        path = f"{where}.{key}"
        if not isinstance(options, Mapping):
            checker.problems.append(f"{path}: expected a mapping of options, got {options!r}")
            continue
        task = build(checker, "evaluation", options.get("name", key), without(options, "name"), path)
        if task is not None:
            if getattr(task, "label", "") is None:
                task.label = key
            built[key] = task
            _check_splits(checker, path, dataset, task)
            if isinstance(task, Heldout):
                _check_other(checker, path, task)
    _check_keys(checker, {**beside, **{f"{where}.{key}": task for key, task in built.items()}})
    return built


def _check_keys(checker: Checker, tasks: Mapping[str, Task]) -> None:
    taken: dict[object, str] = {}  # path of the task, by what says which keys its scores have
    for path, task in tasks.items():
        others = [taken.setdefault((key_space(task), piece), path) for piece in pieces(task)]
        if clash := next((other for other in others if other != path), None):
            checker.problems.append(
                f"{path}: gives its scores the keys of {clash}; evaluate them in two runs"
            )


def plan_dev_tasks(checker: Checker, tasks: object, dataset: DataSet | None) -> dict[str, Task]:
    """The tasks of `training.dev_tasks`, by name; one that would score on test rows alone is noted.

    SentEval, which gives scores on dev rows beside those on test rows, is accepted; the caller leaves out the
    others.
    """
    beside = {"the data set's own dev split": Heldout(split="dev")}
    if isinstance(tasks, Mapping):
        tasks = {name: _on_dev(name, options) for name, options in tasks.items()}
    built = plan_tasks(checker, tasks, dataset, _DEV_TASKS, beside)
    for name, task in built.items():
        splits = {source.split for source in task.sources().values()}
        if not splits or ("test" in splits and family_name(task) not in _WITH_DEV_SCORES):
            checker.problems.append(
                f"{_DEV_TASKS}.{name}: reads test rows, or brings rows of its own, and a test set never "
                "selects a checkpoint; take a task with split: dev (ir, heldout, geometry, retrieval), or "
                "senteval, of which only the dev scores count"
            )
    return built


def _on_dev(key: str, options: object) -> object:
    """The options of a dev task that has a `split`, on dev where they do not say which."""
    if not isinstance(options, Mapping) or "split" in options:
        return options
    with contextlib.suppress(KeyError, Unloadable):
        parameters = inspect.signature(find("evaluation", options.get("name", key))).parameters
        return {**options, **({"split": "dev"} if "split" in parameters else {})}
    return options


def _check_other(checker: Checker, path: str, task: Heldout) -> None:
    """The data set that the task names in place of that of the run."""
    (source,) = task.sources().values()
    if source.dataset is None:
        return
    other = build(checker, "dataset", source.dataset, source.options, f"{path}.dataset")
    if other is not None and not graded(other, source.split):
        checker.problems.append(f"{path}.dataset: {source.dataset} has no scored {source.split} split")


def _check_splits(checker: Checker, path: str, dataset: DataSet | None, task: Task) -> None:
    splits = {source.split for source in task.sources().values() if source.dataset is None}
    if splits and dataset is None:
        if not any(problem.startswith("dataset") for problem in checker.problems):
            checker.problems.append(f"{path}: scores the data set's own split; choose dataset=...")
        return
    for split in splits:
        assert dataset is not None
        if split not in dataset.splits:
            scored = [f"{path}.split={other}" for other in ("test", "dev") if graded(dataset, other)]
            checker.problems.append(
                f"{path}: dataset={family_name(dataset)} has no {split} split (it has: "
                f"{', '.join(dataset.splits)}); choose {next(iter(scored), 'evaluation=sts')}"
            )
        elif not graded(dataset, split):
            checker.problems.append(
                f"{path}: dataset={family_name(dataset)} has no score to compare with; choose evaluation=sts"
            )


def _cross_check(checker: Checker, config: TrainConfig, *, here: bool) -> None:
    checker.problems += pooling_problems(config.pooling)
    _check_teachers(checker, config)
    _check_training(checker, config)
    if here or config.gpu.device == "cpu":  # a processor lacks on every machine what it lacks here
        checker.problems += gpu_problems(config.gpu)
    backbone, scratch, gpu = config.backbone, config.backbone.scratch, config.gpu
    checker.problems += adapter.contradictions(backbone, device=gpu.device, precision=gpu.precision)
    checker.problems += layers.problems(backbone, config.pooling)
    if (backbone.name is None) == (scratch is None):
        checker.problems.append(
            "backbone: give either a name (hub id, folder or run directory) or, for a model from scratch, "
            "scratch with name: null, as backbone=tiny does"
        )
    if scratch is not None:
        checker.problems += shape_problems(scratch)
        if (backbone.max_length or 0) > scratch.positions:
            checker.problems.append(
                f"backbone.max_length: must be at most backbone.scratch.positions ({scratch.positions}), "
                f"got {backbone.max_length}"
            )


def _check_training(checker: Checker, config: TrainConfig) -> None:
    training = config.training
    if training.micro_batch_size is not None and training.seeded_dropout is False:
        checker.problems.append(
            "training.seeded_dropout: a batch encoded in parts needs it; leave it null, or micro_batch_size"
        )
    if training.distinct_texts and training.batching == "text_grouped":
        checker.problems.append(
            "training.batching: text_grouped puts equal texts into one batch, and training.distinct_texts "
            "keeps them apart; choose one"
        )
    checker.problems += [
        f"training.{option}: {key!r} is the key of no dev score, and a test set never "
        "selects a checkpoint; null is Spearman on the dev split, and training.dev_tasks gives more"
        for option, keys in (
            ("select_by", scoring.selecting_keys(training.select_by)),
            ("select_floor", training.select_floor or ()),
        )
        for key in keys
        if not scoring.is_dev(key)
    ]
    if isinstance(training.select_by, Mapping) and not sum(training.select_by.values()) > 0:
        checker.problems.append("training.select_by: the weights must add up to a number above 0")
    if training.patience is not None and training.evaluate_every is training.evaluations_per_epoch is None:
        checker.problems.append(
            "training.patience: there is one dev score, at the end; give training.evaluate_every too"
        )
    if training.max_time is not None:
        try:
            seconds_of(training.max_time)
        except ValueError as fault:
            checker.problems.append(f"training.max_time: {fault}")
    checker.problems += processes.options_problems(config.gpu, training) + shards.problems(
        config.gpu, training, config.backbone.adapter
    )
    checker.problems += step.problems(training, config.gpu.precision)
    if config.gpu.compile:
        checker.problems += gradient.problems(training, config.backbone.adapter)
    checker.problems += tracking.problems(config.tracking)


def _check_teachers(checker: Checker, config: TrainConfig) -> None:
    for place, teacher in enumerate(config.training.teachers or ()):
        path = f"training.teachers[{place}]"
        if teacher.pooling in (HEAD, *LEGACY):
            checker.problems.append(
                f"{path}.pooling: {teacher.pooling} is no pooling of a teacher; choose another, or auto"
            )
            continue
        faults = pooling_problems(PoolingConfig(name=teacher.pooling, first_layer=teacher.first_layer))
        checker.problems += [
            fault.replace("pooling.name", f"{path}.pooling").replace("pooling.first", f"{path}.first")
            for fault in faults
        ]


def refuse_training_gpu(checker: Checker, config: GpuConfig, *, alone: bool = True) -> None:
    """Note options of the gpu group that only training uses; and several processes where one works alone."""
    if alone and (config.processes * config.nodes > 1 or config.rendezvous is not None):
        checker.problems.append(
            "gpu.processes, gpu.nodes, gpu.rendezvous: are for train and evaluate only (processes: annotate)"
        )
    for item in fields(config):
        given, default = getattr(config, item.name), item.default
        if item.metadata["training_only"] and given != default:
            checker.problems.append(
                f"gpu.{item.name}: is for training only, got {json.dumps(given)}; "
                f"leave it {json.dumps(default)}"
            )


@dataclass(frozen=True)
class TrainPlan:
    """One checked training run.

    Args:
        dataset: of a mixture, that which has the others.
        dev: the data set whose `dev` split selects the checkpoint; None for no such split.
        losses: of each part of a mixture; one under '' of a single data set, or where all parts have one.
        seen: the data sets of `evaluation.contamination` and their splits.
        dev_tasks: what else is scored on dev splits, by name.
        held: parts of which some training rows are held out to select, as far as there are enough; '' is the
            part of a single data set.
    """

    config: TrainConfig
    dataset: DataSet
    dev: DataSet | None
    tasks: dict[str, Task]
    losses: dict[str, Losses]
    seen: list[tuple[DataSet, str]]
    dev_tasks: dict[str, Task] = field(default_factory=dict)
    held: tuple[str, ...] = ()


@dataclass(frozen=True)
class EvaluatePlan:
    """One checked evaluation; `dataset` is of `evaluation=heldout`, `seen` are those of `.contamination`."""

    config: EvaluateConfig
    dataset: DataSet | None
    tasks: dict[str, Task]
    seen: list[tuple[DataSet, str]]


def plan_train(plain: Plain, *, here: bool = True) -> TrainPlan:
    """Check a composed training configuration; without `here`, not whether this machine has its device."""
    checker = Checker()
    config = checker.build(TrainConfig, plain)
    if config is not None:
        config = replace(config, training=scoring.with_dev_keys(config.training))
    dataset = plan_dataset(checker, plain.get("dataset"), mixture=True)
    losses = _plan_mixes(checker, plain, dataset)
    tasks, seen = _plan_scoring(checker, plain, dataset)
    if OWN in tasks:
        checker.problems.append(
            f"evaluation.tasks.{OWN}: the score that selects the checkpoint has this name; choose another"
        )
    if dataset is not None:
        checker.problems += _unread_prompts(plain.get("prompts"), dataset)
    dev_tasks = plan_dev_tasks(checker, group_of(plain, "training").get("dev_tasks"), dataset)
    _check_name(checker, plain.get("name"))
    if config is not None:
        _cross_check(checker, config, here=here)
    if config is None or dataset is None:
        raise checker.refusal()
    dev, held = _selecting(config, dataset)
    if dev is None and not held:
        checker.problems += without_dev(config, dataset)
    if checker.problems:
        raise checker.refusal()
    return TrainPlan(config, dataset, dev, tasks, losses, seen, dev_tasks, held)


def _plan_mixes(checker: Checker, plain: Plain, dataset: DataSet | None) -> dict[str, Losses]:
    """The losses of each part, or of all together; notes what is wrong with them."""
    losses: dict[str, Losses] = {}
    mixed = dataset if isinstance(dataset, Mix) and dataset.batches == "mixed" else None
    for name, part in list(alone(plain))[: None if mixed is None else 1]:
        inner = Checker()
        losses[name] = plan_losses(inner, part, mixed or _of_part(dataset, name))
        checker.problems += [placed(name, problem) for problem in inner.problems]
    if not checker.problems:
        checker.problems += untaught(group_of(plain, "training"), losses.values())
    if mixed is None:
        return losses
    checker.problems += _problems_of_mixed(plain, mixed)
    return {"": next(iter(losses.values()))}


def _of_part(dataset: DataSet | None, name: str) -> DataSet | None:
    """The data set of a part; that of a run itself, whose part is ''."""
    return dataset.parts[name].dataset if isinstance(dataset, Mix) else dataset


def _problems_of_mixed(plain: Plain, dataset: Mix) -> list[str]:
    """What keeps the rows of all parts from being in one batch."""
    problems = []
    (first, wanted), *others = ((name, part.get("loss")) for name, part in alone(plain))
    for name, loss in others:
        if loss != wanted:
            problems.append(
                f"dataset.parts.{name}.loss: batches=mixed has one loss, and {first} has another; give "
                "both the same, or dataset.batches=one_part"
            )
    views = {name: views_of(part.dataset) for name, part in dataset.parts.items()}
    if len(set(views.values())) > 1:
        text = "; ".join(f"{name}: {', '.join(each)}" for name, each in views.items())
        problems.append(
            f"dataset.batches: mixed is for parts of the same views ({text}); choose dataset.batches=one_part"
        )
    training = group_of(plain, "training")
    for name, usual in (("batch_tokens", None), ("distinct_texts", False), ("batching", "random")):
        if training.get(name, usual) != usual:
            problems.append(
                f"training.{name}: is for batches of one part, got {json.dumps(training[name])}; choose "
                "dataset.batches=one_part"
            )
    return problems


def _unread_prompts(prompts: object, dataset: DataSet) -> list[str]:
    """Prompts of queries and documents where no text of the training rows is either."""
    parts = list(each(dataset, "train").values())
    if not isinstance(prompts, Mapping) or not set(prompts.values()) - {None, PLACE}:
        return []
    if any(map(roles_of, parts)):
        return []
    first, *others = columns_of(parts[0]).values()
    example = ", ".join([f"{first}: query", *(f"{other}: document" for other in others)])
    return [
        f"prompts: no text of the training rows is a query or a document; give 'dataset.roles={{{example}}}'"
    ]


def _selecting(config: TrainConfig, dataset: DataSet) -> tuple[DataSet | None, tuple[str, ...]]:
    rule = config.training.dev
    if rule in ("stsb", "none"):
        return (Stsb() if rule == "stsb" else None), ()
    options = data_sets(config.dataset)
    held = [
        name
        for name, part in each(dataset, "train").items()
        if is_own(options[name]) and not graded(part, "dev") and is_ranked(part.form, part.targets)
        if not isinstance(dataset, Mix) or dataset.parts[name].evaluation in ("all", "dev")
    ]
    if graded(dataset, "dev"):
        return dataset, tuple(held)
    return (None if held or is_own(config.dataset) else Stsb()), tuple(held)


def ways_to_dev(config: TrainConfig, dataset: DataSet) -> str:
    """What to type for dev rows where there are none."""
    # A dev file is read by the columns of the training pairs, so that only scored ones do.
    ranked = dataset.form != "pair" or is_ranked(dataset.form, dataset.targets)
    takes_file = (
        is_own(config.dataset) and not is_mix(config.dataset) and ranked and config.training.dev != "none"
    )
    return f"{'dataset.dev=FILE, or ' if takes_file else ''}training.dev=stsb"


def without_dev(config: TrainConfig, dataset: DataSet) -> list[str]:
    """Options that ask for a dev score, where there are no dev rows."""
    training = config.training
    if training.select_by is not None and training.dev_tasks:
        return []  # one of these may be it
    return [
        f"training.{name}: needs a dev score, and there are no dev rows; give "
        f"{ways_to_dev(config, dataset)}, or leave {name} out"
        for name in ("select_by", "select_floor", "select_untrained", "patience")
        if getattr(training, name) not in (None, False)
    ]


def plan_evaluate(plain: Plain) -> EvaluatePlan:
    """Check a composed evaluation configuration."""
    checker = Checker()
    config = checker.build(EvaluateConfig, plain)
    dataset = plan_dataset(checker, plain.get("dataset"))
    tasks, seen = _plan_scoring(checker, plain, dataset)
    if not tasks and not checker.problems:
        checker.problems.append("evaluation.tasks: nothing to score; choose evaluation=sts")
    read = [source.dataset for task in tasks.values() for source in task.sources().values()]
    if dataset is not None and not checker.problems and None not in read:
        name = family_name(dataset)
        checker.problems.append(f"dataset={name}: no task reads it; choose evaluation=heldout, which does")
    _check_name(checker, plain.get("name"))
    if config is not None:
        _check_evaluation(checker, config)
    if checker.problems or config is None:
        raise checker.refusal()
    length = config.evaluation.max_length or config.max_length
    config = replace(config, evaluation=replace(config.evaluation, max_length=length))
    return EvaluatePlan(config, dataset, tasks, seen)


def _check_evaluation(checker: Checker, config: EvaluateConfig) -> None:
    checker.problems += pooling_problems(config.pooling)
    checker.problems += layers.dropped(config.layers, config.pooling, "layers")
    if config.pooling.name == "cls_mlp":
        checker.problems.append(
            "pooling.name: cls_mlp is for training; choose pooling=auto, which uses the head of a model "
            "that has kept it, or pooling=cls"
        )
    if config.whiten is not None:
        try:
            data_split(config.whiten.dataset, "train")
        except (ValueError, ConfigError) as fault:
            checker.problems.append(f"whiten.dataset: {fault}")
        if config.gpu.processes * config.gpu.nodes > 1:
            checker.problems.append("whiten: is fitted by one process; leave gpu.processes at 1")
    both = {config.max_length, config.evaluation.max_length} - {None}
    if len(both) > 1:
        checker.problems.append(
            f"max_length: {config.max_length} is short for evaluation.max_length, which is "
            f"{config.evaluation.max_length}; give one of them"
        )
    if config.evaluation.near is not None and config.evaluation.contamination is None:
        checker.problems.append(
            "evaluation.near: is of rows that the model has seen; name them, as evaluation.contamination=stsb"
        )
    checker.problems += gpu_problems(config.gpu)
    refuse_training_gpu(checker, config.gpu, alone=False)
    checker.problems += processes.options_problems(config.gpu)
    if config.gpu.precision not in ("auto", "fp32"):
        checker.problems.append(
            "gpu.precision: is for training; an evaluation takes evaluation.precision=fp32 or bf16, got "
            f"{config.gpu.precision}"
        )


def _plan_scoring(
    checker: Checker, plain: Plain, dataset: DataSet | None
) -> tuple[dict[str, Task], list[tuple[DataSet, str]]]:
    tasks = plan_tasks(checker, group_of(plain, "evaluation").get("tasks"), dataset, "evaluation.tasks", {})
    seen = _plan_seen(checker, plain)
    check_prompts(checker, plain)
    return tasks, seen


def plan_dataset(checker: Checker, options: object, *, mixture: bool = False) -> DataSet | None:
    """The data set of these options, as composed; None where they are faulty, which is noted.

    Only training takes a `mixture`.
    """
    if not isinstance(options, Mapping):
        return None  # the schema check has reported it
    if is_mix(options):
        if mixture:
            return _plan_mixture(checker, options)
        checker.problems.append(f"dataset={NAME}: is for training; name one data set, such as dataset=stsb")
        return None
    if "name" not in options:
        checker.problems.append("dataset.name: no value given; choose dataset=...")
        return None
    # Roles are of every data set; no class knows of them.
    dataset = build(checker, "dataset", options["name"], without(options, "name", "roles"), "dataset")
    if dataset is None or options.get("roles") is None:
        return dataset
    columns, roles = columns_of(dataset), options["roles"]
    checker.problems += (faults := role_problems(roles, list(columns.values())))
    if not faults:
        dataset.roles = {view: roles[name] for view, name in columns.items() if name in roles}
    return dataset


def _plan_mixture(checker: Checker, options: Plain) -> Mix | None:
    mix = build(checker, "dataset", NAME, without(options, "name"), "dataset")
    parts, before = {}, len(checker.problems)
    for name, part in parts_of(options).items():
        path = f"dataset.parts.{name}"
        if not name.isidentifier() or hasattr(ModuleDict, name):
            checker.problems.append(f"{path}: not a name for a part; give another, of letters, digits and _")
        share, evaluation = part.get("share"), part.get("evaluation", "all")
        if share is not None and (isinstance(share, bool) or not isinstance(share, int | float)):
            checker.problems.append(f"{path}.share: expected a number, got {share!r}")
        if evaluation not in SPLITS_SCORED:
            choices = (
                f"{', '.join(SPLITS_SCORED)}, got {evaluation!r}{nearest(str(evaluation), SPLITS_SCORED)}"
            )
            checker.problems.append(f"{path}.evaluation: expected one of {choices}")
        inner = Checker()
        dataset = plan_dataset(inner, part.get("dataset"))
        checker.problems += [placed(name, _with_hint(problem)) for problem in inner.problems]
        inner = Checker()
        if inner.build(PromptsConfig, part.get("prompts") or {}) is not None:
            inner.problems += prompt_problems(part.get("prompts") or {}, "")
        checker.problems += [f"{path}.prompts.{problem}" for problem in inner.problems]
        if dataset is not None:
            parts[name] = Part(dataset, share, evaluation)
    if mix is None or len(checker.problems) > before:
        return None
    try:
        return mix.filled(parts)
    except ValueError as fault:
        checker.problems.append(f"dataset.{fault}")
        return None


def _with_hint(problem: str) -> str:
    """Options of a part that stand beside those of its data set are named where one is misspelt."""
    option = problem.partition(":")[0].rpartition(".")[2]
    hint = (
        nearest(option, OF_PART) if "has no such option" in problem and "did you mean" not in problem else ""
    )
    return problem + hint


def _check_name(checker: Checker, name: object) -> None:
    if not isinstance(name, str) or name == REQUIRED:
        return  # the schema check has reported it
    try:
        check_name(name)
    except ConfigError as fault:
        checker.problems += fault.problems
