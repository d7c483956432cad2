"""Train, score and record one model; with -m, one for each combination."""

import sys
from collections.abc import Sequence

from embedrun.commands.command_line import ComposingParser, start
from embedrun.config.compose import composed
from embedrun.config.safety import launcher_of
from embedrun.errors import USAGE
from embedrun.launch.stages import run as run_stages
from embedrun.launch.stages import stages_of

_EXAMPLES = (
    "embedrun train +experiment=quickstart",
    "embedrun train +experiment=angle_stsb backbone.name=DIR pooling=auto",
    "embedrun train my.yaml training.lr=2e-5",
    "embedrun train -m +experiment=quickstart seed=1,2,3",
)


def parser() -> ComposingParser:
    """The parser of `embedrun train`."""
    return ComposingParser("train", __doc__, _EXAMPLES)


_WAYS = """embedrun train: say what to train:
  embedrun train +experiment=quickstart                a preset; embedrun train --help experiment lists them
  embedrun train dataset=pairs dataset.path=FILE.csv backbone.name=MODEL     your own rows
  embedrun train FILE.yaml                             your own file of options"""


def main(argv: Sequence[str]) -> int:
    """Run `embedrun train`."""
    if not argv:
        print(_WAYS, file=sys.stderr)
        return USAGE
    request = parser().request(argv)
    launcher_of(request.overrides)  # refuses one that there is not
    if stages := stages_of(request):
        return run_stages(stages)
    job = None if request.show or request.multirun else composed(request)
    if job is None or job.multirun or request.again:
        return start(request)
    from embedrun.experiment.training import run

    return run(job.config, list(job.overrides), job.directory, choices=job.choices).code
