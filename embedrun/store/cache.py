"""What is prepared once and kept: folders in the user's cache, found by what they were made of."""

import atexit
import contextlib
import errno
import hashlib
import json
import mmap
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

from embedrun.console import say, size
from embedrun.errors import DISK, DataError, EmbedrunError
from embedrun.files import Plain, open_lock, read_json, take, to_json, user_cache, whole_file, whole_folder
from embedrun.store.read import sha256

_ENTRY = "entry.json"
_SOURCES = "sources"
_SETTLED = 2e9  # ns; a file that was touched later may change again without another time stamp


def folder() -> Path:
    """`embedrun/prepared` in the user's cache folder; anything in it may be deleted at any time."""
    return user_cache() / "prepared"


def kept(kind: str, key: Plain, make: Callable[[Path], None], *, what: str) -> Path:
    """The folder that `make` fills, made anew only where there is none of this kind and key.

    One process makes it, others of the same key wait for it. It gets its name when it is whole, with the size
    and a checksum of each file; one that is damaged, cut or was made of something else is made anew. Without
    a folder that can be written, it is made in a temporary one, for this process.

    Args:
        kind: of the entry, in letters.
        key: plain data that decides the content.
        make: fills the folder that it is given, which exists and is empty.
        what: it is, for the messages and the list of entries.

    Raises:
        EmbedrunError: where the disk is full (exit 5).
    """
    words = json.dumps(key, sort_keys=True)
    name = f"{kind}-{hashlib.sha256(words.encode()).hexdigest()[:40]}"
    what = what.encode("utf-8", "replace").decode()  # the name of a file need not be UTF-8
    path = folder() / name
    if not _is_whole(path, key):
        try:
            path = _prepared(_usable(folder()) / name, key, make, what)
        except PermissionError as fault:  # a lock or an entry of somebody else
            path = _prepared(_temporary(folder(), fault.strerror) / name, key, make, what)
    with contextlib.suppress(OSError):  # an entry of somebody else can be read all the same
        os.utime(path / _ENTRY)
    return path


def _prepared(path: Path, key: Plain, make: Callable[[Path], None], what: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)  # it may have been deleted since
    try:
        with _alone(path, what):
            if not _is_whole(path, key):
                _clear(path.parent)
                _make(path, key, make, what)
    except OSError as fault:
        if fault.errno in _FULL:
            raise _full(path.parent, what) from fault
        raise
    return path


_FULL = (errno.ENOSPC, errno.EDQUOT)


def _full(where: Path, what: str) -> EmbedrunError:
    return EmbedrunError(
        f"{where}: no room left on the disk for {what}; embedrun data clean removes what was prepared "
        "before, and XDG_CACHE_HOME=DIR names another place",
        exit_code=DISK,
    )


def _make(path: Path, key: Plain, make: Callable[[Path], None], what: str) -> None:
    if os.path.lexists(path):
        say(f"{what}: what was prepared before is damaged and is made anew")
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    with whole_folder(path, sync=False) as aside:
        aside.mkdir()
        make(aside)
        files = {file.name: [file.stat().st_size, _checksum(file)] for file in sorted(aside.iterdir())}
        (aside / _ENTRY).write_text(to_json({"what": what, "key": key, "files": files}), encoding="utf-8")


_found_whole: dict[Path, int] = {}  # the inode of each folder that this process has checked


