"""Score labelled pairs by the cosines of teacher encoders, resumable; or mine hard negatives of pairs."""

from collections.abc import Sequence

from embedrun.commands.command_line import ComposingParser
from embedrun.files import Plain
from embedrun.launch.start import start

_EXAMPLES = (
    "embedrun annotate 'teachers=[{name: sentence-transformers/all-MiniLM-L6-v2}]' output=scored",
    "embedrun annotate 'teachers=[{name: DIR, prompt: \"query: \"}]' output=scored shard=0/4",
    "embedrun annotate 'teachers=[{name: DIR, prompt: \"query: \"}]' output=scored merge_only=true",
    "embedrun train dataset=nli_scored dataset.path=scored loss=raoe",
    "embedrun annotate mode=mine 'teachers=[{name: DIR}]' output=mined mining.relative_margin=0.05",
)


def parser() -> ComposingParser:
    """The parser of `embedrun annotate`."""
    return ComposingParser("annotate", __doc__, _EXAMPLES)


def main(argv: Sequence[str]) -> int:
    """Run `embedrun annotate`."""
    request = parser().request(argv)
    return 0 if request is None else start(request, _check)


def _check(config: Plain) -> None:
    """Refuse a job of a multirun that cannot run."""
    from embedrun.curation.annotation.annotate import plan_annotate

    plan_annotate(config)
