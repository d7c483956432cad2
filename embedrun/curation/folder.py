"""What the commands that make data share: checks of options, and a folder with its settings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from embedrun.blocks import Shard, differing
from embedrun.config import Checker
from embedrun.console import say
from embedrun.errors import ConfigError
from embedrun.experiment.data import skip_warning, write_skipped
from embedrun.files import Plain, as_written, publish, read_json, refuse_unwritable, to_json, whole_file
from embedrun.rows import Rows

PROVENANCE = "provenance.json"  # written last, it says that the work is complete
ANNOTATE = "annotate.json"  # the settings of an annotation or of mining

Options = TypeVar("Options")


def part(schema: type[Options], options: Any) -> Options | None:
    """One group of a configuration, or None where it has a fault, which the check of the whole says."""
    return Checker().build(schema, options) if isinstance(options, Mapping) else None


def plan_shard(checker: Checker, plain: Plain) -> Shard | None:
    """The blocks that `shard` leaves to this process; None where a fault was noted."""
    try:
        return Shard.parse(str(plain.get("shard", "0/1")))
    except ValueError as fault:
        checker.problems.append(f"shard: {fault}")
        return None


def refuse_run_directory(checker: Checker, directory: str | None) -> None:
    """Note a run directory that the user named."""
    if directory is not None:
        checker.problems.append("hydra.run.dir, hydra.sweep.dir: no run is made; give output=DIR")


def check(output: Path, settings: Plain, name: str, *, kept: str) -> None:
    """Refuse a folder of other files, or of work with other settings; nothing is written.

    `name` is the file that the settings stand in; the folder `kept` of what is done may be there before it.
    """
    if output.exists() and not output.is_dir():
        raise ConfigError(f"output: {str(output)!r} is a file; give a folder")
    if (output / name).is_file():
        if changed := differing(settings, read(output / name)):
            raise ConfigError(
                f"output: {str(output)!r} was made with other settings ({', '.join(changed)}); name a new "
                f"folder (what is kept in {output / kept} and fits is not done again if it is copied there)"
            )
        return
    refuse_unwritable("output", output)
    if others := {path.name for path in output.glob("[!.]*")} - {kept}:
        raise ConfigError(f"output: {str(output)!r} holds other files ({min(others)}); name a new folder")


def read(path: Path) -> Plain:
    """A JSON file of the folder."""
    with as_written(path, "a file of this command", "name a new folder with output=DIR"):
        return read_json(path)


def write(path: Path, content: Plain) -> None:
    """Write a JSON file of the folder, in place of an earlier one."""
    publish(path, to_json(content).encode(), replace=True)


def write_array(path: Path, array: np.ndarray) -> None:
    """Keep an array as a whole file of the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as aside, aside.open("wb") as file:
        np.save(file, array)


def read_array(path: Path) -> np.ndarray:
    """An array that is kept in the folder."""
    with as_written(path, "vectors or cosines", "remove it, and the same command makes it again"):
        return np.load(path, allow_pickle=False)


def list_skipped(rows: Rows, output: Path) -> None:
    """Record and report the faulty rows that the data set left out."""
    write_skipped(rows.skipped, output)
    if warning := skip_warning(rows.skipped):
        say(f"warning: {warning}")
