"""Fill the local data store: from the hub, or from a mounted copy of a store."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from embedrun.commands.arguments import Parser
from embedrun.console import aligned, clean, say
from embedrun.store import Store
from embedrun.store.catalogue import Catalogue

_EXAMPLES = """examples:
  embedrun data get stsb nli
  embedrun data get sts senteval --from /mnt/data
  embedrun data get --from /mnt/data

Where each data set is on the hub, at which revision, and how its columns are named: conf/hub.yaml. What is
there and right is not fetched again, so a killed command goes on when it is started again."""


def main(argv: Sequence[str]) -> int:
    """Run `embedrun data get`.

    Args:
        argv: what stands after `embedrun data get`.

    Returns:
        The exit code: 0.

    Raises:
        ConfigError: if the command line is refused.
        DataError: if something cannot be had, is not what is published, or would overwrite another file.
    """
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as end:  # --help has been printed
        return int(end.code or 0)
    store, catalogue = Store.find(arguments.data_dir), Catalogue.read()
    if arguments.source is None:
        from embedrun.store.fill import from_hub

        results = from_hub(store, arguments.names, catalogue)
    else:
        from embedrun.store.fill import from_folder

        results = from_folder(store, arguments.source, arguments.names, catalogue)
    rows = [[one.path, "-" if one.rows is None else f"{one.rows:,}", one.state] for one in results]
    print(clean(f"data folder {store.root}"))
    print(aligned([["file", "rows", "state"], *rows], right=(1,)))
    if absent := sum(one.rows is None for one in results):
        say(f"warning: {absent} files are not on the hub; --from FOLDER copies them from a mounted store")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="embedrun data get",
        description=__doc__,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="a data set (stsb), a group of them (nli) or a file of one"
    )
    parser.add_argument(
        "--from",
        dest="source",
        type=lambda text: Path(text).expanduser(),
        metavar="FOLDER",
        help="a folder in the store layout with its MANIFEST.json, not the hub; without NAME all of it",
    )
    parser.add_argument(
        "--data-dir", metavar="DIR", help="the store; else EMBEDRUN_DATA, else the user's cache folder"
    )
    return parser
