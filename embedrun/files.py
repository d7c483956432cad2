"""Files and folders that appear whole or not at all, locks, and plain data read with care."""

import contextlib
import errno
import fcntl
import glob
import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from embedrun.console import say
from embedrun.errors import IN_USE, ConfigError, DataError, EmbedrunError, is_full

if TYPE_CHECKING:
    pass

Plain = Mapping[str, Any]  # what a file of YAML or JSON holds: texts, numbers, lists and mappings of these


_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF)


def fsync(path: Path) -> None:
    """Return once a file's content, or a folder's names, are on the disk.

    A file system that syncs no folder, as some of a network or of FUSE, keeps its names as well as it does.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as fault:
        if fault.errno not in _NO_SYNC or not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise
    finally:
        os.close(descriptor)


_SETTLED = 50_000_000  # ns after which a further change has another time
_sums: dict[tuple[int, ...], str] = {}  # by `_state` of the file


def sha256(path: Path) -> str:
    """SHA-256, in hex, of a file's bytes; a process reads a file once, until it changes.

    Raises:
        OSError: if it cannot be read.
    """
    with path.open("rb") as file:
        state = _state(file)
        if state in _sums:
            return _sums[state]
        found = hashlib.file_digest(file, "sha256").hexdigest()
        if _state(file) == state and time.time_ns() - max(state[-2:]) > _SETTLED:
            _sums[state] = found
    return found


def _state(file: IO[bytes]) -> tuple[int, ...]:
    """Which file it is, its size and times, which all stay as they are while nobody writes."""
    found = os.fstat(file.fileno())
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


_ASIDE = ".tmp-"  # begins the name of what is being written


@contextlib.contextmanager
def whole_file(path: Path, *, aside: str | None = None, sync: bool = True) -> Iterator[Path]:
    """A temporary path beside `path`; after the block the file stands at `path`, whole, or not at all.

    A reader sees the old file or the new, never a part, even after a power cut. Where the block fails, the
    old one stays. A link at `path` is replaced, and its target stays as it is. The folder must exist.

    `aside` names the temporary file, so that the remains of a kill can be found, or overwritten the next
    time; only for what one process writes at a time. By default the name is random, so that processes that do
    the same work, to the same bytes, never write into one file. Without `sync`, for what can be made again, a
    power cut may leave the file empty.
    """
    beside = path.with_name(aside or f"{_ASIDE}{os.urandom(16).hex()}-{path.name}")
    if aside is not None and beside.is_symlink():  # it would be written through
        beside.unlink()
    try:
        yield beside
        try:
            if sync:
                fsync(beside)
            beside.replace(path)
        except FileNotFoundError:
            # Another process has put the same file there, and cleared up what it took for remains.
            if aside is not None or not path.is_file():
                raise
        if sync:
            fsync(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):  # the fault itself is what matters
            beside.unlink()
        raise


@contextlib.contextmanager
def whole_folder(path: Path, *, sync: bool = True) -> Iterator[Path]:
    """A temporary folder beside `path`, which the block makes; after it the folder is at `path`, whole.

    All of it is on the disk before it has its name; without `sync`, for what can be made again, a power cut
    may leave parts of it empty. Where the block fails, nothing is left. Nothing may be at `path` when the
    block ends. One process makes it at a time: what a killed one left, `.tmp-` and the name, goes first.
    """
    aside = path.with_name(f"{_ASIDE}{path.name}")
    if aside.is_symlink():  # of which rmtree says on some Pythons neither path nor reason
        raise NotADirectoryError(errno.ENOTDIR, "A symbolic link, not a folder", str(aside))
    if os.path.lexists(aside):
        shutil.rmtree(aside)
    try:
        yield aside
        for one in (*aside.rglob("*"), aside) if sync else ():
            fsync(one)
        aside.rename(path)
        if sync:
            fsync(path.parent)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


@contextlib.contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Inside, no other process makes `path`, whose folder must exist; a `whole_folder` must not have two.

    Raises:
        EmbedrunError: exit 8, if another does.
    """
    beside = path.with_name(f".lock-{path.name}")
    with open_lock(beside) as lock:
        # Who has just ended has removed the file that was opened here.
        if not (claim(lock, path.parent) and _is_at(lock, beside)):
            said = f"{path}: in use by another process; wait for it to finish"
            raise EmbedrunError(said, exit_code=IN_USE)
        try:
            yield
        finally:
            beside.unlink(missing_ok=True)


