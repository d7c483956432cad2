"""The SHA-256 sums of a finished run's model: written with it, verified when it is read."""

from pathlib import Path

from embedrun import files
from embedrun.errors import DataError

FILE = "manifest.json"  # of the model's folder
_SCHEMA = 1
_CARD = "README.md"  # may be edited
AT_ONCE = 1 << 30  # bytes of a model up to which all of it is read again whenever it is loaded


def write(folder: Path) -> None:
    """Write the sums of all files of a model but its card."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    sums = {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": files.sha256(path)}
        for path in paths
        if path not in (folder / _CARD, folder / FILE)
    }
    (folder / FILE).write_text(files.to_json({"schema": _SCHEMA, "files": sums}), encoding="utf-8")
    files.copy_mode(paths[0], [folder / FILE])


def verify(folder: Path, *, every_byte: bool = False) -> None:
    """Compare a model with its sums, where it has some; above `AT_ONCE`, only sizes unless `every_byte`.

    Raises:
        DataError: with every file that differs.
    """
    place = folder / FILE
    if not place.is_file():
        return
    try:
        manifest = files.read_json(place)
        if manifest["schema"] != _SCHEMA or not manifest["files"]:
            raise ValueError(f"has no files, or another schema than {_SCHEMA}")
        sums = {str(name): (entry["bytes"], entry["sha256"]) for name, entry in manifest["files"].items()}
        read = every_byte or sum(size for size, _ in sums.values()) <= AT_ONCE
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as fault:
        raise DataError(f"{place}: cannot be read ({fault}); copy the folder again, or remove it") from fault
    problems = []
    for name, (size, digest) in sums.items():
        path = folder / name
        if not path.is_file():
            problems.append(f"{path}: is missing")
        elif path.stat().st_size != size or (read and files.sha256(path) != digest):
            problems.append(f"{path}: differs from what its run wrote")
    advice = f"copy the folder again, or remove {place} if it was changed on purpose"
    if problems:
        raise DataError([f"{problem} ({FILE}); {advice}" for problem in problems])
