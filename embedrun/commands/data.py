"""The data folder: list, fetch and verify its files; find test rows that are also in the training rows.

The cache of prepared data: list and remove its entries.
"""

import sys
import time
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from datetime import datetime

from embedrun.commands.command_line import Parser
from embedrun.config.check import nearest
from embedrun.console import Progress, aligned, clean, fitted, room, say, size
from embedrun.dataset import DataSet
from embedrun.dataset.named import data_split, unreadable
from embedrun.errors import ConfigError, DataError
from embedrun.experiment.contamination import lines, overlap, percent, table, totals
from embedrun.files import expanded
from embedrun.rows import Rows
from embedrun.store import Store, cache, choose, verify
from embedrun.store.catalogue import Catalogue

_EXAMPLES = """examples:
  embedrun data list
  embedrun data get stsb nli
  embedrun data check stsb sts12 --data-dir DIR
  embedrun data audit stsb sts12 sts13 sts14 sts15 sts16"""

_GET_EXAMPLES = """examples:
  embedrun data get stsb nli
  embedrun data get sts senteval --from /mnt/data

Where each data set is on the hub, at which revision, and how its columns are named: conf/hub.yaml. Files
that are there and correct are not fetched again: after a kill, run the same command to resume."""
_CLEAN_EXAMPLES = """The cache has rows that were read from files, their token ids and the scores of untrained
models. Removed entries are made again when needed. Your own files and the data folder are not touched.

examples:
  embedrun data clean --older-than 30
  embedrun data clean                    # all of it"""
_AUDIT_EXAMPLES = """Two pairs are the same if their texts are, in either order: in lower case, with every run
of characters other than letters and digits as one space. A set of single texts, such as those of SentEval or
image captions, is compared by sentence. A data set is read with its default options.

examples:
  embedrun data audit stsb sts12 sts13 sts14 sts15 sts16
  embedrun data audit nli stsb_dev sickr --subsets
  embedrun data audit stsb sickr --near 0.9,0.8,0.7
  embedrun data audit nli flickr30k mr trec"""


def parser() -> Parser:
    """The parser of `embedrun data`; `parsers` has those of its actions."""
    made = Parser("embedrun data", description=__doc__, examples=_EXAMPLES)
    add = made.add_subparsers(dest="action", required=True, metavar="|".join(_RUN)).add_parser
    listing = add("list", help="each data set with its rows and licence", examples=_EXAMPLES)
    listing.add_argument("--files", action="store_true", help="list files instead, each with size and state")
    check = add("check", help="check files against the manifest and published counts", examples=_EXAMPLES)
    what = "a data set (stsb), a group of them (senteval), a folder, a file or its stem (snli_dev)"
    check.add_argument("names", nargs="*", metavar="NAME", help=what)
    about = "fetch data sets from the hub or a mounted copy"
    get = add("get", help=about, description=__doc__, examples=_GET_EXAMPLES)
    what = "a data set (stsb), a group of them (nli) or a file of one"
    get.add_argument("names", nargs="*", metavar="NAME", help=what)
    what = "copy from this data folder with its MANIFEST.json, not from the hub; without NAME, all of it"
    get.add_argument("--from", dest="source", type=expanded, metavar="FOLDER", help=what)
    audit = add(
        "audit",
        help="evaluation rows that are also in the training rows",
        usage="%(prog)s TRAIN [EVAL ...] [--split SPLIT] [--subsets] [--near 0.7]\n"
        "                           [--data-dir DIR]",
        description=__doc__,
        examples=_AUDIT_EXAMPLES,
    )
    what = (
        "the training set, then the sets to compare it with (stsb_dev: a dev split); without these, the "
        "seven STS test sets"
    )
    audit.add_argument("names", nargs="+", metavar="TRAIN", help=what)
    audit.add_argument("--split", default="train", metavar="SPLIT", help="split of TRAIN; else train")
    audit.add_argument("--subsets", action="store_true", help="add a line for each subset")
    what = "also rows that are near: shared words, 0.7, or several levels, 0.9,0.8,0.7"
    audit.add_argument("--near", type=_levels, default=(), metavar="LEVEL", help=what)
    sweep = add("clean", help="remove entries of the cache of prepared data", examples=_CLEAN_EXAMPLES)
    what = "only entries not used for this many days; else all"
    sweep.add_argument("--older-than", type=float, metavar="DAYS", help=what)
    for action in (listing, check, get, audit):
        what = "the store; else EMBEDRUN_DATA, else the user's cache folder"
        action.add_argument("--data-dir", metavar="DIR", help=what)
    return made


def main(argv: Sequence[str]) -> int:
    """Run `embedrun data`."""
    made = parser()
    if not argv or argv[0].startswith("-"):
        made.read(argv)  # which prints --help or refuses
    if argv[0] not in _RUN:
        hint = nearest(argv[0], _RUN)
        raise ConfigError(f"embedrun data: no action {argv[0]!r}{hint} (there are: {', '.join(_RUN)})")
    _RUN[argv[0]](made.parsers[argv[0]].read(argv[1:]))
    return 0


def _list(arguments: Namespace) -> None:
    from embedrun.store.fill import listing

    store = Store.find(arguments.data_dir)
    print(clean(f"data folder {store.root}"))
    if arguments.files:
        _list_files(store)
        return
    # The data set and how much of it is here come before where it is and its licence.
    print(fitted(listing(store, Catalogue.read()), room(), right=(1, 2)))
    kept = cache.entries()
    say(f"\nprepared and kept in {cache.folder()}: {cache.summary(kept)}", sys.stdout)
    _print_entries("what", kept)


