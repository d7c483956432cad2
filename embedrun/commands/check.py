"""Compose and validate a training run without training, and say what it would do."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from embedrun.commands.command_line import ComposingParser, show
from embedrun.config import BackboneConfig, EvaluationConfig, TrainConfig, TrainingConfig, presets
from embedrun.config.compose import composed, sweep
from embedrun.config.request import Composed, Request
from embedrun.config.safety import launcher_of
from embedrun.console import clean, fitted, room, wrapped
from embedrun.dataset import named
from embedrun.errors import MISSING, ConfigError, DataError
from embedrun.launch.stages import Stage, absent, stages_of
from embedrun.launch.stages import check as check_stages
from embedrun.rows import drawn_of
from embedrun.store import Store, hub

if TYPE_CHECKING:
    from embedrun.estimate import Batches, Scored
    from embedrun.experiment.data import Divided
    from embedrun.experiment.plan import TrainPlan

_MADE = 20_000  # rows that are made to look at them, in a second
_EXAMPLES = (
    "embedrun check +experiment=angle_bert",
    "embedrun check +experiment=quickstart training.batch_size=64",
    "embedrun check +experiment=sweep_arccse_margin   # every job of a sweep",
)
parser = partial(ComposingParser, "check", __doc__, _EXAMPLES, root="train")


def main(argv: Sequence[str]) -> int:
    """Run `embedrun check`."""
    request = parser().request(argv)
    launcher_of(request.overrides)
    if request.show:
        return show(request)
    if stages := stages_of(request):
        return _check_stages(stages, request)
    single = None if request.multirun else composed(request)
    if single is None or single.multirun:
        return check_sweep(request)
    plan = _plan(single)
    unknown = report(plan, single.overrides, request)
    return _end(f"the configuration is valid{unknown}", [plan])


def _plan(job: Composed) -> "TrainPlan":
    from embedrun.experiment.plan import plan_train
    from embedrun.runs.search import settled

    return plan_train(settled(job.config, pin=hub.pinned), here=False)


def _check_stages(stages: Sequence[Stage], request: Request) -> int:
    """Check each stage, and print what each training would do."""
    check_stages(stages)
    for stage in stages:
        print(f"{stage.label}\n", flush=True)
        if stage.command == "train":
            report(_plan(stage.job), stage.job.overrides, request)
            print(flush=True)
    why, valid = "; ".join(absent(stages)), f"{len(stages)} stages, all valid"
    print(wrapped(f"{valid}, but would not start here: {why}" if why else valid, room()))
    return MISSING if why else 0


def check_sweep(request: Request) -> int:
    """Check every job of a multirun, and print what the first would do; returns the exit code."""
    from embedrun.experiment.notices import notices

    jobs: list[tuple[TrainPlan, tuple[str, ...]]] = []  # with the overrides
    faults: list[str] = []
    first: dict[str, int] = {}  # the first job that each line is of
    for number, overrides in enumerate(sweep(request)):
        try:
            job = composed(request, overrides, job=number)
            jobs.append((_plan(job), job.overrides))
            for line in notices(jobs[-1][0].config, job.overrides):
                first.setdefault(line, number)
        except ConfigError as fault:
            faults += [f"job {number}: {problem}" for problem in fault.problems]
    if faults:
        raise ConfigError(list(dict.fromkeys(faults)))
    unknown = report(*jobs[0], request)
    cells = [["job", "overrides"]]
    cells += [[str(number), " ".join(overrides)] for number, (_, overrides) in enumerate(jobs)]
    others = [f"job {number}: {line}" for line, number in first.items() if number]
    print("\n".join([fitted(cells, room(), right=[0]), "", *(wrapped(line, room()) for line in others)]))
    valid = f"above is what job 0 would do; {len(jobs)} jobs, all valid{unknown}"
    return _end(valid, [plan for plan, _ in jobs])


def report(plan: "TrainPlan", overrides: Sequence[str], request: Request) -> str:
    """Print what a checked training configuration would do; returns what is not known of its validity."""
    from embedrun.backbone.shape import shape_of, size_of
    from embedrun.estimate import batches, cost, price, row_tokens
    from embedrun.experiment.losses import acts_on, check_rows
    from embedrun.experiment.notices import notices, taken

    data, config, training = CheckedData.read(plan), plan.config, plan.config.training
    shape = shape_of(config.backbone)
    size = shape and size_of(shape.config)
    tokens, counted, warnings = {}, {}, []
    if data.divided is not None:
        tokens = row_tokens(plan, data.divided.train, shape, size)
        counted, warnings = check_rows(plan.losses, training.batch_size, data.divided.train)
        for part, mix in plan.losses.items():
            said = acts_on(mix, data.divided.train[part].targets)
            counted |= {f"{part}/{key}" if part else key: text for key, text in said.items()}
    batch = batches(plan, data.divided, tokens, made=data.made)
    passes = plan.losses[batch.part or next(iter(plan.losses))].passes
    rows = [
        ["what", "value"],
        ["experiment", config.name],
        ["backbone", _backbone(config.backbone)],
        *price(config, passes, shape, size, batch=batch.usual, tokens=batch.tokens),
        *_printed(overrides, filter(None, [request.config_dir])),
        ["pooling", taken(config.pooling, shape and shape.declared)],
        *_loss_rows(plan, batch, counted),
        *_data_rows(plan, batch, data.divided),
        *cost(config, batch, shape, size, data.scored),
        ["selected by", data.selected_by],
        *(["", text] for text in _selection(training, plan)),
        ["evaluation", ", ".join(plan.tasks) or "none"],
        *(["", text] for text in _also_scored(config.evaluation)),
        *_pass_rows(plan),
        *_step_rows(config, batch),
        ["teachers", ", ".join(teacher.name for teacher in training.teachers or ()) or "none"],
    ]
    dev = data.divided.said if data.divided else []
    notes = [*notices(config, overrides), *data.contamination, *dev, *map("warning: {}".format, warnings)]
    lines = [*_left_open(overrides, filter(None, [request.config_dir])), "", *notes, ""]
    print("\n".join([fitted(rows, room()), *(wrapped(line, room()) for line in lines)]))
    return "" if training.batch_tokens is None else ", as far as is known without the lengths of all rows"


def _also_scored(evaluation: EvaluationConfig) -> Iterator[str]:
    kinds = [*(f"{dim} numbers" for dim in evaluation.dims or ()), *(evaluation.vectors or ())]
    if kinds:
        yield f"also of vectors as {', '.join(kinds)}"
    if evaluation.near is not None:
        yield f"_clean: without rows that share {100 * evaluation.near:g} % of the words with seen ones"


def _loss_rows(plan: "TrainPlan", batch: "Batches", counted: Mapping[str, str]) -> Iterator[list[str]]:
    from embedrun.experiment.losses import compared

    for part, losses in plan.losses.items():
        weights = {key: options.get("weight", 1.0) for key, options in losses.options.items()}
        text = " + ".join(f"{weight:g} {key}" for key, weight in weights.items() if weight > 0)
        yield [f"loss of {part}" if part else "loss", text]
        if losses.cuts:
            cuts = ", ".join(
                f"{dim} (x {weight:g})" if weight != 1 else f"{dim}" for dim, weight in losses.cuts.items()
            )
            yield ["", f"each at the first {cuts} numbers of a vector, one encoding pass"]
        for layers in losses.layers:
            yield ["", f"also at inner layers, every {layers.every} (x {layers.weight:g}), one encoding pass"]
        for key, text in compared(losses, batch.most).items():
            yield [f"  {key}", text]
            if (name := f"{part}/{key}" if part else key) in counted:
                yield ["", counted[name]]


def _data_rows(plan: "TrainPlan", batch: "Batches", data: "Divided | None") -> Iterator[list[str]]:
    """The data set, of a mixture each part with what it has of a run."""
    from embedrun.dataset import views_of
    from embedrun.dataset.mix import each
    from embedrun.family import family_name
    from embedrun.training.mixture import Mixture

    order, training, mix = batch.order, plan.config.training, plan.dataset
    for part, dataset in each(mix, "train").items():
        text = f"{family_name(dataset)} ({dataset.form}: {', '.join(views_of(dataset))})"
        yield [f"part {part}" if part else "data set", text]
        if part and data is not None:
            rows = f"{data.sizes[part]:,} rows"
            if isinstance(order, Mixture):
                steps = order.steps(training.epochs, training.max_steps)
                batches, share, epochs = order.of_part(part, steps)
                rows += f", {100 * share:.1f} % of the batches: {batches:,} in {steps:,} steps, "
                rows += f"{epochs:.3g} epochs of its own"
            yield ["", rows]
    if isinstance(order, Mixture):
        yield ["batches", f"of one part each, {mix.mixing}, until the {mix.ends} ends"]  # type: ignore[attr-defined]


def _pass_rows(plan: "TrainPlan") -> Iterator[list[str]]:
    for part, losses in plan.losses.items():
        passes = ", ".join(losses.passes)
        yield [f"passes of {part}" if part else "passes through the encoder", passes]


def _step_rows(config: TrainConfig, batch: "Batches") -> list[list[str]]:
    from embedrun.experiment.amounts import at_a_time, processes_of

    most, processes = "" if batch.exact else "at most ", processes_of(config)
    accumulate = config.training.accumulate
    shared = f", shared by {processes} processes; each anchor is compared with all" if processes > 1 else ""
    return [
        ["rows a step", f"{most}{batch.most * accumulate} ({accumulate} x {batch.most})"],
        ["rows a loss compares", f"{most}{batch.most}{shared}"],
        ["rows encoded at a time", f"{most}{at_a_time(config, batch.most)}"],
    ]


def _printed(overrides: Sequence[str], folders: Iterable[Path]) -> Iterator[list[str]]:
    """What the paper says that the chosen experiment itself takes."""
    chosen = presets.chosen(overrides, "experiment")
    for name, texts in presets.remarks(chosen, list(folders), mark="printed").items():
        yield from (["", f"printed: {clean(text)}"] for text in texts if name in chosen)


def _left_open(overrides: Sequence[str], folders: Iterable[Path]) -> Iterator[str]:
    """What papers leave open and the experiments chose, the first of which builds on the others."""
    chosen = presets.remarks(presets.chosen(overrides, "experiment"), list(folders))
    for place, (name, choices) in enumerate(chosen.items()):
        yield ""
        yield f"left open by the paper, and chosen in {name}{', which it builds on' if place else ''}:"
        yield from (clean(f"  - {choice}") for choice in choices)


def _backbone(config: BackboneConfig) -> str:
    if (scratch := config.scratch) is None:
        return f"{config.name}" + ("" if config.layers is None else f", its first {config.layers} layers")
    return f"a new {scratch.architecture.upper()}, {scratch.layers} layers of width {scratch.width}"


def _selection(training: TrainingConfig, plan: "TrainPlan") -> Iterator[str]:
    if training.select_by is not None or training.select_lowest:
        yield f"the {'lowest' if training.select_lowest else 'highest'} {training.select_by or 'Spearman'}"
    for key, change in (training.select_floor or {}).items():
        yield f"no step with a {key} below {change:+g} of the untrained model"
    if training.select_untrained:
        yield "or the model before the first step, if no step scores better"
    if training.ema is not None:
        yield f"of a moving average of the weights, decay {training.ema:g}"
    if training.patience is not None:
        yield f"early stopping after {training.patience} dev scores in a row without a new best"
    if plan.dev_tasks:
        yield f"also scored on dev: {', '.join(name.removeprefix('dev_tasks.') for name in plan.dev_tasks)}"


def _end(valid: str, plans: Sequence["TrainPlan"]) -> int:
    """Print the last line, with what keeps the runs from starting here; returns the exit code.

    That is 3 where data or a model is missing, as of `train`; a device may be that of another machine.
    """
    from embedrun import gpu
    from embedrun.backbone import adapter
    from embedrun.experiment import data, scoring

    missing, lacking, encoders = [], [], {}
    for plan in plans:
        config = plan.config
        missing += named.unreadable(data.read_splits(plan), Store.find(config.data_dir))
        missing += scoring.lacking(plan.tasks)
        lacking += [*gpu.problems(config.gpu), *adapter.machine_problems(config.backbone)]
        used = (config.backbone, *(config.training.teachers or ()))
        encoders |= dict.fromkeys((encoder.name, encoder.revision) for encoder in used)
    missing += [problem for encoder in encoders for problem in _without_files(*encoder)]
    why = "; ".join(dict.fromkeys([*missing, *lacking]))
    elsewhere = "; start it on a machine that has what this one lacks, or change it" if lacking else ""
    print(wrapped(f"{valid}, but would not start here{elsewhere}: {why}" if why else valid, room()))
    return MISSING if missing else 0


def _without_files(model: str, revision: str | None) -> Sequence[str]:
    from embedrun.backbone import files

    try:
        files.require(model, revision)
    except DataError as fault:
        return fault.problems
    return ()


@dataclass(frozen=True)
class CheckedData:
    """The data of a run, as far as it is on this machine.

    `divided` is None unless all of the training rows are here, and `scored` unless all rows are;
    `selected_by` is what selects and when; `contamination` has lines on the evaluation pairs that training
    and selection see. `made` is how many rows are trained on, where a data set would have to make too many to
    look at.
    """

    divided: "Divided | None"
    selected_by: str
    contamination: list[str]
    scored: "Scored | None" = None
    made: int | None = None

    @classmethod
    def read(cls, plan: "TrainPlan") -> "CheckedData":
        """The data of a checked configuration; what training would refuse to start with is raised."""
        from embedrun.dataset.mix import each
        from embedrun.experiment import data
        from embedrun.experiment.losses import check_rows

        store, training = Store.find(plan.config.data_dir), plan.config.training
        problems = named.unreadable(data.read_splits(plan), store)
        divided, made, rows = None, None, getattr(plan.dataset, "made", {})
        if sum(rows.values()) > _MADE:
            made = drawn_of(rows["train"], training.data_fraction)
            problems = [f"{plan.dataset.name} makes its rows when training starts, over {_MADE:,} here"]
        elif not named.unreadable([(part, "train") for part in each(plan.dataset, "train").values()], store):
            divided = data.divided(plan, store, with_dev=not problems)
            check_rows(plan.losses, training.batch_size, divided.train)
        selected_by = data.expected(plan) if divided is None else divided.selected_by
        if selected_by != data.LAST:
            selected_by += f", {_every(training)}"
        if problems or divided is None:
            reason = "" if made is None else f": {problems[-1]}"
            unknown = [f"contamination: not known without the data{reason}"]
            return cls(divided, selected_by, unknown, made=made)
        return cls(divided, selected_by, *_scored(plan, divided, store))


def _every(training: TrainingConfig) -> str:
    if (times := training.evaluations_per_epoch) is not None:
        return f"{times} time{'s' if times > 1 else ''} an epoch and at the end"
    steps = training.evaluate_every
    return "at the end" if steps is None else f"every {steps} steps and at the end"


def _scored(plan: "TrainPlan", divided: "Divided", store: Store) -> tuple[list[str], "Scored"]:
    from embedrun.estimate import Scored
    from embedrun.experiment import contamination, data, scoring

    evaluation, training = plan.config.evaluation, plan.config.training
    seen = [*divided.train.values(), *data.seen_rows(plan, store)]
    test = scoring.Scorer.read(plan.tasks, plan.dataset, store, evaluation)
    dev = scoring.dev_scorer(plan.dev_tasks, divided.dev, store, evaluation)
    if divided.dev is not None and not plan.dev_tasks:
        scoring.check_select_by(training, scoring.own_keys(divided.dev, evaluation.dims))
    trained, selected = contamination.of_run(seen, test.rows, scoring.selecting(dev.rows))
    lines = [
        f"also in the training data: {trained.summary() or 'no dev or test row'}",
        f"also in the dev data: {selected.summary() or 'no test row'}",
    ]
    return lines, Scored.by(test, dev)
