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
    """Compare a model with its sums, where it has some; above `AT_ONCE`, only sizes unless `every_byte`."""
    place = folder / FILE
    if not place.is_file():
        return
    with files.as_written(place, f"sums of schema {_SCHEMA}", "copy the folder again, or remove it"):
        manifest = files.read_json(place)
        if manifest["schema"] != _SCHEMA or not manifest["files"]:
            raise ValueError(f"has no files, or another schema than {_SCHEMA}")
        sums = {str(name): (entry["bytes"], entry["sha256"]) for name, entry in manifest["files"].items()}
        read = every_byte or sum(size for size, _ in sums.values()) <= AT_ONCE
    advice = f"copy the folder again, or remove {place} if it was changed on purpose"
    if problems := [
        f"{folder / name}: {problem} ({FILE}); {advice}"
        for name, (size, digest) in sums.items()
        if (problem := _difference(folder / name, size, digest if read else None))
    ]:
        raise DataError(problems)


def _difference(path: Path, size: int, digest: str | None) -> str:
    if not path.is_file():
        return "is missing"
    if path.stat().st_size == size and (digest is None or files.sha256(path) == digest):
        return ""
    return "differs from what its run wrote"
