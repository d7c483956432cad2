"""Score any encoder: a hub model, a model folder or a finished run directory."""

from collections.abc import Sequence
from functools import partial

from embedrun.commands.command_line import ComposingParser

_EXAMPLES = (
    "embedrun evaluate sentence-transformers/all-MiniLM-L6-v2 evaluation=sts",
    "embedrun evaluate latest evaluation=sts_senteval",
    "embedrun evaluate model=RUN_DIR evaluation=heldout dataset=toy",
)
parser = partial(ComposingParser, "evaluate", __doc__, _EXAMPLES, bare="model")


def main(argv: Sequence[str]) -> int:
    """Run `embedrun evaluate`."""
    return parser().start(argv)
