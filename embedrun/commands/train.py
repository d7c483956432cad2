"""Train, score and record one model; with -m, one for each combination."""

from collections.abc import Sequence

from embedrun.commands.command_line import ComposingParser
from embedrun.files import Plain

_EXAMPLES = (
    "embedrun train +experiment=quickstart",
    "embedrun train +experiment=angle_stsb backbone.name=DIR pooling=auto",
    "embedrun train -m +experiment=quickstart seed=1,2,3",
)


def parser() -> ComposingParser:
    """The parser of `embedrun train`."""
    return ComposingParser("train", __doc__, _EXAMPLES)


def main(argv: Sequence[str]) -> int:
    """Run `embedrun train`."""
    return parser().start(argv, _check)


def _check(config: Plain) -> None:
    """Refuse a job of a multirun that cannot run."""
    from embedrun.experiment.plan import plan_train

    plan_train(config)
