"""Which evaluation rows are also in the training rows: sentence pairs, and single sentences."""

import argparse
from collections.abc import Sequence
from typing import Any

from embedrun.commands.arguments import Parser
from embedrun.console import say
from embedrun.dataset.named import data_split, unreadable
from embedrun.errors import ConfigError, DataError
from embedrun.experiment.data import lines, overlap, percent, table, totals
from embedrun.store import Store

_SETS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")
_EXAMPLES = """Two pairs are the same if their texts are, in either order: in lower case, with every run of
characters other than letters and digits as one space. A set of single texts, such as those of SentEval or
image captions, is compared by sentence. A data set is read with its default options.

examples:
  embedrun data audit stsb sts12 sts13 sts14 sts15 sts16
  embedrun data audit nli stsb_dev sickr --subsets
  embedrun data audit nli flickr30k mr trec"""


def main(argv: Sequence[str]) -> int:
    """Run `embedrun data audit`.

    Args:
        argv: what stands after `embedrun data audit`.

    Returns:
        The exit code: 0.

    Raises:
        ConfigError: if the command line is refused.
        DataError: if data is missing or faulty.
    """
    parser = _parser()
    try:
        arguments = parser.parse_intermixed_args(argv)
    except SystemExit as end:  # --help has been printed
        return int(end.code or 0)
    train, *given = arguments.names
    splits = _splits([(train, arguments.split), *((name, "test") for name in dict.fromkeys(given or _SETS))])
    store = Store.find(arguments.data_dir)
    if problems := unreadable(splits, store):
        raise DataError(problems)
    seen, *scored = [dataset.read(split, store) for dataset, split in splits]
    say(f"{len(seen):,} rows of {seen.name} {seen.split} as training data")
    found = [lines(rows, shared) for rows, shared in zip(scored, overlap([seen], scored), strict=True)]
    print(table(found, subsets=arguments.subsets))
    print()
    for total in totals(found):
        print(
            f"{total.seen:,} of {total.rows:,} {total.unit} ({percent(total.seen, total.rows)}) "
            f"are also in {seen.name} {seen.split}"
        )
    return 0


def _splits(wanted: Sequence[tuple[str, str]]) -> list[tuple[Any, str]]:
    problems, splits = [], []
    for word, split in wanted:
        try:
            splits.append(data_split(word, split))
        except ValueError as fault:
            problems.append(f"embedrun data audit: {fault}")
    if problems:
        raise ConfigError(problems)
    return splits


def _parser() -> Parser:
    parser = Parser(
        prog="embedrun data audit",
        usage="%(prog)s TRAIN [EVAL ...] [--split SPLIT] [--subsets] [--data-dir DIR]",
        description=__doc__,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "names",
        nargs="+",
        metavar="TRAIN",
        help="the data set that is trained on; behind it the test sets, or stsb_dev for a dev split, where "
        "they are not the seven STS test sets",
    )
    parser.add_argument("--split", default="train", metavar="SPLIT", help="of TRAIN; else train")
    parser.add_argument("--subsets", action="store_true", help="with a line for each subset")
    parser.add_argument(
        "--data-dir", metavar="DIR", help="the store; else EMBEDRUN_DATA, else the user's cache folder"
    )
    return parser
