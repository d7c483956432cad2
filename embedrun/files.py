"""Files and folders that appear whole or not at all, locks, checksums, and plain data read from files."""

import contextlib
import fcntl
import gzip
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from embedrun.errors import IN_USE, ConfigError, DataError, EmbedrunError

Plain = Mapping[str, Any]  # what a file of YAML or JSON holds: texts, numbers, lists and mappings of these
_ASIDE = ".tmp-"  # begins the name of what is being written


def fsync(path: Path) -> None:
    """Return once a file's content, or a folder's names, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256(path: Path) -> str:
    """SHA-256, in hex, of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def whole_file(path: Path, *, aside: str | None = None, sync: bool = True) -> Iterator[Path]:
    """A temporary path beside `path`; after the block the file stands at `path`, whole, or not at all.

    A reader sees the old file or the new, never a part, even after a power cut. Of several writers the last
    wins. `aside` names the temporary file, for what one process writes at a time: the next overwrites what a
    killed one left. Without `sync`, for what can be made again, a power cut may leave an empty file.
    """
    beside = path.with_name(aside or f"{_ASIDE}{os.urandom(8).hex()}-{path.name}")
    try:
        yield beside
        if sync:
            fsync(beside)
        beside.replace(path)
        if sync:
            fsync(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):  # the first fault is what matters
            beside.unlink()
        raise


