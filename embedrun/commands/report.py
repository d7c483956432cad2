"""Write the page of a run; or one page over all runs below a folder, with a table and their curves."""

from collections.abc import Sequence
from pathlib import Path

from embedrun.commands.command_line import Parser
from embedrun.console import clean, say
from embedrun.errors import ConfigError
from embedrun.report import overview
from embedrun.report.page import FILE, place_problems, write
from embedrun.runs.reading import is_run
from embedrun.runs.search import meant, refuse_code

_EPILOG = """A page opens in any browser, without a network. The texts of the worst-predicted pairs
are read from the data set again, if it is available and has not changed since the run.

The page over many runs has a table to sort and filter, and one plot with the curves of all ticked runs. Runs
that differ only in the seed form one row, with mean and standard deviation. With --watch, the page is updated
until Ctrl-C, and reloads itself in the browser.

examples:
  embedrun report outputs/quickstart/2026-01-01_12-00-00-abcdef
  embedrun report latest -o angle.html
  embedrun report outputs
  embedrun report outputs --watch
  embedrun report RUN_A RUN_B RUN_C -o compared.html"""


def parser() -> Parser:
    """The parser of `embedrun report`."""
    made = Parser(
        "embedrun report",
        usage="%(prog)s RUN_DIR [-o FILE]\n       %(prog)s DIR ... [-o FILE] [--watch]",
        description=__doc__,
        examples=_EPILOG,
    )
    what = "a run, by its directory or name, or a folder with runs below"
    made.add_argument("runs", nargs="+", type=Path, metavar="DIR", help=what)
    what = f"where the page goes; else RUN_DIR/{FILE}, or DIR/{overview.FILE}; needed with several DIR"
    made.add_argument("-o", "--output", type=Path, metavar="FILE", help=what)
    what = "with a folder or several DIR: update the page while runs continue, until Ctrl-C"
    made.add_argument("--watch", action="store_true", help=what)
    return made


def main(argv: Sequence[str]) -> int:
    """Run `embedrun report`."""
    arguments = parser().read(argv)
    if arguments is None:
        return 0
    runs, output, watch = [meant(path) for path in arguments.runs], arguments.output, arguments.watch
    if len(runs) == 1 and (is_run(runs[0]) or not runs[0].is_dir()):
        _page(runs[0], output, watch)
    else:
        _many(runs, output, watch)
    return 0


def _page(run: Path, output: Path | None, watch: bool) -> None:
    problems = place_problems(output)
    if not is_run(run):
        problems.append(f"embedrun report: there is no folder {str(run)!r}; embedrun runs lists the runs")
    if watch:
        problems.append("embedrun report: --watch goes with a folder with runs below, or with several runs")
    if problems:
        raise ConfigError(problems)
    refuse_code(run)
    print(clean(str(write(run, output))))


def _many(folders: Sequence[Path], output: Path | None, watch: bool) -> None:
    problems = [f"embedrun report: there is no folder {str(path)!r}" for path in folders if not path.is_dir()]
    if output is None and len(folders) > 1:
        problems.append("embedrun report: -o: several DIR have one page, which needs a name, as -o runs.html")
    place = folders[0] / overview.FILE if output is None else output
    if problems := problems or place_problems(place):
        raise ConfigError(problems)
    overview.write(folders, place, reload=overview.EVERY if watch else None)
    print(clean(str(place)), flush=True)
    if watch:
        say(f"written again every {overview.EVERY:.0f} s or more, until Ctrl-C")
        overview.watch(folders, place)
        say("\nended; the page stays")
