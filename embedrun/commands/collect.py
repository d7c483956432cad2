"""Collect duplicate issues of GitHub repositories into a data set of similar and other pairs."""

from collections.abc import Sequence

from embedrun.commands.command_line import ComposingParser
from embedrun.errors import ConfigError
from embedrun.launch.start import start

_EXAMPLES = (
    "embedrun collect output=DIR                                  (the 55 repositories of AnglE)",
    "embedrun collect output=DIR repositories=[numpy/numpy,psf/requests] max_issues=2000",
    "embedrun train dataset=github_issues dataset.path=DIR evaluation=heldout ...",
)


def parser() -> ComposingParser:
    """The parser of `embedrun collect`."""
    return ComposingParser("collect", __doc__, _EXAMPLES)


def main(argv: Sequence[str]) -> int:
    """Run `embedrun collect`."""
    request = parser().request(argv)
    if request is None:
        return 0
    if request.multirun or any("hydra.mode" in override for override in request.overrides):
        raise ConfigError("embedrun collect: one collection at a time; leave out -m and hydra.mode")
    return start(request, None)
