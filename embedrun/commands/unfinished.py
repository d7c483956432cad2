"""What a run that did not finish needs to go on: the same data, and a word on how."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from embedrun.console import say
from embedrun.errors import ConfigError


def same_data(folder: Path, data: Mapping[str, str]) -> None:
    """Refuse to go on with other data than a run began with.

    Args:
        folder: its run directory.
        data: fingerprint of the rows of each split that it would read now, by name.

    Raises:
        ConfigError: with every split that is another one now.
    """
    try:
        began = json.loads((folder / "environment.json").read_text(encoding="utf-8"))["data"]
    except (OSError, ValueError, KeyError):
        began = {}
    problems = [
        f"{name}: the rows are not those that {folder} began with; evaluate in a run of its own"
        for name, fingerprint in data.items()
        if began.get(name) != fingerprint
    ]
    if problems:
        raise ConfigError(problems)


@contextlib.contextmanager
def resumable(folder: Path) -> Iterator[None]:
    """Say how to go on where the block is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"embedrun resume {folder} goes on from the last finished part")
        raise
