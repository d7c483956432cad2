"""Which runs the names `run:NAME` of a configuration stand for: those of now, or of the run that goes on."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from embedrun.commands.unfinished import beginning, status_of
from embedrun.run import Run, config_hash

ASKED = "asked_sha256"  # in status.json: hash of the configuration with the names, where it has any


def settled(plain: Mapping[str, Any], run: Path | None) -> dict[str, Any]:
    """A configuration in which directories stand for the names.

    Args:
        plain: resolved plain data.
        run: directory of the run to go on with. If it began from this configuration, the names stand for what
            they stood for then, whatever has finished since. None: there is none.
    """
    from embedrun import backbone

    began = None if run is None or status_of(run).get(ASKED) != config_hash(plain) else beginning(run)
    return backbone.settled(plain, began)


def settled_as_begun(plain: Mapping[str, Any], directory: str | None) -> dict[str, Any]:
    """The same, where the run to go on with is yet to be found.

    Args:
        plain: resolved plain data.
        directory: the run directory, where the user named one; else the newest run is meant that began from
            this configuration, has not finished and is not in use.
    """
    now = settled(plain, None)
    if now == plain:
        return now
    return settled(plain, Path(directory) if directory is not None else _unfinished(plain))


def _unfinished(plain: Mapping[str, Any]) -> Path | None:
    wanted, found = config_hash(plain), []
    for path in Path("outputs", str(plain.get("name"))).glob("*"):
        status = status_of(path)
        is_it = status.get(ASKED) == wanted and status.get("state") != "finished"
        if is_it and (path / "config.yaml").is_file() and Run.is_free(path):
            found.append((str(status.get("started")), path))
    return max(found, default=("", None))[1]