def _is_at(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def renewed_file(path: Path, *, sync: bool = True) -> Iterator[Path]:
    """`whole_file` by several processes at a time, which removes what killed ones left of the same file."""
    clear_unlocked(path)
    # Locked until it has its name, so that no other process takes it for remains.
    with contextlib.ExitStack() as held, whole_file(path, sync=sync) as aside:
        take(held.enter_context(open_lock(aside)))
        yield aside


def write_atomically(path: Path, text: str) -> None:
    """Write a text as a whole file."""
    name = f".{path.name}.{os.getpid()}"  # a run that goes on removes what a kill left of that name
    with whole_file(path, aside=name) as aside, aside.open("w", encoding="utf-8") as file:
        file.write(text)


def publish(path: Path, content: bytes, *, replace: bool = False) -> None:
    """Write bytes as a `renewed_file`, in a folder that is made if need be.

    Without `replace`, an existing file stays and the content is dropped.
    """
    if replace or not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with renewed_file(path) as aside:
            aside.write_bytes(content)


def clear_unlocked(path: Path) -> None:
    """Remove what killed writers of one file left beside it; those at work have locked theirs."""
    for remains in path.parent.glob(f"{_ASIDE}{'[0-9a-f]' * 32}-{glob.escape(path.name)}"):
        with contextlib.suppress(OSError, ConfigError), open_lock(remains, make=False) as file:
            if take(file):
                remains.unlink()


def to_json(data: object) -> str:
    """JSON as every file of a run directory holds it."""
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def expanded(path: Path | str) -> Path:
    """A path with the user's home for `~`; `~name` where there is no such user is a name like any other."""
    return Path(os.path.expanduser(path))


def to_printed_json(data: object) -> str:
    """JSON for standard output, in ASCII.

    Half a surrogate pair, which Python has for a byte of a file's name that is not UTF-8, is a `?`.
    """
    return json.dumps(json.loads(to_json(data).encode("utf-8", "replace")), indent=2)


def user_cache() -> Path:
    """`embedrun` in the user's cache folder, by the XDG base directory specification."""
    # It says to ignore a relative path.
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not named.is_absolute():
        try:
            named = Path.home() / ".cache"
        except RuntimeError:  # a user without a home, such as that of a container
            named = Path(os.devnull)
    return named / "embedrun"


def open_lock(path: Path, *, make: bool = True) -> IO[bytes]:
    """Open a lock file; its content stays as it is, and its folder must exist.

    Without `make` it must exist, too, and is opened for reading alone.

    Raises:
        ConfigError: if it is a link.
        OSError: if it cannot be opened.
    """
    descriptor = no_link(path, os.O_RDWR | os.O_CREAT if make else os.O_RDONLY)
    return os.fdopen(descriptor, "r+b" if make else "rb", buffering=0)


def no_link(path: Path | str, flags: int) -> int:
    """The `opener` of `open` for what is written in place: a link is refused, however new it is.

    Raises:
        ConfigError: if it is a link.
    """
    try:
        return os.open(path, flags | os.O_NOFOLLOW, 0o666)
    except OSError as fault:
        if fault.errno == errno.ELOOP:
            refuse_links([Path(path)])
        raise


def take(file: IO[bytes], *, shared: bool = False, wait: bool = False) -> bool | None:
    """Lock an open file until it is closed: the lock ends with the processes that hold it, however they end.

    A child that inherits the file continues to hold the lock. A `shared` lock is taken beside others that
    share it, to see whether anybody has it exclusively. `filelock` would not do: it has no shared lock on a
    file, empties the file, and hands none to a child.

    Returns:
        Whether the lock was taken; None where the file system does not support locks.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(file, kind if wait else kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def claim(file: IO[bytes], path: Path) -> bool:
    """As `take`, by who writes: true also where there are no locks, which is said once of a path."""
    taken = take(file)
    if taken is None:
        _say_once(
            f"warning: {path}: this file system has no locks, so that a second command that writes there is "
            "not noticed; start one at a time, or use a folder of another file system"
        )
    return taken is not False


def refuse_links(paths: Iterable[Path]) -> None:
    """Refuse to write where there are links: a ConfigError names each of them."""
    problems = [
        f"{path} is a link to {os.readlink(path)}; embedrun does not write through links: put the file or "
        "folder itself there, or remove the link"
        for path in paths
        if path.is_symlink()
    ]
    if problems:
        raise ConfigError(problems)


def unwritable(path: Path) -> str:
    """Why no file or folder can be made at a path, with what is above it; empty where one can.

    Nothing is made to find out, so that a later write may fail all the same.
    """
    try:
        os.lstat(path.with_name(f"{_ASIDE}{'0' * 32}-{path.name}"))  # as long as the longest name beside it
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as fault:  # a name that is too long
        return str(getattr(fault, "strerror", None) or fault)
    above = next(Path(one) for one in path.absolute().parents if os.path.exists(one))
    if not above.is_dir():
        return f"{str(above)!r} is not a folder"
    if os.access(above, os.W_OK | os.X_OK):
        return ""
    read_only = os.statvfs(above).f_flag & os.ST_RDONLY
    why = "it is on a read-only file system" if read_only else "its permissions do not allow it"
    return f"nothing can be written into {str(above)!r}: {why}"


def refuse_unwritable(option: str, folder: Path) -> None:
    """Refuse a folder in which nothing can be made: a ConfigError names option and reason; a file is left."""
    if not folder.is_file() and (why := unwritable(folder / "x")):
        raise ConfigError(f"{option}: {why}; name another folder with {option}=DIR")


@contextlib.contextmanager
def making(option: str, path: Path) -> Iterator[None]:
    """What cannot be made at a path is a fault of the option that names it; a full disk is none.

    Raises:
        ConfigError: naming both.
    """
    try:
        yield
    except OSError as fault:
        if is_full(fault):
            raise
        raise ConfigError(f"{option}: {str(path)!r} cannot be made: {fault.strerror}; name another") from None


def copy_mode(like: Path | int, paths: Iterable[Path]) -> None:
    """Give files the mode of another, so that the umask decides it; safetensors makes its own private.

    `like` is a file that was made in the ordinary way, or its descriptor: a process can read its umask only
    by changing it, for all of its threads. Folders among `paths` stay as they are.
    """
    mode = stat.S_IMODE(os.stat(like).st_mode)
    for path in paths:
        if path.is_file() and stat.S_IMODE(path.stat().st_mode) != mode:
            path.chmod(mode)


# What PyYAML lets through where a value does not fit its tag, as `!!bool maybe`, or nests too deeply.
_UNFIT = (ValueError, ArithmeticError, LookupError, AttributeError, RecursionError)


def read_yaml(path: Path) -> Any:
    """The plain data that a file holds; None where it is empty.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is no plain YAML; the message says why.
    """
    import yaml

    # That of libyaml reads eight times as fast, and is not in every PyYAML.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
    except (yaml.YAMLError, *_UNFIT) as fault:
        raise ValueError(f"not valid YAML: {' '.join(str(fault).split())}") from fault


def read_json(path: Path, *, numbers: Callable[[str], Any] | None = None) -> Any:
    """The data that a file of JSON holds; `numbers` makes the value of NaN, Infinity and -Infinity.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is no JSON; the message says why.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"), parse_constant=numbers)
    except RecursionError:
        raise ValueError("nests too deeply") from None


@contextlib.contextmanager
def as_written(path: Path, what: str, way_on: str) -> Iterator[None]:
    """A block that takes a file apart as embedrun wrote it: what it meets otherwise is a fault of the file.

    Raises:
        DataError: naming the file, `what` it is not, and the way on.
    """
    try:
        yield
    except (OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as fault:
        said = " ".join(str(fault).split())[:200]
        raise DataError(f"{path}: not {what} ({type(fault).__name__}: {said}); {way_on}") from fault


@cache
def _say_once(text: str) -> None:
    say(text)


def to_json_line(data: object) -> bytes:
    """JSON on one line, keys in their own order; half a surrogate pair, which UTF-8 cannot hold, is a `?`."""
    return json.dumps(data, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def to_json_lines(rows: Iterable[object]) -> bytes:
    """JSON Lines."""
    return b"".join(to_json_line(row) + b"\n" for row in rows)


def packed(content: bytes) -> bytes:
    """The content as gzip, without the name and the time that would make equal files differ."""
    import gzip  # for the few who write such a file

    buffer = BytesIO()
    with gzip.GzipFile(filename="", fileobj=buffer, mode="wb", compresslevel=9, mtime=0) as file:
        file.write(content)
    return buffer.getvalue()


class Lock:
    """A lock file, made where it is missing in an existing folder.

    One process holds it, with the children that it hands the file to.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None

    def acquire(self, *, wait: bool = True) -> bool:
        """Take the lock; false where another holds it and `wait` is false.

        Raises:
            ConfigError: if the file is a link.
            EmbedrunError: if the file system does not support locks.
        """
        file = open_lock(self._path)
        if not (held := take(file, wait=wait)):
            file.close()
        if held is None:
            raise EmbedrunError(
                f"{self._path}: this file system has no locks, which processes on one study need; start the "
                "search in a folder of another"
            )
        self._file = file if held else None
        return held

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

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def is_alive(run: Path) -> bool | None:
    """Whether a process writes into a run directory; None where that cannot be told.

    Nothing is written, and the lock is released at once.
    """
    try:
        lock = open_lock(run / ".lock", make=False)
    except (OSError, ConfigError):
        return None  # a run of somebody else, a copy without it, or a link
    with lock:
        free = take(lock, shared=True)
    return None if free is None else not free
