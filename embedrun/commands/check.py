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
    """
    from embedrun.commands.families import family_name
    from embedrun.commands.plan import plan_train
    from embedrun.rows import FORMS

    plan = plan_train(plain)
    config = plan.config
    training = config.training
    terms = {key: options for key, options in config.loss.terms.items() if options.get("weight", 1.0) > 0}
    batch = training.batch_size
    rows = [
        ["what", "value"],
        ["experiment", config.name],
        ["backbone", config.backbone.name or _shape(config.backbone.scratch)],
        ["pooling", config.pooling.name],
        ["loss", " + ".join(f"{options.get('weight', 1.0):g} {key}" for key, options in terms.items())],
        [
            "data set",
            f"{family_name(plan.dataset)} ({plan.dataset.form}: {', '.join(FORMS[plan.dataset.form])})",
        ],
        ["selected by", f"{family_name(plan.dev)} dev, {_every(training.evaluate_every)}"],
        ["evaluation", ", ".join(plan.tasks) or "none"],
        ["passes through the encoder", ", ".join(plan.losses.passes)],
        ["rows a step", f"{batch * training.accumulate} ({training.accumulate} x {batch})"],
        ["rows a loss compares", str(batch)],
        ["rows encoded at a time", str(min(training.micro_batch_size or batch, batch))],
        ["teachers", ", ".join(one.name for one in training.teachers or ()) or "none"],
        ["presets", ", ".join(presets.groups().get("experiment", []))],
    ]
    print(aligned(rows) + "\n\nthe configuration is valid")
    return Outcome()


def _shape(scratch: Any) -> str:
    return f"a new BERT, {scratch.layers} layers of width {scratch.width}"


def _every(steps: int | None) -> str:
    return "at the end" if steps is None else f"every {steps} steps and at the end"
