"""Let language models write pairs: for each sentence, others of the same and of the opposite meaning."""

from collections.abc import Sequence

from embedrun.commands.command_line import ComposingParser
from embedrun.files import Plain

_EXAMPLES = (
    "embedrun generate dataset=stsb column=text1 output=DIR \\\n      "
    "'llms=[{kind: local, name: FOLDER_OR_HUB_ID}]'",
    "embedrun generate input=FILE.txt output=DIR dry_run=true \\\n      "
    "'llms=[{kind: http, url: \"https://HOST/v1\", model: NAME}]'",
)


def parser() -> ComposingParser:
    """The parser of `embedrun generate`."""
    return ComposingParser("generate", __doc__, _EXAMPLES)


def main(argv: Sequence[str]) -> int:
    """Run `embedrun generate`."""
    return parser().start(argv, _check)


def _check(config: Plain) -> None:
    """Refuse a job of a multirun that cannot run."""
    from embedrun.curation.generate import plan_generate

    plan_generate(config)
