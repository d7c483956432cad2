"""List runs: state, options, main score. With --diff, show how two runs or groups differ, with intervals."""

import argparse
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from embedrun.commands.command_line import Parser
from embedrun.console import clean, room, say
from embedrun.errors import ConfigError, DataError
from embedrun.files import to_printed_json
from embedrun.runs import listing, sums
from embedrun.runs.listing import Wanted
from embedrun.runs.search import meant

_DEFAULT = Path("outputs")
_DRAWS = 1_000
_FEWEST_DRAWS = 100  # below it, the ends of a 95 % interval are the two or three outermost draws
_EXAMPLES = """--diff A B resamples the scored rows: a paired bootstrap gives each difference a 95 %
interval, a paired permutation test a two-sided p-value. Both ignore the variation between
seeds. --diff A1 A2 A3 -- B1 B2 B3 compares two groups over their seeds; the runs of a group may differ only
in the seed. A folder stands for the finished runs below it. No p-value is corrected for multiple comparisons.

examples:
  embedrun runs
  embedrun runs --filter loss=cosent,angle --filter state=finished --sort score --limit 10
  embedrun runs outputs/angle_stsb --columns loss,seed,sts/stsb/spearman
  embedrun runs --verify latest
  embedrun runs --diff abcdef latest
  embedrun runs --diff outputs/a/2026-01-01_* -- outputs/b/2026-01-01_*"""


def parser() -> Parser:
    """The parser of `embedrun runs`."""
    made = Parser(
        "embedrun runs",
        usage="%(prog)s [DIR ...] [--filter KEY=VALUE] [--sort KEY] [--reverse]\n"
        "                    [--limit N] [--columns KEY,KEY] [--json]\n"
        "       %(prog)s [DIR ...] --verify\n"
        "       %(prog)s --diff A B [--draws N] [--json]\n"
        "       %(prog)s --diff A [A ...] -- B [B ...] [--json]",
        description=__doc__,
        examples=_EXAMPLES,
    )
    what = "a run, by its directory or name, or a folder with runs below; else outputs"
    made.add_argument("folders", nargs="*", type=Path, metavar="DIR", help=what)
    what = "only runs with this value, or one of KEY=A,B: state, kind, name, a group (loss) or an option"
    made.add_argument("--filter", action="append", default=[], metavar="KEY=VALUE", help=what)
    what = "sort by score, started or a key of --filter; the highest score comes first"
    made.add_argument("--sort", metavar="KEY", help=what)
    made.add_argument("--reverse", action="store_true", help="the other way round")
    what = "show N runs: the first ones with --sort, else those that began last"
    made.add_argument("--limit", type=int, metavar="N", help=what)
    what = "show these options or scores (sts/stsb/spearman) instead of the options that differ"
    made.add_argument("--columns", type=_keys, default=[], metavar="KEY,KEY", help=what)
    what = "compare two runs, or two groups of runs with -- between them: every difference is B less A"
    made.add_argument("--diff", nargs="+", type=Path, metavar=("A", "B"), help=what)
    made.add_argument("--against", nargs="+", type=Path, default=[], help=argparse.SUPPRESS)  # typed as --
    what = f"with --diff: draws behind an interval, and ten times as many behind a p-value; else {_DRAWS}"
    made.add_argument("--draws", type=int, metavar="N", help=what)
    what = "read every byte of the models of these runs, and compare it with the SHA-256 of each run"
    made.add_argument("--verify", action="store_true", help=what)
    made.add_argument("--json", action="store_true", help="print everything as one JSON object")
    return made


def _keys(text: str) -> list[str]:
    return [key.strip() for key in text.split(",") if key.strip()]


def main(argv: Sequence[str]) -> int:
    """Run `embedrun runs`; DataError if a file of the runs of --diff cannot be read."""
    given = parser().read(["--against" if word == "--" else word for word in argv])
    if given is None:
        return 0
    where, problems = listing.filters(given.filter, "embedrun runs")
    if problems := problems or _misused(given):
        raise ConfigError(problems)
    if given.diff is not None:
        _diff(given)
    elif given.verify:
        _verify(_places(given.folders))
    else:
        _list(given, where)
    return 0


def _misused(given: argparse.Namespace) -> list[str]:
    of_list = any([given.filter, given.sort, given.reverse, given.limit is not None, given.columns])
    of_diff = any([given.draws is not None, given.against])
    is_diff = given.diff is not None
    is_pair = bool(given.against) or len(given.diff or ()) == 2
    draws = _DRAWS if given.draws is None else given.draws
    rules = {
        f"--limit must be 1 or more, got {given.limit}": given.limit is not None and given.limit < 1,
        f"--draws must be {_FEWEST_DRAWS} or more, got {draws}": draws < _FEWEST_DRAWS,
        "--verify goes with DIR alone": given.verify and any([of_list, of_diff, given.json, is_diff]),
        "--draws goes with --diff A B": of_diff and not is_diff,
        "--filter, --sort, --reverse, --limit and --columns are of the list": is_diff and of_list,
        "--diff takes two runs, --diff A B, or two groups of runs with -- between them, "
        "--diff A1 A2 -- B1 B2, and no DIR beside them": is_diff and not (is_pair and not given.folders),
    }
    return [f"embedrun runs: {problem}" for problem, broken in rules.items() if broken]


def _places(folders: Sequence[Path]) -> list[Path]:
    places = [meant(folder) for folder in folders]
    if missing := [str(place) for place in places if not place.is_dir()]:
        raise ConfigError([f"embedrun runs: there is no folder {name!r}" for name in missing])
    return places or [path for path in [_DEFAULT] if path.is_dir()]


def _list(given: argparse.Namespace, where: Mapping[str, Sequence[str]]) -> None:
    runs = listing.find(_places(given.folders))
    wanted = Wanted(where, given.sort, given.reverse, given.limit, given.columns)
    if given.json:
        print(to_printed_json(listing.data(runs, wanted)))
        return
    for line in runs.broken:
        say(f"passed over: {line}")
    if runs.runs:
        print(listing.table(runs, datetime.now(UTC), wanted, room()))
    else:
        say(f"no runs below {', '.join(map(str, given.folders or [_DEFAULT]))}")


def _verify(folders: Sequence[Path]) -> None:
    faults = []
    for run in listing.find(folders).runs:
        model = run.path / "model"
        if not model.is_dir():
            continue
        try:
            sums.verify(model, every_byte=True)
        except DataError as fault:
            faults += fault.problems
        else:
            state = "whole" if (model / sums.FILE).is_file() else f"has no {sums.FILE}"
            print(clean(f"{model}: {state}"), flush=True)
    if faults:
        raise DataError(faults)


def _diff(given: argparse.Namespace) -> None:
    from embedrun.report import diff

    paths = (given.diff, given.against) if given.against else ([path] for path in given.diff)
    a, b = (diff.group(side, list(map(meant, named))) for side, named in zip("AB", paths, strict=True))
    here, there = ({run.path.resolve(): run for run in side.runs.values()} for side in (a, b))
    if twice := [str(here[path].path) for path in here.keys() & there.keys()]:
        raise ConfigError(
            f"embedrun runs: --diff: A and B both have {', '.join(sorted(twice))}; name another run on one "
            "side (embedrun runs lists them)"
        )
    if len(here) == len(there) == 1:
        result = diff.diff(*here.values(), *there.values(), draws=given.draws or _DRAWS)
        for note in (*a.notes, *b.notes):
            say(note)
    else:
        result = diff.diff_groups(a, b)
    print(to_printed_json(result) if given.json else diff.text(result))
