"""Score labelled pairs by the cosines of teacher encoders, resumable; or mine hard negatives of pairs."""

from collections.abc import Sequence
from functools import partial

from embedrun.commands.command_line import ComposingParser

_EXAMPLES = (
    "embedrun annotate output=scored 'teachers=[{name: HUB_ID_OR_DIR}]'",
    "embedrun annotate output=scored shard=0/4 'teachers=[{name: A}, {name: B}]'",
    "embedrun annotate output=scored merge_only=true 'teachers=[{name: A}]'",
    "embedrun train dataset=nli_scored dataset.path=scored loss=raoe",
    "embedrun annotate mode=mine output=mined 'teachers=[{name: DIR}]'",
)
parser = partial(ComposingParser, "annotate", __doc__, _EXAMPLES)


def main(argv: Sequence[str]) -> int:
    """Run `embedrun annotate`."""
    return parser().start(argv)
