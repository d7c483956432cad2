"""Let language models write pairs: for each sentence, others of the same and of the opposite meaning."""

from collections.abc import Sequence
from functools import partial

from embedrun.commands.command_line import ComposingParser

_EXAMPLES = (
    "embedrun generate dataset=stsb column=text1 output=DIR \\\n      "
    "'llms=[{kind: local, name: FOLDER_OR_HUB_ID}]'",
    "embedrun generate input=FILE.txt output=DIR dry_run=true \\\n      "
    "'llms=[{kind: http, url: \"https://HOST/v1\", model: NAME}]'",
)
parser = partial(ComposingParser, "generate", __doc__, _EXAMPLES)


def main(argv: Sequence[str]) -> int:
    """Run `embedrun generate`."""
    return parser().start(argv)