def _print_entries(heading: str, entries: Sequence[cache.Entry]) -> None:
    rows = [[heading, "size", "last used"]]
    for entry in entries:
        used = datetime.fromtimestamp(entry.used).isoformat(" ", "minutes")
        rows.append([clean(entry.what or "(left by a process that was killed)"), size(entry.size), used])
    if entries:
        print(fitted(rows, room(), right=(1,)))


def _list_files(store: Store) -> None:
    listed = {entry["path"]: entry for entry in store.manifest}
    present = [path for path in listed if store.has(path)]
    table = [["file", "rows", "packed bytes", "state"]]
    for path, entry in listed.items():
        state = "present" if path in present else "missing"
        table.append([path, f"{entry['rows']:,}", f"{entry['bytes']:,}", state])
    for path in sorted(store.root.rglob("*.gz")):
        name = path.relative_to(store.root).as_posix()
        if name not in listed:
            table.append([name, "?", f"{path.stat().st_size:,}", "not in the manifest"])
    print(fitted(table, room(), right=(1, 2)))
    missing = len(listed) - len(present)
    print(f"{len(listed)} files in the manifest, {len(present)} present, {missing} missing")


def _check(arguments: Namespace) -> None:
    store, catalogue = Store.find(arguments.data_dir), Catalogue.read()
    entries = {entry["path"]: entry for entry in store.manifest}
    chosen = choose("embedrun data check", arguments.names, entries, catalogue)
    problems: list[str] = []
    faulty = 0
    for path in chosen:
        faults = verify(store, entries[path], catalogue)
        faulty += bool(faults)
        print(clean(f"{path}: {f'faults: {len(faults)}' if faults else 'whole'}"), flush=True)
        problems += faults
    print(f"{len(chosen)} files checked, {len(chosen) - faulty} whole, {faulty} faulty")
    if problems:
        raise DataError(problems)


def _get(arguments: Namespace) -> None:
    from embedrun.store.fill import from_folder, from_hub

    store, catalogue = Store.find(arguments.data_dir), Catalogue.read()
    if arguments.source is None:
        results = from_hub(store, arguments.names, catalogue)
    else:
        results = from_folder(store, arguments.source, arguments.names, catalogue)
    rows = [[file.path, f"{file.rows:,}", file.state] for file in results]
    print(clean(f"data folder {store.root}"))
    print(fitted([["file", "rows", "state"], *rows], room(), right=(1,)))


_SETS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")


def _audit(arguments: Namespace) -> None:
    train, *given = arguments.names
    splits = _splits([(train, arguments.split), *((name, "test") for name in dict.fromkeys(given or _SETS))])
    store = Store.find(arguments.data_dir)
    if problems := unreadable(splits, store):
        raise DataError(problems)
    seen, *scored = [dataset.read(split, store) for dataset, split in splits]
    say(f"{len(seen):,} rows of {seen.name} {seen.split} as training data")
    audited = [lines(rows, shared) for rows, shared in zip(scored, overlap([seen], scored), strict=True)]
    print(f"{table(audited, subsets=arguments.subsets)}\n")
    for total in totals(audited):
        say(
            f"{total.seen:,} of {total.rows:,} {total.unit} ({percent(total.seen, total.rows)}) "
            f"are also in {seen.name} {seen.split}",
            sys.stdout,
        )

    if arguments.near:
        _show_near(seen, scored, sorted(arguments.near, reverse=True))


def _show_near(seen: Rows, scored: Sequence[Rows], levels: Sequence[float]) -> None:
    from embedrun.experiment.near import near_rows

    cells = [["set", "split", "rows", "equal", *(f"near {level:g}" for level in levels)]]
    equal = overlap([seen], scored)
    with Progress("near", len(scored), "sets", brief=True) as bar:
        for done, (rows, shared) in enumerate(zip(scored, equal, strict=True), 1):
            near = near_rows([seen], rows, levels)
            counts = [int(shared.rows.sum()), *(int(is_near.sum()) for is_near in near.values())]
            cells.append([rows.name, rows.split, f"{len(rows):,}", *(f"{count:,}" for count in counts)])
            bar.reach(done)
    print(f"\n{aligned(cells, right=range(2, len(cells[0])))}")


def _levels(text: str) -> tuple[float, ...]:
    levels = tuple(float(word) for word in text.split(",") if word.replace(".", "", 1).isdigit())
    if len(levels) < len(text.split(",")) or not all(0 < level <= 1 for level in levels):
        raise ArgumentTypeError(f"expected shares of words above 0 and up to 1, as 0.9,0.7; got {text!r}")
    return levels


def _splits(words: Sequence[tuple[str, str]]) -> list[tuple[DataSet, str]]:
    splits, problems = [], []
    for word, split in words:
        try:
            splits.append(data_split(word, split))
        except ValueError as fault:
            problems.append(f"embedrun data audit: {fault}")
    if problems:
        raise ConfigError(problems)
    return splits


def _clean(arguments: Namespace) -> None:
    days = arguments.older_than
    removed = cache.clean(before=None if days is None else time.time() - 86_400 * days)
    _print_entries("removed", removed)
    say(f"removed from {cache.folder()}: {cache.summary(removed)}", sys.stdout)


_RUN: dict[str, Callable[[Namespace], None]] = {
    "list": _list, "get": _get, "check": _check, "audit": _audit, "clean": _clean
}  # fmt: skip