def _is_whole(path: Path, key: Plain) -> bool:
    """Whether the entry is of this key and its files are those that were written; each is read once."""
    try:
        inode = path.stat().st_ino
        if _found_whole.get(path) == inode:
            return True
        entry = read_json(path / _ENTRY)
        whole = (
            entry["key"] == json.loads(json.dumps(key))
            and {file.name for file in path.iterdir()} == {_ENTRY, *entry["files"]}
            and all(
                (path / name).stat().st_size == size and _checksum(path / name) == checksum
                for name, (size, checksum) in entry["files"].items()
            )
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
    if whole:
        _found_whole[path] = inode
    return whole


def _checksum(path: Path) -> str:
    from xxhash import xxh3_128

    if not path.stat().st_size:
        return xxh3_128().hexdigest()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return xxh3_128(content).hexdigest()


def _lock(path: Path) -> IO[bytes]:
    """The lock file of an entry, or of one in the making: some of a kind share one, so that there are few.

    Those of two kinds never do, so what one is made of may be another.
    """
    kind, _, name = path.name.removeprefix(".tmp-").rpartition("-")
    return open_lock(path.with_name(f".lock-{kind}-{name[:2]}"))


@contextlib.contextmanager
def _alone(path: Path, what: str) -> Iterator[None]:
    """The lock of an entry, waited for if another process has it."""
    with _lock(path) as lock:
        if take(lock) is False:
            say(f"waiting for another process, which prepares {what}")
            take(lock, wait=True)
        yield


def _clear(where: Path) -> None:
    """Remove what killed processes left."""
    for remains in where.glob(".tmp-*"):
        with contextlib.suppress(OSError), _lock(remains) as lock:
            if take(lock):
                shutil.rmtree(remains)


@cache
def _usable(path: Path) -> Path:
    """The folder, made if need be; a temporary one where that is refused, or there are no locks."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path) as file:
            if not take(file):
                return _temporary(path, "its file system has no locks")
            file.write(b"0")
            file.flush()
            mmap.mmap(file.fileno(), 0).close()  # what is prepared is mapped
            return path
    except OSError as fault:
        if fault.errno in _FULL:
            raise _full(path, "anything") from fault
        return _temporary(path, fault.strerror)


@cache
def _temporary(path: Path, reason: str) -> Path:
    """A folder that ends with this process, in place of one that cannot be used."""
    place = Path(tempfile.mkdtemp(prefix="embedrun-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    say(f"{path}: cannot be written ({reason}); what is prepared is kept in {place} until this command ends")
    return place


def digest(path: Path) -> str:
    """SHA-256 of a file, remembered while path, size, times and inode stay as they are.

    Raises:
        DataError: if it cannot be read.
    """
    path = path.absolute()
    facts, changed = _facts(path)
    note = folder() / _SOURCES / hashlib.sha256(os.fsencode(path)).hexdigest()[:40]
    with contextlib.suppress(OSError, ValueError, TypeError):
        known, found = read_json(note)
        if known == facts and isinstance(found, str):
            return found
    before = time.time_ns()
    found = sha256(path)
    if before - changed > _SETTLED and _facts(path)[0] == facts:
        with contextlib.suppress(OSError):  # it is only read again the next time
            note.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(note, sync=False) as aside:
                aside.write_text(json.dumps([facts, found]), encoding="utf-8")
    return found


def _facts(path: Path) -> tuple[list[object], int]:
    """What is the same as long as nobody writes into a file, and when somebody did last, in ns since 1970."""
    try:
        state = path.stat()
    except OSError as fault:
        raise DataError(f"{path}: cannot be read: {fault.strerror}") from fault
    # The time of the last change of the inode is there for a writer who sets back the other one.
    times = [state.st_mtime_ns, state.st_ctime_ns]
    shown = os.fsencode(path).decode("utf-8", "backslashreplace")
    return [shown, state.st_size, *times, state.st_ino, state.st_dev], max(times)


def require_unchanged(digests: Mapping[Path, str]) -> None:
    """Raise a DataError where files no longer have the digests that they had before they were read."""
    changed = [path for path, known in digests.items() if digest(path) != known]
    if changed:
        raise DataError(
            [f"{path}: changed while it was read; start again when it is whole" for path in changed]
        )


@dataclass(frozen=True)
class Entry:
    """One folder that is kept: what it is, its bytes, and when it was last used, in seconds since 1970."""

    path: Path
    what: str
    size: int
    used: float


def entries() -> list[Entry]:
    """What is kept, the last used first; what killed processes left has no `what`."""
    found = []
    try:
        every = sorted(folder().iterdir())
    except OSError:
        every = []
    for path in every:
        if not path.is_dir() or path.is_symlink() or path.name == _SOURCES:
            continue
        with contextlib.suppress(OSError):  # it goes this moment, or is closed to others
            what, used = "", path.stat().st_mtime
            with contextlib.suppress(FileNotFoundError, ValueError, KeyError, TypeError):
                entry = path / _ENTRY
                what, used = str(read_json(entry)["what"]), entry.stat().st_mtime
            count = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
            found.append(Entry(path, what, count, used))
    return sorted(found, key=lambda entry: (-entry.used, entry.path.name))


def summary(every: Sequence[Entry]) -> str:
    """How many entries there are, and their size."""
    return f"{len(every)} entr{'y' if len(every) == 1 else 'ies'}, {size(sum(one.size for one in every))}"


def clean(*, before: float | None = None) -> list[Entry]:
    """Remove what was last used before a time, in seconds since 1970, or all; what is being made stays.

    Returns:
        What was removed.
    """
    removed = []
    for entry in entries():
        if before is None or entry.used < before:
            try:
                with _lock(entry.path) as lock:
                    if take(lock) is not False:
                        shutil.rmtree(entry.path)
                        removed.append(entry)
            except FileNotFoundError:  # another process was faster
                continue
            except PermissionError as fault:
                say(f"{entry.path}: cannot be removed ({fault.strerror})")
    if before is None:
        shutil.rmtree(folder() / _SOURCES, ignore_errors=True)
    return removed
