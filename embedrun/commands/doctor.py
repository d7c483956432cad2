"""What this machine has for embedrun: versions, device, precision, data, hub, disk; exit 1 if it cannot run.

The last line says whether the quickstart can run here. Nothing is downloaded and nothing stays behind.
"""

import argparse
from collections.abc import Sequence

from embedrun.commands.arguments import Parser
from embedrun.console import aligned, clean
from embedrun.errors import UNEXPECTED

_EXAMPLES = """examples:
  embedrun doctor
  embedrun doctor --json > machine.json"""


def main(argv: Sequence[str]) -> int:
    """Run `embedrun doctor`.

    Args:
        argv: what stands after `embedrun doctor`.

    Returns:
        The exit code: 0, or 1 if the quickstart cannot run here.

    Raises:
        ConfigError: if the command line is refused.
    """
    parser = Parser(
        prog="embedrun doctor",
        description=__doc__,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
    parser.add_argument("--data-dir", metavar="DIR", help="the data store; else as every command finds it")
    try:
        arguments = parser.parse_args(argv)
    except SystemExit as end:  # --help has been printed
        return int(end.code or 0)
    from embedrun.commands import doctor_machine, doctor_packages, doctor_places

    found = [
        *doctor_packages.findings(),
        *doctor_machine.findings(),
        *doctor_places.findings(arguments.data_dir),
    ]
    faults = [one for one in found if one.state == "fault"]
    if arguments.json:
        import json

        checks = [one._asdict() for one in found]
        print(json.dumps({"schema": 1, "quickstart": not faults, "checks": checks}, indent=2))
    else:
        cells = [["what", "state", "found"]]
        cells += [[one.what, one.state, one.found] for one in found]
        print(aligned(cells))
        print()
        for one in faults:
            print(clean(f"{one.what}: {one.found}"))
        no = "the quickstart cannot run here" if faults else "the quickstart can run here"
        print(f"{no}: embedrun train +experiment=quickstart")
    return UNEXPECTED if faults else 0
