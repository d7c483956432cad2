"""Go on with a run that was killed or interrupted, from the last part that it finished."""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from embedrun.commands.arguments import Parser
from embedrun.console import say
from embedrun.errors import ConfigError

_EPILOG = """An evaluation keeps every part when it is scored: an STS set, a SentEval task, an MTEB task.

examples:
  embedrun resume outputs/evaluate/RUN"""
_SCHEMA = 1


def main(argv: Sequence[str]) -> int:
    """Run `embedrun resume`.

    Args:
        argv: what stands after `embedrun resume`.

    Returns:
        The exit code: 0.

    Raises:
        ConfigError: if the folder is no run that can go on.
        DataError: if the model or data is not to be had any more.
    """
    parser = Parser(
        prog="embedrun resume",
        usage="%(prog)s RUN_DIR",
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("run", type=Path, metavar="RUN_DIR", help="directory of an evaluation")
    try:
        folder = parser.parse_args(argv).run
    except SystemExit as end:  # --help has been printed
        return int(end.code or 0)
    config = _configuration(folder)
    if _state(folder) == "finished":
        say(f"{folder}: has finished; its scores are in {folder / 'results.json'}")
        return 0
    if "model" not in config:
        raise ConfigError(
            f"{folder}: is no evaluation, and only an evaluation can be resumed; train anew with the options "
            f"of {folder / 'overrides.yaml'}"
        )
    from embedrun.commands.evaluate import run

    return run(config, [], None, resumed=folder).code


def _configuration(folder: Path) -> dict[str, Any]:
    """The configuration that the run began with, as plain data; it is checked like any other."""
    import yaml

    path = folder / "config.yaml"
    if not path.is_file():
        raise ConfigError(f"{folder}: is no run directory; it has no config.yaml")
    try:
        plain = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as fault:
        raise ConfigError(f"{path}: cannot be read ({fault})") from fault
    if not isinstance(plain, Mapping) or plain.get("schema") != _SCHEMA:
        raise ConfigError(f"{path}: is not a configuration of schema {_SCHEMA}, which this version writes")
    return {key: value for key, value in plain.items() if key != "schema"}


def _state(folder: Path) -> str | None:
    try:
        return json.loads((folder / "status.json").read_text(encoding="utf-8")).get("state")
    except (OSError, ValueError, AttributeError):
        return None
