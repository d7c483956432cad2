"""List runs: state, options, main score. With --diff, what two of them differ in, and how surely."""

from collections.abc import Sequence
from pathlib import Path

from embedrun.commands.command_line import Parser
from embedrun.console import say
from embedrun.errors import ConfigError, DataError
from embedrun.runs.reading import RunFiles, is_run

_DEFAULT = Path("outputs")
_DRAWS = 1_000
_FEWEST_DRAWS = 100  # below it, the ends of a 95 % interval are the two or three outermost draws
_NAMED = 5  # folders without a run that are named
_EXAMPLES = """--diff compares two runs. A paired bootstrap, both runs on the same resampled rows, gives
each difference a 95 % interval. A paired permutation test, the two swapped at random row by row, gives a
two-sided p-value: the share of draws with a difference at least as large. The p-values are not corrected for
multiple comparisons.

examples:
  embedrun runs
  embedrun runs outputs/angle_stsb --json
  embedrun runs --diff outputs/a/2026-01-01_12-00-00-abcdef outputs/b/2026-01-01_13-00-00-fedcba"""


def parser() -> Parser:
    """The parser of `embedrun runs`."""
    made = Parser(
        "embedrun runs",
        usage="%(prog)s [DIR ...] [--json]\n       %(prog)s --diff A B [--draws N] [--json]",
        description=__doc__,
        examples=_EXAMPLES,
    )
    made.add_argument(
        "folders",
        nargs="*",
        type=Path,
        metavar="DIR",
        help="a run, or a folder with runs below; else outputs",
    )
    made.add_argument(
        "--diff",
        nargs=2,
        type=Path,
        metavar=("A", "B"),
        help="compare two runs: every difference is B less A",
    )
    made.add_argument(
        "--draws",
        type=int,
        metavar="N",
        help=f"with --diff: draws behind an interval, and ten times as many behind a p-value; else {_DRAWS}",
    )
    made.add_argument("--json", action="store_true", help="print everything as one JSON object")
    return made


def main(argv: Sequence[str]) -> int:
    """Run `embedrun runs`; DataError if a file of the two runs of --diff cannot be read."""
    arguments = parser().read(argv)
    if arguments is None:
        return 0
    if arguments.diff is None:
        if arguments.draws is not None:
            raise ConfigError("embedrun runs: --draws goes with --diff A B")
        _list(arguments.folders, as_json=arguments.json)
        return 0
    if arguments.folders:
        raise ConfigError("embedrun runs: --diff takes exactly two run directories, and no DIR beside them")
    draws = _DRAWS if arguments.draws is None else arguments.draws
    if draws < _FEWEST_DRAWS:
        raise ConfigError(f"embedrun runs: --draws must be {_FEWEST_DRAWS} or more, got {draws}")
    _diff(arguments.diff, draws, as_json=arguments.json)
    return 0


def _list(folders: Sequence[Path], *, as_json: bool) -> None:
    from datetime import UTC, datetime

    from embedrun.runs import listing

    if missing := [str(folder) for folder in folders if not folder.is_dir()]:
        raise ConfigError([f"embedrun runs: there is no folder {name!r}" for name in missing])
    found = listing.find(folders or [path for path in [_DEFAULT] if path.is_dir()])
    if as_json:
        _print_json(listing.data(found))
        return
    for line in found.broken:
        say(f"passed over: {line}")
    inside = [found.where(path) for path in found.foreign if path not in (*folders, _DEFAULT)]
    if inside:
        more = f" and {len(inside) - _NAMED} more" if len(inside) > _NAMED else ""
        say(f"no run in {', '.join(inside[:_NAMED])}{more}")
    if found.runs:
        print(listing.table(found, datetime.now(UTC)))
    else:
        say(f"no runs below {', '.join(map(found.where, folders or [_DEFAULT]))}")


def _diff(paths: Sequence[Path], draws: int, *, as_json: bool) -> None:
    from embedrun.report import diff

    if problems := [_no_run(path) for path in paths if not _is_run(path)]:
        raise ConfigError(problems)
    runs, faults = [], []
    for path in paths:
        try:
            runs.append(RunFiles.read(path))
        except DataError as fault:
            faults += fault.problems
    if faults:
        raise DataError(faults)
    found = diff.diff(*runs, draws=draws)
    if as_json:
        _print_json(found)
    else:
        print(diff.text(found))


def _is_run(path: Path) -> bool:
    try:
        return is_run(path)
    except OSError:
        return False


def _no_run(path: Path) -> str:
    what = "is not a run directory: it has no status.json" if path.is_dir() else "is not a folder"
    return f"embedrun runs: --diff: {str(path)!r} {what}; embedrun runs DIR lists the runs below a folder"


def _print_json(data: object) -> None:
    import json

    print(json.dumps(data, indent=2, allow_nan=False))
