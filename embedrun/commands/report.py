"""Put a run on one page: scores, curves, plots, worst-predicted pairs, configuration, in one HTML file."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from embedrun.commands.arguments import Parser
from embedrun.console import say
from embedrun.errors import DISK, ConfigError, exit_code
from embedrun.runs.reading import RunFiles, is_run

FILE = "report.html"
_PAGES = (".html", ".htm")
_EPILOG = """The page opens in any browser, without a network and without a script. Texts of the worst-
predicted pairs are read from the data set again, where it is at hand and is the one that the run read.
A run with the configuration of a row of a paper's table stands beside the numbers printed there.

examples:
  embedrun report outputs/quickstart/2026-01-01_12-00-00-abcdef
  embedrun report RUN_DIR -o angle.html"""


def main(argv: Sequence[str]) -> int:
    """Run `embedrun report`.

    Args:
        argv: what stands after `embedrun report`.

    Returns:
        The exit code: 0.

    Raises:
        ConfigError: if the folder is no run directory, or the page cannot be written to its place.
        DataError: if a small file of the run cannot be read.
    """
    try:
        arguments = _parser().parse_intermixed_args(argv)
    except SystemExit as end:  # --help has been printed
        return int(end.code or 0)
    if problems := [*_no_run(arguments.run), *_no_place(arguments.output)]:
        raise ConfigError(problems)
    if arguments.output is None:
        from embedrun.runs.directory import check_links

        check_links(arguments.run)
    print(write(arguments.run, arguments.output))
    return 0


def write(folder: Path, output: Path | None = None) -> Path:
    """Write the page of a run and return where it is.

    Args:
        folder: the run directory.
        output: of the page; None: `report.html` in the run directory.

    Raises:
        ConfigError: if the page cannot be written there.
        DataError: if a small file of the run cannot be read.
    """
    from embedrun import report
    from embedrun.commands.report_pairs import scored_pairs
    from embedrun.commands.report_paper import printed
    from embedrun.files import write_atomically

    run = RunFiles.read(folder)
    predictions, remarks = scored_pairs(run)
    published, source = printed(run)
    facts = report.gather(run, predictions=predictions, published=published, source=source, remarks=remarks)
    path = folder / FILE if output is None else output
    try:
        write_atomically(path, report.render(facts))
    except OSError as fault:
        if exit_code(fault) == DISK:
            raise
        raise ConfigError(
            f"embedrun report: {str(path)!r} cannot be written ({fault.strerror}); name a file with -o FILE"
        ) from fault
    return path


def write_or_warn(folder: Path) -> None:
    """Write the page of a run that has ended; what is in the way is one warning, and nothing fails."""
    try:
        write(folder)
    except Exception as fault:
        why = " ".join(str(fault).split()) or type(fault).__name__
        say(f"warning: no {FILE}: {why}; embedrun report {folder} tries again")


def _parser() -> Parser:
    parser = Parser(
        prog="embedrun report",
        usage="%(prog)s RUN_DIR [-o FILE]",
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("run", type=Path, metavar="RUN_DIR", help="directory of a run, finished or not")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help=f"where the page goes; else RUN_DIR/{FILE}"
    )
    return parser


def _no_run(path: Path) -> list[str]:
    """Why a folder has no page; nothing where it is a run directory."""
    try:
        if is_run(path):
            return []
    except OSError:
        pass
    what = "is no run directory: it has no status.json" if path.is_dir() else "is no folder"
    return [f"embedrun report: {str(path)!r} {what}; embedrun runs DIR lists the runs below a folder"]


def _no_place(path: Path | None) -> list[str]:
    """Why a page cannot go to a place that the user named."""
    if path is None:
        return []
    try:
        what = _unfit(path)
    except OSError as fault:  # a name that is too long, a folder that may not be looked into
        what = f"cannot be written ({fault.strerror})"
    return [f"embedrun report: -o: {str(path)!r} {what}; name a file"] if what else []


def _unfit(path: Path) -> str:
    """Why no page goes there; empty where one does. Only what may be an older page is written over."""
    if path.is_dir():
        return "is a folder"
    if not path.parent.is_dir():
        return f"cannot be made: there is no folder {str(path.parent)!r}"
    if path.is_symlink():
        return "is a link"
    if not path.exists():
        return ""
    if not path.is_file():
        return "is no regular file"
    return "" if path.suffix.lower() in _PAGES else f"exists and does not end in {' or '.join(_PAGES)}"
