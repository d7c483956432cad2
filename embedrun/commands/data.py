"""The local data store: what is there, and is it whole."""

import argparse
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from embedrun.commands.arguments import Parser
from embedrun.config.spelling import nearest
from embedrun.console import aligned, clean
from embedrun.errors import ConfigError, DataError
from embedrun.store import Store, verify

_ACTIONS = ("list", "check")
_EXAMPLES = """examples:
  embedrun data list
  embedrun data check stsb sts12 --data-dir DIR"""


def main(argv: Sequence[str]) -> int:
    """Run `embedrun data`.

    Args:
        argv: what stands after `embedrun data`.

    Returns:
        The exit code: 0.

    Raises:
        ConfigError: if the command line is refused.
        DataError: if there is no store, or `check` finds a fault.
    """
    if argv and not argv[0].startswith("-") and argv[0] not in _ACTIONS:
        hint = nearest(argv[0], _ACTIONS)
        raise ConfigError(f"embedrun data: no action {argv[0]!r}{hint} (there are: {', '.join(_ACTIONS)})")
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as end:  # --help has been printed
        return int(end.code or 0)
    store = Store.find(arguments.data_dir)
    if arguments.action == "list":
        _list(store)
    else:
        _check(store, arguments.names)
    return 0


def _parser() -> argparse.ArgumentParser:
    style = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    parser = Parser(prog="embedrun data", description=__doc__, epilog=_EXAMPLES, **style)
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|check")
    listing = actions.add_parser(
        "list", help="each file with its rows, size and state", epilog=_EXAMPLES, **style
    )
    check = actions.add_parser(
        "check", help="hold files against the manifest: checksum, rows, counts", epilog=_EXAMPLES, **style
    )
    check.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="a folder (stsb), a file (sts/sts12.tsv.gz) or its stem (sts12)",
    )
    for action in (listing, check):
        action.add_argument(
            "--data-dir", metavar="DIR", help="the store; else EMBEDRUN_DATA, else the user's cache folder"
        )
    return parser


def _list(store: Store) -> None:
    entries = store.manifest
    table = [["file", "rows", "packed bytes", "state"]]
    for entry in entries:
        state = "present" if store.has(entry["path"]) else "missing"
        table.append([entry["path"], f"{entry['rows']:,}", f"{entry['bytes']:,}", state])
    listed = {entry["path"] for entry in entries}
    for path in sorted(store.root.rglob("*.gz")):
        name = path.relative_to(store.root).as_posix()
        if name not in listed:
            table.append([name, "?", f"{path.stat().st_size:,}", "not in the manifest"])
    there = sum(store.has(name) for name in listed)
    print(clean(f"data folder {store.root}"))
    print(aligned(table, right=(1, 2)))
    print(f"{len(entries)} files in the manifest, {there} present, {len(entries) - there} missing")


def _check(store: Store, names: Sequence[str]) -> None:
    entries = _chosen(store.manifest, names)
    problems: list[str] = []
    faulty = 0
    for entry in entries:
        found = verify(store, entry)
        faulty += bool(found)
        state = f"{len(found)} fault{'s' if len(found) > 1 else ''}" if found else "whole"
        print(clean(f"{entry['path']}: {state}"), flush=True)
        problems += found
    print(f"{len(entries)} files checked, {len(entries) - faulty} whole, {faulty} faulty")
    if problems:
        raise DataError(problems)


def _chosen(entries: Sequence[dict[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    """The entries that the names mean, in manifest order; all of them where no name is given."""
    known = {entry["path"]: _names(entry["path"]) for entry in entries}
    words = sorted(set().union(*known.values()))
    problems = [
        f"embedrun data check: nothing is named {name!r}{nearest(name, words)}; "
        "embedrun data list shows every file"
        for name in names
        if name.rstrip("/") not in words
    ]
    if problems:
        raise ConfigError(problems)
    wanted = {name.rstrip("/") for name in names}
    return [entry for entry in entries if not wanted or wanted & known[entry["path"]]]


def _names(path: str) -> set[str]:
    pure = PurePosixPath(path)
    folders = {parent.as_posix() for parent in pure.parents} - {"."}
    return {path, pure.name.split(".")[0], *folders}