@contextlib.contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`, where the block makes a folder, which then is at `path`, whole.

    All of it is on the disk before it has its name. If the block fails, nothing is left. Nothing may be at
    `path`. One process makes it at a time (`only_writer`): what a killed one left goes first.
    """
    aside = path.with_name(f"{_ASIDE}{path.name}")
    if os.path.lexists(aside):
        shutil.rmtree(aside)
    try:
        yield aside
        for part in (*aside.rglob("*"), aside):
            fsync(part)
        aside.rename(path)
        fsync(path.parent)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def write_atomically(path: Path, text: str) -> None:
    """Write a text as a whole file."""
    name = f".{path.name}.{os.getpid()}"  # a resumed run removes what a kill left under such a name
    with whole_file(path, aside=name) as aside:
        aside.write_text(text, encoding="utf-8")


def publish(path: Path, content: bytes, *, replace: bool = False) -> None:
    """Write bytes as a whole file and make its folder; without `replace` one that is there stays."""
    if replace or not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as aside:
            aside.write_bytes(content)


def copy_mode(like: Path, paths: Iterable[Path]) -> None:
    """Give files the mode of one made in the ordinary way: safetensors makes its files private."""
    mode = stat.S_IMODE(like.stat().st_mode)
    for path in paths:
        if path.is_file():
            path.chmod(mode)


# --- locks


def open_lock(path: Path, *, make: bool = True) -> IO[bytes]:
    """Open a lock file, whose folder must exist; without `make` the file must exist too, and is only read."""
    return path.open("ab" if make else "rb", buffering=0)


def take(file: IO[bytes], *, shared: bool = False, wait: bool = False) -> bool:
    """Lock an open file until it is closed; false if another process holds it and `wait` is false.

    The lock ends with the processes that hold it, however they end; a child that inherits the file continues
    to hold it. A `shared` lock is taken beside others that share it, to see whether anybody has it
    exclusively. `filelock` would not do: it has no shared lock on a file, and hands none to a child.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(file, kind if wait else kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as fault:
        raise EmbedrunError(
            f"{file.name}: cannot be locked: {fault.strerror}; use a folder of another file system"
        ) from fault
    return True


def is_alive(run: Path) -> bool | None:
    """Whether a process writes into a run directory; None if it has no lock file that can be read."""
    try:
        lock = open_lock(run / ".lock", make=False)
    except OSError:
        return None  # a run of somebody else, or a copy without it
    with lock:
        return not take(lock, shared=True)


@contextlib.contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Inside, no other process makes `path`, whose folder must exist; exit 8 if another does."""
    beside = path.with_name(f".lock-{path.name}")
    with open_lock(beside) as lock:
        # Who has just ended may have removed the file that was opened here: another holds the new one.
        if not (take(lock) and _is_at(lock, beside)):
            raise EmbedrunError(f"{path}: in use by another process; wait for it to finish", exit_code=IN_USE)
        try:
            yield
        finally:
            beside.unlink(missing_ok=True)


def _is_at(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


class Lock:
    """A lock file that can be taken, handed to a child and released; its folder must exist."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None

    def acquire(self, *, wait: bool = True) -> bool:
        """Take the lock; false if another holds it and `wait` is false."""
        file = open_lock(self._path)
        if taken := take(file, wait=wait):
            self._file = file
        else:
            file.close()
        return taken

    def release(self) -> None:
        """Release the lock; a child that was handed the file continues to hold it."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def fileno(self) -> int:
        """The descriptor of the open file, for a child to hold too."""
        assert self._file is not None, "the lock is not held"
        return self._file.fileno()

    def __enter__(self) -> "Lock":
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


# --- places


def expanded(path: Path | str) -> Path:
    """A path with the user's home for `~`; `~name` where there is no such user is a name like any other."""
    return Path(os.path.expanduser(path))


def user_cache() -> Path:
    """`embedrun` in the user's cache folder, by the XDG base directory specification."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (named if named.is_absolute() else expanded("~/.cache")) / "embedrun"  # it ignores a relative one


def unwritable(path: Path) -> str:
    """Why no file or folder can be made at a path, with what is above it; empty if one can."""
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if not above.is_dir():
        return f"{str(above)!r} is not a folder"
    return "" if os.access(above, os.W_OK | os.X_OK) else f"nothing can be written into {str(above)!r}"


def refuse_unwritable(option: str, folder: Path) -> None:
    """Refuse a folder in which nothing can be made: a ConfigError names option and reason; a file is left."""
    if not folder.is_file() and (why := unwritable(folder / "x")):
        raise ConfigError(f"{option}: {why}; name another folder with {option}=DIR")


# --- YAML and JSON


def read_yaml(path: Path) -> Any:
    """The plain data that a file holds; None if it is empty; a ValueError says why it is no plain YAML."""
    import yaml

    # The one of libyaml reads eight times as fast, and is not in every PyYAML.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
    except OSError:
        raise
    except Exception as fault:  # PyYAML lets others than its own through, such as KeyError for `!!bool maybe`
        raise ValueError(f"not valid YAML: {' '.join(str(fault).split())}") from fault


def read_json(path: Path, *, numbers: Callable[[str], Any] | None = None) -> Any:
    """The data that a file of JSON holds; `numbers` makes the value of NaN, Infinity and -Infinity."""
    return json.loads(path.read_text(encoding="utf-8"), parse_constant=numbers)


@contextlib.contextmanager
def as_written(path: Path, what: str, next_step: str) -> Iterator[None]:
    """A block that takes a file apart as embedrun wrote it: a DataError says `what` the file is not."""
    try:
        yield
    except (OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as fault:
        reason = f"{type(fault).__name__}: {' '.join(str(fault).split())[:200]}"
        raise DataError(f"{path}: not {what} ({reason}); {next_step}") from fault


def to_json(data: object) -> str:
    """JSON as every file of a run directory holds it."""
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def to_printed_json(data: object) -> str:
    """JSON for standard output, in ASCII."""
    return json.dumps(data, indent=2, allow_nan=False)


def to_json_line(data: object) -> bytes:
    """JSON on one line, keys in their own order."""
    return json.dumps(data, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def to_json_lines(rows: Iterable[object]) -> bytes:
    """JSON Lines."""
    return b"".join(to_json_line(row) + b"\n" for row in rows)


def packed(content: bytes) -> bytes:
    """The content as gzip, without the name and the time that would make equal files differ."""
    return gzip.compress(content, mtime=0)
