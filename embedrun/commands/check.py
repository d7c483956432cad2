"""Compose and validate a training run without training, and say what it would do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from embedrun.commands.command_line import ComposingParser, show
from embedrun.config import BackboneConfig, TrainConfig, TrainingConfig, presets
from embedrun.config.compose import composed, sweep
from embedrun.config.request import Composed, Request
from embedrun.config.safety import launcher_of
from embedrun.console import clean, fitted, room, wrapped
from embedrun.dataset import made_by, named
from embedrun.errors import MISSING, ConfigError, DataError
from embedrun.rows import Rows, drawn_of
from embedrun.store import Store, hub

if TYPE_CHECKING:
    from embedrun.estimate import Scored
    from embedrun.experiment.data import Divided
    from embedrun.experiment.plan import TrainPlan

_MADE = 20_000  # rows that are made to look at them, in a second
_EXAMPLES = (
    "embedrun check +experiment=angle_bert",
    "embedrun check +experiment=quickstart training.batch_size=64",
    "embedrun check +experiment=sweep_arccse_margin   # every job of a sweep",
)


def parser() -> ComposingParser:
    """The parser of `embedrun check`."""
    return ComposingParser("check", __doc__, _EXAMPLES, root="train")


def main(argv: Sequence[str]) -> int:
    """Run `embedrun check`."""
    request = parser().request(argv)
    if request is None:
        return 0
    launcher_of(request.overrides)
    if request.show:
        return show(request)
    folders = [] if request.config_dir is None else [request.config_dir]
    single = None if request.multirun else composed(request)
    if single is not None and not single.multirun:
        plan = _plan(single)
        unknown = report(plan, single.overrides, folders)
        return _end(f"the configuration is valid{unknown}", [plan])
    return check_sweep(request, folders)


def _plan(job: Composed) -> "TrainPlan":
    from embedrun.experiment.plan import plan_train
    from embedrun.runs.search import settled

    return plan_train(settled(job.config, pin=hub.pinned), here=False)


def report(plan: "TrainPlan", overrides: Sequence[str], folders: Sequence[Path]) -> str:
    """Print what a checked training configuration would do; returns what is not known of its validity.

    `folders` are the user's own preset folders.

    Raises:
        ConfigError: with every fault that the data shows, as far as it is here.
        DataError: if the data or the model is here and faulty.
    """
    from embedrun.backbone.shape import shape_of, size_of
    from embedrun.dataset import views_of
    from embedrun.estimate import at_a_time, batches, cost, price, row_tokens
    from embedrun.experiment.losses import compared, positives
    from embedrun.experiment.notices import notices, taken
    from embedrun.family import family_name

    data = CheckedData.read(plan)
    train, config = data.train, plan.config
    training = config.training
    terms = {key: options for key, options in config.loss.terms.items() if options.get("weight", 1.0) > 0}
    shape = shape_of(config.backbone)
    size = None if shape is None else size_of(shape.config)
    counted, warnings = {}, []
    if train is not None:
        counted, warnings = positives(plan.losses, train.targets, len(train))
    row = None if train is None else row_tokens(plan, train, shape, size)
    batch = batches(plan, train, row, made=data.made)
    most = "" if batch.exact else "at most "
    rows = [
        ["what", "value"],
        ["experiment", config.name],
        ["backbone", _backbone(config.backbone)],
        *price(config, plan.losses.passes, shape, size, batch=batch.usual, tokens=row),
        ["pooling", taken(config.pooling, shape and shape.declared)],
        ["loss", " + ".join(f"{options.get('weight', 1.0):g} {key}" for key, options in terms.items())],
        *_of_terms(compared(plan.losses, batch.most), counted),
        [
            "data set",
            f"{family_name(plan.dataset)} ({plan.dataset.form}: {', '.join(views_of(plan.dataset))})",
        ],
        *cost(config, batch, shape, size, data.scored),
        ["selected by", data.selected_by],
        *_selection(training, plan),
        ["evaluation", ", ".join(plan.tasks) or "none"],
        ["passes through the encoder", ", ".join(plan.losses.passes)],
        ["rows a step", f"{most}{batch.most * training.accumulate} ({training.accumulate} x {batch.most})"],
        ["rows a loss compares", most + _rows_compared(config, batch.most)],
        ["rows encoded at a time", f"{most}{at_a_time(config, batch.most)}"],
        ["teachers", ", ".join(one.name for one in training.teachers or ()) or "none"],
    ]
    warned = [data.divided.said] if data.divided is not None and data.divided.said else []
    warned += [f"warning: {warning}" for warning in warnings]
    width = room()
    chosen = _left_open(presets.left_open(presets.named(overrides), folders))
    unlike = notices(config, overrides)
    said = [wrapped(line, width) for line in (*unlike, *data.contamination, *warned)]
    print("\n".join([fitted(rows, width), *(wrapped(line, width) for line in chosen), "", *said, ""]))
    return "" if training.batch_tokens is None else ", as far as is known without the lengths of all rows"


def _left_open(experiments: Sequence[presets.Open]) -> list[str]:
    """What papers leave open and the experiments chose, the first of which builds on the others."""
    lines = []
    for place, experiment in enumerate(experiments):
        builds = ", which it builds on" if place else ""
        lines += ["", f"left open by the paper, and chosen in {experiment.experiment}{builds}:"]
        lines += [clean(f"  - {choice}") for choice in experiment.choices]
    return lines


def _end(valid: str, plans: Sequence["TrainPlan"]) -> int:
    """Print the last line, with what keeps the runs from starting here; returns the exit code.

    That is 3 where data or a model is missing, as of `train`; a device may be that of another machine.
    """
    from embedrun import gpu
    from embedrun.backbone import adapter, files
    from embedrun.experiment import data, scoring

    missing, lacking, models = [], [], {}
    for plan in plans:
        config = plan.config
        missing += named.unreadable(data.read_splits(plan), Store.find(config.data_dir))
        missing += scoring.lacking(plan.tasks)
        lacking += [*gpu.problems(config.gpu), *adapter.machine_problems(config.backbone)]
        encoders = (config.backbone, *(config.training.teachers or ()))
        models |= dict.fromkeys((encoder.name, encoder.revision) for encoder in encoders)
    for name, revision in models:
        try:
            files.require(name, revision)
        except DataError as fault:
            missing += fault.problems
    why = "; ".join(dict.fromkeys([*missing, *lacking]))
    elsewhere = "; start it on a machine that has what this one lacks, or change it" if lacking else ""
    print(wrapped(f"{valid}, but would not start here{elsewhere}: {why}" if why else valid, room()))
    return MISSING if missing else 0


def _of_terms(texts: Mapping[str, str], counted: Mapping[str, str]) -> list[list[str]]:
    """What each term compares, and below that how many rows are its positives."""
    return [
        row
        for key, text in texts.items()
        for row in ([f"  {key}", text], *([["", counted[key]]] if key in counted else []))
    ]


def _backbone(config: BackboneConfig) -> str:
    if (scratch := config.scratch) is None:
        return f"{config.name}" + ("" if config.layers is None else f", its first {config.layers} layers")
    return f"a new {scratch.architecture.upper()}, {scratch.layers} layers of width {scratch.width}"


def _every(training: TrainingConfig) -> str:
    if (times := training.evaluations_per_epoch) is not None:
        return f"{times} time{'s' if times > 1 else ''} an epoch and at the end"
    steps = training.evaluate_every
    return "at the end" if steps is None else f"every {steps} steps and at the end"


def _selection(training: TrainingConfig, plan: "TrainPlan") -> list[list[str]]:
    """What differs from the defaults of selection: the score, its direction, patience, further dev scores."""
    which = f"the {'lowest' if training.select_lowest else 'highest'} {training.select_by or 'Spearman'}"
    unusual = training.select_by is not None or training.select_lowest
    found = [["", which]] if unusual else []
    if (patience := training.patience) is not None:
        times = "one dev score" if patience == 1 else f"{patience} dev scores in a row"
        found.append(["", f"early stopping after {times} without a new best"])
    if plan.dev_tasks:
        names = ", ".join(name.removeprefix("dev_tasks.") for name in plan.dev_tasks)
        found.append(["", f"also scored on dev: {names}"])
    return found


def _rows_compared(config: TrainConfig, rows: int) -> str:
    """Rows of a batch, which several processes share; each anchor is compared with all of them."""
    from embedrun.estimate import processes_of

    size = processes_of(config)
    return f"{rows}" if size == 1 else f"{rows}, shared by {size} processes; each anchor is compared with all"


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

    @property
    def train(self) -> Rows | None:
        """The rows that are trained on."""
        return None if self.divided is None else self.divided.train

    @classmethod
    def read(cls, plan: "TrainPlan") -> "CheckedData":
        """The data of a checked configuration.

        Raises:
            ConfigError: if training would refuse to start with it.
            DataError: if it is here and faulty.
        """
        from embedrun.experiment import data
        from embedrun.experiment.losses import check_active

        store = Store.find(plan.config.data_dir)
        problems = named.unreadable(data.read_splits(plan), store)
        found, made = None, _made(plan)
        if made is not None:
            problems.append(f"{plan.dataset.name} makes its rows when training starts, over {_MADE:,} here")
        elif not named.unreadable([(plan.dataset, "train")], store):
            found = data.divided(plan, store, with_dev=not problems)
            check_active(plan.losses, plan.config.training.batch_size, found.train.targets, len(found.train))
        chosen = data.expected(plan) if found is None else found.selected_by
        if chosen != data.LAST:
            chosen += f", {_every(plan.config.training)}"
        if problems or found is None:
            said = "" if made is None else f": {problems[-1]}"
            return cls(found, chosen, [f"contamination: not known without the data{said}"], made=made)
        return cls(found, chosen, *_scored(plan, found, store))


def _made(plan: "TrainPlan") -> int | None:
    """How many rows are trained on, of a data set that would have to make too many to look at; else None."""
    rows = made_by(plan.dataset)
    return drawn_of(rows["train"], plan.config.training.data_fraction) if sum(rows.values()) > _MADE else None


def _scored(plan: "TrainPlan", found: "Divided", store: Store) -> tuple[list[str], "Scored"]:
    """Lines on contamination, and what there is to score."""
    from embedrun.estimate import Scored
    from embedrun.experiment import contamination, scoring

    evaluation, select_by = plan.config.evaluation, plan.config.training.select_by
    seen = [found.train, *([] if plan.seen is None else [plan.seen.read("train", store)])]
    test = scoring.Scorer.read(plan.tasks, plan.dataset, store, evaluation)
    dev = scoring.dev_scorer(plan.dev_tasks, found.dev, store, evaluation)
    if select_by is not None and found.dev is not None and not plan.dev_tasks:
        scoring.check_select_by(select_by, scoring.own_keys(found.dev.name))
    trained, selected = contamination.of_run(seen, test.rows, scoring.selecting(dev.rows))
    lines = [
        f"also in the training data: {trained.summary() or 'no dev or test row'}",
        f"also in the dev data: {selected.summary() or 'no test row'}",
    ]
    return lines, Scored.by(test, dev)


def check_sweep(request: Request, folders: Sequence[Path]) -> int:
    """Check every job of a multirun, and print what the first would do; returns the exit code.

    Raises:
        ConfigError: with the faults of every job, each with its number.
        DataError: if a model is here and faulty.
    """
    from embedrun.experiment.notices import notices

    jobs: list[tuple[TrainPlan, tuple[str, ...]]] = []  # with the overrides
    faults: list[str] = []
    first: dict[str, int] = {}  # the first job that each line is of
    for number, overrides in enumerate(sweep(request)):
        try:
            job = composed(request, overrides, job=number)
            plan = _plan(job)
            for line in notices(plan.config, job.overrides):
                first.setdefault(line, number)
            jobs.append((plan, job.overrides))
        except ConfigError as fault:
            faults += [f"job {number}: {problem}" for problem in fault.problems]
    if faults:
        raise ConfigError(list(dict.fromkeys(faults)))
    unknown = report(*jobs[0], folders)
    cells = [["job", "overrides"]]
    cells += [[str(number), " ".join(overrides)] for number, (_, overrides) in enumerate(jobs)]
    others = [f"job {number}: {line}" for line, number in first.items() if number]
    width = room()
    jobs_table = fitted(cells, width, right=[0])
    print("\n".join([jobs_table, "", *(wrapped(line, width) for line in others)]))
    valid = f"above is what job 0 would do; {len(jobs)} jobs, all valid{unknown}"
    return _end(valid, [plan for plan, _ in jobs])
