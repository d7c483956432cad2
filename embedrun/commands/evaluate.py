"""Score any encoder: a hub model, a model folder or a finished run directory."""

from collections.abc import Sequence

from embedrun.commands.command_line import ComposingParser
from embedrun.files import Plain

_EXAMPLES = (
    "embedrun evaluate sentence-transformers/all-MiniLM-L6-v2 evaluation=sts",
    "embedrun evaluate latest evaluation=sts_senteval",
    "embedrun evaluate model=RUN_DIR evaluation=heldout dataset=toy",
)


def parser() -> ComposingParser:
    """The parser of `embedrun evaluate`."""
    return ComposingParser("evaluate", __doc__, _EXAMPLES, bare="model")


def main(argv: Sequence[str]) -> int:
    """Run `embedrun evaluate`."""
    return parser().start(argv, _check)


def _check(config: Plain) -> None:
    """Refuse a job of a multirun that cannot run."""
    from embedrun.experiment.plan import plan_evaluate

    plan_evaluate(config)
