"""The manifest of a checkpoint, which makes any change to its files visible."""

import errno
import hashlib
import json
from pathlib import Path

from embedrun.errors import NO_CHECKPOINT, RunFailed
from embedrun.training.checkpoint.names import path_of

SCHEMA = 2
MODEL, OPTIMIZER, RANDOM = "model.safetensors", "optimizer.safetensors", "random.safetensors"
STATE, MANIFEST = "state.json", "manifest.json"
FILES = (MODEL, OPTIMIZER, RANDOM, STATE)  # what the manifest lists
# A file that is gone, is none, or lies on a bad sector. Any other trouble says nothing about the checkpoint.
_DAMAGE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EIO)


def write(folder: Path, step: int) -> None:
    """Write the manifest of the files that are there."""
    files = {
        name: {"sha256": _sha256(folder / name), "bytes": (folder / name).stat().st_size} for name in FILES
    }
    manifest = {"schema": SCHEMA, "step": step, "files": files}
    # It ends with its closing brace, so that the loss of a single byte makes it unreadable.
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def verify(checkpoint: Path) -> list[str]:
    """What is wrong with a checkpoint: one line a fault, none where it is whole.

    Raises:
        RunFailed: if a file cannot be read for a reason that is no damage, such as its permissions (exit 7).
    """
    place = checkpoint / MANIFEST
    try:
        manifest = json.loads(place.read_text(encoding="utf-8"))
        schema, own_name = manifest["schema"], path_of(checkpoint, manifest["step"]).name
        wanted = {name: (entry["bytes"], entry["sha256"]) for name, entry in manifest["files"].items()}
    except OSError as fault:
        return [_damage(place, fault)]
    except (ValueError, LookupError, TypeError, AttributeError) as fault:
        return [f"{place}: not a manifest ({type(fault).__name__}: {fault})"]
    if schema != SCHEMA:
        return [f"{place}: schema {schema!r}, this version reads {SCHEMA}"]
    faults = [] if checkpoint.name == own_name else [f"{place}: belongs to {own_name}"]
    if set(wanted) != set(FILES):
        faults.append(f"{place}: lists {', '.join(sorted(wanted))} in place of {', '.join(sorted(FILES))}")
        return faults
    for name, (size, digest) in wanted.items():
        faults += _compare(checkpoint / name, size, digest)
    return faults


def _compare(path: Path, size: int, digest: str) -> list[str]:
    try:
        same = path.stat().st_size == size and _sha256(path) == digest
    except FileNotFoundError:
        return [f"{path}: missing"]
    except OSError as fault:
        return [_damage(path, fault)]
    return [] if same else [f"{path}: differs from its manifest"]


def _damage(path: Path, fault: OSError) -> str:
    if fault.errno not in _DAMAGE:
        raise RunFailed(
            f"{path}: cannot be read ({fault.strerror}); the checkpoint was left as it is, make it readable "
            "and start again",
            exit_code=NO_CHECKPOINT,
        ) from fault
    return f"{path}: {fault.strerror}"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
