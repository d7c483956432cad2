"""Collect duplicate issues of GitHub repositories into a data set of similar and other pairs."""

from collections.abc import Sequence
from functools import partial

from embedrun.commands.command_line import ComposingParser

_EXAMPLES = (
    "embedrun collect output=DIR   # the 55 repositories of AnglE",
    "embedrun collect output=DIR repositories=[psf/requests] max_issues=2000",
    "embedrun train dataset=github_issues dataset.path=DIR evaluation=heldout ...",
)
parser = partial(ComposingParser, "collect", __doc__, _EXAMPLES)


def main(argv: Sequence[str]) -> int:
    """Run `embedrun collect`."""
    return parser().start(argv)
