"""Compose and validate a training run without training, and say what it would do."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from embedrun.commands.arguments import parse
from embedrun.config import presets
from embedrun.config import presets as left_open
from embedrun.config.compose import composed
from embedrun.console import aligned
from embedrun.launch.launcher import plugin
from embedrun.launch.sweep import start
from embedrun.runs.directory import Outcome

_EXAMPLES = (
    "embedrun check +experiment=angle_bert",
    "embedrun check +experiment=quickstart training.batch_size=64",
    "embedrun check +experiment=sweep_arccse_margin   # every job of a sweep",
)


def main(argv: Sequence[str]) -> int:
    """Run `embedrun check`."""
    request = parse("check", __doc__ or "", argv, _EXAMPLES)
    if request is None:
        return 0
    if request.show:
        return start(request)
    plugin(request.overrides)
    folders = [] if request.config_dir is None else [request.config_dir]
    single = None if request.multirun else composed(request)
    if single is not None and not single.multirun:
        return run(single.config, list(single.overrides), None, folders).code
    from embedrun.commands.check_sweep import check_sweep

    return check_sweep(request, lambda job: run(job.config, list(job.overrides), None, folders))


def run(
    plain: Mapping[str, Any], overrides: list[str], directory: str | None, folders: Sequence[Path] = ()
) -> Outcome:
    """Check a composed training configuration and print what it would do.

    Args:
        plain: resolved plain data.
        overrides: what the user changed.
        directory: the run directory, where the user named one; not made.
        folders: of the user's own presets.

    Raises:
        ConfigError: with every fault, those included that the data shows where it is there.
        DataError: if the data or the model is there and faulty.
    """
    from embedrun.backbone import adapter
    from embedrun.backbone.shape import measured_size, shape_of
    from embedrun.commands.check_data import CheckedData
    from embedrun.estimate.memory import price
    from embedrun.estimate.steps import at_a_time, batches, cost, tokens
    from embedrun.experiment.losses import compared, positives
    from embedrun.experiment.notices import notices, taken
    from embedrun.experiment.plan import plan_train
    from embedrun.family import family_name
    from embedrun.rows import views_of
    from embedrun.runs.search import settled

    plan = plan_train(settled(plain))
    data = CheckedData.read(plan)
    train, config = data.train, plan.config
    training = config.training
    terms = {key: options for key, options in config.loss.terms.items() if options.get("weight", 1.0) > 0}
    shape = shape_of(config.backbone)
    size = None if shape is None else measured_size(shape.config)
    counted, warnings = {}, []
    if train is not None:
        counted, warnings = positives(plan.losses, train.targets, len(train))
    row = None if train is None else tokens(plan, train, shape, size)
    batch = batches(plan, train, row)
    most = "" if batch.even else "at most "
    rows = [
        ["what", "value"],
        ["experiment", config.name],
        ["backbone", config.backbone.name or _new(config.backbone.scratch)],
        *price(config, plan.losses.passes, shape, size, rows=at_a_time(config, batch.usual)),
        ["pooling", taken(config.pooling, shape and shape.declared)],
        ["loss", " + ".join(f"{options.get('weight', 1.0):g} {key}" for key, options in terms.items())],
        *_of_terms(compared(plan.losses, batch.most), counted),
        [
            "data set",
            f"{family_name(plan.dataset)} ({plan.dataset.form}: {', '.join(views_of(plan.dataset))})",
        ],
        *cost(config, batch, shape, size),
        ["selected by", f"{family_name(plan.dev)} dev, {_every(training)}"],
        *_selection(training, plan),
        ["evaluation", ", ".join(plan.tasks) or "none"],
        ["passes through the encoder", ", ".join(plan.losses.passes)],
        ["rows a step", f"{most}{batch.most * training.accumulate} ({training.accumulate} x {batch.most})"],
        ["rows a loss compares", most + _rows_compared(config, batch.most)],
        ["rows encoded at a time", f"{most}{at_a_time(config, batch.most)}"],
        ["teachers", ", ".join(one.name for one in training.teachers or ()) or "none"],
    ]
    warned = [f"warning: {warning}" for warning in warnings]
    lacking = [
        f"train would not start here: {problem}" for problem in adapter.machine_problems(config.backbone)
    ]
    chosen = left_open.lines(left_open.left_open(left_open.named(overrides), folders))
    known = _wrapped(f"presets: {', '.join(presets.groups().get('experiment', []))}")
    unlike = notices(config, overrides)
    parts = [aligned(rows), *chosen, "", *unlike, *data.contamination, *warned, *lacking, "", *known]
    whole = batch.known is None or batch.known.whole
    unknown = "" if whole else ", as far as is known without the lengths of all rows"
    parts += ["", f"the configuration is valid{unknown}"]
    print("\n".join(parts))
    return Outcome()


def _wrapped(text: str) -> list[str]:
    """A long text as lines."""
    import textwrap

    return textwrap.wrap(text, 108, subsequent_indent="  ", break_on_hyphens=False)


def _of_terms(texts: Mapping[str, str], counted: Mapping[str, str]) -> list[list[str]]:
    """What each term compares, and under it how many rows are its positives."""
    return [
        row
        for key, text in texts.items()
        for row in ([f"  {key}", text], *([["", counted[key]]] if key in counted else []))
    ]


def _new(scratch: Any) -> str:
    return f"a new {scratch.architecture.upper()}, {scratch.layers} layers of width {scratch.width}"


def _every(training: Any) -> str:
    if (times := training.evaluations_per_epoch) is not None:
        return f"{times} time{'s' if times > 1 else ''} an epoch and at the end"
    steps = training.evaluate_every
    return "at the end" if steps is None else f"every {steps} steps and at the end"


def _selection(training: Any, plan: Any) -> list[list[str]]:
    """What of the selection is not as usual: the score, its direction, its patience, further dev scores."""
    which = f"the {'lowest' if training.select_lowest else 'highest'} {training.select_by or 'Spearman'}"
    unusual = training.select_by is not None or training.select_lowest
    found = [["", which]] if unusual else []
    if (patience := training.patience) is not None:
        times = "one dev score" if patience == 1 else f"{patience} dev scores in a row"
        found.append(["", f"the run ends after {times} without a new best"])
    if plan.dev_tasks:
        names = ", ".join(name.removeprefix("dev_tasks.") for name in plan.dev_tasks)
        found.append(["", f"also scored on dev: {names}"])
    return found


def _rows_compared(config: Any, rows: int) -> str:
    """Rows of a batch; several processes share it, and each anchor meets all of it."""
    from embedrun.estimate.steps import processes_of

    size = processes_of(config)
    return f"{rows}" if size == 1 else f"{rows}, shared by {size} processes; each anchor meets all of them"
