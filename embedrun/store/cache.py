"""What is prepared once and kept: folders in the user's cache, found by what they were made of."""

import atexit
import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from embedrun.console import say, size
from embedrun.errors import is_full
from embedrun.files import Plain, read_json, to_json, user_cache

_ENTRY = "entry.json"


def folder() -> Path:
    """`embedrun/prepared` in the user's cache folder; anything in it may be deleted at any time."""
    return user_cache() / "prepared"


def kept(kind: str, key: Plain, make: Callable[[Path], None], *, what: str) -> Path:
    """The folder that `make` fills, made anew only where there is none of this kind and key.

    It gets its name when it is whole, with a checksum of each file; a damaged one is made anew. The key is
    plain data that decides the content; `what` it is stands in messages and lists.
    """
    name = f"{kind}-{hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:40]}"
    path = folder() / name
    if not _is_whole(path):
        path = _writable(folder()) / name
    if not _is_whole(path):
        _make(path, make, what)
    with contextlib.suppress(OSError):  # an entry of somebody else can be read all the same
        os.utime(path / _ENTRY)
    return path


@cache
def _writable(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return path
    except OSError as fault:
        if is_full(fault):
            raise
        place = Path(tempfile.mkdtemp(prefix="embedrun-"))
        atexit.register(shutil.rmtree, place, ignore_errors=True)
        say(f"{path}: cannot be written ({fault.strerror}); {place} serves until this command ends")
        return place


def _make(path: Path, make: Callable[[Path], None], what: str) -> None:
    if path.exists():
        say(f"{what}: what was prepared before is damaged and is made anew")
        shutil.rmtree(path)
    aside = path.with_name(f".tmp-{os.urandom(8).hex()}-{path.name}")
    aside.mkdir()
    try:
        make(aside)
        sums = {file.name: _checksum(file) for file in sorted(aside.iterdir())}
        (aside / _ENTRY).write_text(to_json({"what": what, "files": sums}), encoding="utf-8")
        try:
            aside.rename(path)
        except OSError:
            if not path.is_dir():  # else another process was faster
                raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


@cache
def _checked(path: Path, inode: int) -> bool:
    try:
        files = read_json(path / _ENTRY)["files"]
        return all(_checksum(path / name) == checksum for name, checksum in files.items())
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return False


def _is_whole(path: Path) -> bool:
    return path.is_dir() and _checked(path, path.stat().st_ino)


def _checksum(path: Path) -> str:
    from xxhash import xxh3_128

    with path.open("rb") as file:
        return hashlib.file_digest(file, xxh3_128).hexdigest()


@dataclass(frozen=True)
class Entry:
    """One folder that is kept: what it is, its bytes, and when it was last used, in seconds since 1970."""

    path: Path
    what: str
    size: int
    used: float


def entries() -> list[Entry]:
    """What is kept, the last used first; what killed processes left has no `what`."""
    every = []
    for path in folder().glob("*/"):
        with contextlib.suppress(OSError):  # it goes this moment, or is closed to others
            what, entry = "", path / _ENTRY
            with contextlib.suppress(FileNotFoundError, ValueError, LookupError, TypeError):
                what = str(read_json(entry)["what"])
            used = (entry if what else path).stat().st_mtime
            count = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
            every.append(Entry(path, what, count, used))
    return sorted(every, key=lambda entry: (-entry.used, entry.path.name))


def summary(every: Sequence[Entry]) -> str:
    """How many entries there are, and their size."""
    total = sum(entry.size for entry in every)
    return f"{len(every)} entr{'y' if len(every) == 1 else 'ies'}, {size(total)}"


def clean(*, before: float | None = None) -> list[Entry]:
    """Remove what was last used before a time, in seconds since 1970, or all; gives what was removed."""
    removed = []
    for entry in entries():
        if before is None or entry.used < before:
            try:
                shutil.rmtree(entry.path)
                removed.append(entry)
            except OSError as fault:
                say(f"{entry.path}: cannot be removed ({fault.strerror})")
    return removed
