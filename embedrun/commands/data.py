"""The local data store: what is there, is it whole, and which evaluation rows are in the training rows."""

import argparse
from collections.abc import Sequence

from embedrun.commands.arguments import Parser
from embedrun.config.check import nearest
from embedrun.console import aligned, clean
from embedrun.errors import ConfigError, DataError
from embedrun.store import Store, verify
from embedrun.store.catalogue import Catalogue
from embedrun.store.folder import choose

_ACTIONS = ("list", "get", "check", "audit")
_EXAMPLES = """examples:
  embedrun data list
  embedrun data get stsb nli
  embedrun data check stsb sts12 --data-dir DIR
  embedrun data audit stsb sts12 sts13 sts14 sts15 sts16"""


def main(argv: Sequence[str]) -> int:
    """Run `embedrun data`.

    Args:
        argv: what stands after `embedrun data`.

    Returns:
        The exit code: 0.

    Raises:
        ConfigError: if the command line is refused.
        DataError: if there is no store, `check` finds a fault, or `audit` cannot read a data set.
    """
    if argv and not argv[0].startswith("-") and argv[0] not in _ACTIONS:
        hint = nearest(argv[0], _ACTIONS)
        raise ConfigError(f"embedrun data: no action {argv[0]!r}{hint} (there are: {', '.join(_ACTIONS)})")
    if argv and argv[0] == "audit":
        from embedrun.commands import audit

        return audit.main(argv[1:])
    if argv and argv[0] == "get":
        from embedrun.commands import get

        return get.main(argv[1:])
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as end:  # --help has been printed
        return int(end.code or 0)
    store = Store.find(arguments.data_dir)
    if arguments.action == "list":
        _list(store, files=arguments.files)
    else:
        _check(store, arguments.names)
    return 0


def _parser() -> argparse.ArgumentParser:
    style = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    parser = Parser(prog="embedrun data", description=__doc__, epilog=_EXAMPLES, **style)
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|get|check|audit")
    listing = actions.add_parser(
        "list", help="each data set with its rows, licence and presets", epilog=_EXAMPLES, **style
    )
    check = actions.add_parser(
        "check", help="hold files against the manifest and published counts", epilog=_EXAMPLES, **style
    )
    # These two take their arguments apart themselves.
    actions.add_parser("get", help="fill it from the hub or a mounted copy", add_help=False)
    actions.add_parser("audit", help="evaluation rows that are also in the training rows", add_help=False)
    check.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="a data set (stsb), a group of them (senteval), a folder, a file or its stem (snli_dev)",
    )
    listing.add_argument("--files", action="store_true", help="each file with its size and state instead")
    for action in (listing, check):
        action.add_argument(
            "--data-dir", metavar="DIR", help="the store; else EMBEDRUN_DATA, else the user's cache folder"
        )
    return parser


def _list(store: Store, *, files: bool) -> None:
    if files:
        _list_files(store)
        return
    from embedrun.dataset.named import presets_by_data_set
    from embedrun.store.fill import RIGHT, listing

    catalogue = Catalogue.read()
    print(clean(f"data folder {store.root}"))
    print(aligned(listing(store, catalogue, presets_by_data_set(store, catalogue)), right=RIGHT))


def _list_files(store: Store) -> None:
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
    catalogue = Catalogue.read()
    wanted = set(choose("embedrun data check", names, [one["path"] for one in store.manifest], catalogue))
    entries = [entry for entry in store.manifest if entry["path"] in wanted]
    problems: list[str] = []
    faulty = 0
    for entry in entries:
        found = verify(store, entry, catalogue)
        faulty += bool(found)
        state = f"{len(found)} fault{'s' if len(found) > 1 else ''}" if found else "whole"
        print(clean(f"{entry['path']}: {state}"), flush=True)
        problems += found
    print(f"{len(entries)} files checked, {len(entries) - faulty} whole, {faulty} faulty")
    if problems:
        raise DataError(problems)
