"""Compose and validate a training run without training, and say what it would do."""

from collections.abc import Mapping, Sequence
from typing import Any

from embedrun import presets
from embedrun.commands.arguments import parse
from embedrun.commands.outcome import Outcome
from embedrun.commands.start import start
from embedrun.console import aligned

_EXAMPLES = (
    "embedrun check +experiment=angle_bert",
    "embedrun check +experiment=quickstart training.batch_size=64",
)


def main(argv: Sequence[str]) -> int:
    """Run `embedrun check`."""
    request = parse("check", __doc__ or "", argv, _EXAMPLES)
    return 0 if request is None else start(request)


def run(plain: Mapping[str, Any], overrides: list[str], directory: str | None) -> Outcome:
    """Check a composed training configuration and print what it would do.

    Args:
        plain: resolved plain data.
        overrides: what the user changed.
        directory: the run directory, where the user named one; not made.

    Raises:
        ConfigError: with every fault.
        DataError: if the data is there and faulty.
    """
    from embedrun.backbone import machine, settled
    from embedrun.commands.families import family_name
    from embedrun.commands.plan import plan_train
    from embedrun.commands.price import price
    from embedrun.rows import views_of

    plan = plan_train(settled(plain))
    config = plan.config
    training = config.training
    terms = {key: options for key, options in config.loss.terms.items() if options.get("weight", 1.0) > 0}
    batch = training.batch_size
    rows = [
        ["what", "value"],
        ["experiment", config.name],
        ["backbone", config.backbone.name or _shape(config.backbone.scratch)],
        *price(config, plan.losses.passes),
        ["pooling", config.pooling.name],
        ["loss", " + ".join(f"{options.get('weight', 1.0):g} {key}" for key, options in terms.items())],
        [
            "data set",
            f"{family_name(plan.dataset)} ({plan.dataset.form}: {', '.join(views_of(plan.dataset))})",
        ],
        ["selected by", f"{family_name(plan.dev)} dev, {_every(training)}"],
        ["evaluation", ", ".join(plan.tasks) or "none"],
        ["passes through the encoder", ", ".join(plan.losses.passes)],
        ["rows a step", f"{batch * training.accumulate} ({training.accumulate} x {batch})"],
        ["rows a loss compares", str(batch)],
        ["rows encoded at a time", str(min(training.micro_batch_size or batch, batch))],
        ["teachers", ", ".join(one.name for one in training.teachers or ()) or "none"],
        ["presets", ", ".join(presets.groups().get("experiment", []))],
    ]
    lacking = [f"train would not start here: {problem}" for problem in machine.problems(config.backbone)]
    found = [*_contamination(plan), *lacking]
    print("\n".join([aligned(rows), "", *found, "", "the configuration is valid"]))
    return Outcome()


def _contamination(plan: Any) -> list[str]:
    """The evaluation pairs that training and selection see, as far as the data is there."""
    from embedrun.commands import contamination, scoring
    from embedrun.evaluation.heldout import Heldout
    from embedrun.store import Store

    store, evaluation = Store.find(plan.config.data_dir), plan.config.evaluation
    splits = [(plan.dataset, "train"), (plan.dev, "dev"), *scoring.splits_of(plan.tasks, plan.dataset)]
    splits += [] if plan.seen is None else [(plan.seen, "train")]
    if problems := scoring.unreadable(splits, store):
        return [f"contamination: not known without the data: {'; '.join(problems)}"]
    seen = [dataset.read("train", store) for dataset in (plan.dataset, plan.seen) if dataset is not None]
    test = scoring.Scorer.read(plan.tasks, plan.dataset, store, evaluation)
    dev = scoring.Scorer.read({"dev": Heldout(split="dev")}, plan.dev, store, evaluation)
    trained, selected = contamination.of_run(seen, test.rows, dev.rows)
    return [
        f"also in the training data: {trained.summary() or 'no dev or test row'}",
        f"also in the dev data: {selected.summary() or 'no test row'}",
    ]


def _shape(scratch: Any) -> str:
    return f"a new {scratch.architecture.upper()}, {scratch.layers} layers of width {scratch.width}"


def _every(training: Any) -> str:
    if (times := training.evaluations_per_epoch) is not None:
        return f"{times} time{'s' if times > 1 else ''} an epoch and at the end"
    steps = training.evaluate_every
    return "at the end" if steps is None else f"every {steps} steps and at the end"
