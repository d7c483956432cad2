"""Put a run on one page: scores, curves, plots, worst-predicted pairs, configuration, in one HTML file."""

from collections.abc import Sequence
from pathlib import Path

from embedrun.commands.command_line import Parser
from embedrun.errors import ConfigError
from embedrun.report.page import FILE, _no_place, _no_run, write
from embedrun.runs.directory import check_links

_EPILOG = """The page opens in any browser, without a network and without a script. Texts of the worst-
predicted pairs are read from the data set again, where it is at hand and is the one that the run read.
A run with the configuration of a row of a paper's table stands beside the numbers printed there.

examples:
  embedrun report outputs/quickstart/2026-01-01_12-00-00-abcdef
  embedrun report RUN_DIR -o angle.html"""


def parser() -> Parser:
    """The parser of `embedrun report`."""
    made = Parser(
        "embedrun report", usage="%(prog)s RUN_DIR [-o FILE]", description=__doc__, examples=_EPILOG
    )
    made.add_argument("run", type=Path, metavar="RUN_DIR", help="directory of a run, finished or not")
    made.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help=f"where the page goes; else RUN_DIR/{FILE}"
    )
    return made


def main(argv: Sequence[str]) -> int:
    """Run `embedrun report`; DataError if a small file of the run cannot be read."""
    arguments = parser().read(argv)
    if arguments is None:
        return 0
    if problems := [*_no_run(arguments.run), *_no_place(arguments.output)]:
        raise ConfigError(problems)
    if arguments.output is None:
        check_links(arguments.run)
    print(write(arguments.run, arguments.output))
    return 0
