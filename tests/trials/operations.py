"""Every change of a folder, counted, so that a test can fail it or kill the process there."""

import errno
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pytest
import safetensors.torch

_NAMES = ("mkdir", "rmdir", "rename", "replace", "unlink", "remove", "fsync")


class Killed(BaseException):
    """Ends the process like a kill would, but for this one."""


def raise_killed() -> NoReturn:
    """Leave as a kill does, with nothing tidied: no code catches this."""
    raise Killed


def kill() -> None:
    """Leave by a real `kill -9`."""
    os.kill(os.getpid(), signal.SIGKILL)


def disk_full() -> NoReturn:
    """Fail as a write does on a full disk."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@dataclass
class Changes:
    """The changes of a folder, and the one at which to act."""

    at: int | str
    act: Callable[[], None]
    root: Path
    done: list[str] = field(default_factory=list)

    def due(self, what: str, place: Path) -> bool:
        """Count a change; whether to act now."""
        if place != self.root and self.root not in place.parents:
            return False
        self.done.append(f"{what} {place.relative_to(self.root)}")
        return self.at in (len(self.done), nameless(self.done[-1]))

    def named(self, name: str, original: Callable) -> Callable:
        def change(path: Any, *rest: Any, **more: Any) -> Any:
            if self.due(name, _place(path, more.get("dir_fd"))):
                self.act()
            return original(path, *rest, **more)

        return change

    def written(self, original: Callable, which: int) -> Callable:
        """Watch a function that writes a file; `which` of its arguments is the path."""

        def write(*arguments: Any, **more: Any) -> Any:
            place = _place(arguments[which])
            if self.due("write", place):
                self.act()
            result = original(*arguments, **more)
            if self.due("tear", place):
                os.truncate(place, place.stat().st_size // 2)
                self.act()
            return result

        return write


@contextmanager
def strike(at: int | str, act: Callable[[], None], within: Path) -> Iterator[list[str]]:
    """Call `act` just before one change below a folder, or in the middle of one.

    Changes are: a folder made or removed, a name given, changed or taken away, a file written (one moment
    before it, one when half of it is there) and an fsync. The code under test finds `os.rename` and the like
    through their module, as pathlib and shutil do.

    Args:
        at: number of the change, the first is 1; 0 strikes never. Or what `nameless` makes of it, at each of
            that kind.
        act: `raise_killed`, `kill`, `disk_full`, ...
        within: changes elsewhere are not counted; need not exist yet.

    Yields:
        The changes so far, such as `rename .tmp-step-00000001`.
    """
    changes = Changes(at, act, within.absolute())
    serialize = safetensors.torch.serialize_file
    with pytest.MonkeyPatch.context() as patch:
        for name in _NAMES:
            patch.setattr(os, name, changes.named(name, getattr(os, name)))
        patch.setattr(Path, "write_text", changes.written(Path.write_text, 0))
        patch.setattr(Path, "write_bytes", changes.written(Path.write_bytes, 0))
        patch.setattr(safetensors.torch, "serialize_file", changes.written(serialize, 1))
        yield changes.done


def nameless(change: str) -> str:
    """A change whichever step it is of and whatever a temporary file is called: `rename .tmp-step-N`."""
    return re.sub(r"[0-9a-f]{16,32}|\d+", "N", change)


def _place(path: Any, folder: int | None = None) -> Path:
    """The path behind a path, a descriptor, or a name in an open folder."""
    if isinstance(path, int):
        return Path(os.readlink(f"/proc/self/fd/{path}"))
    base = os.getcwd() if folder is None else os.readlink(f"/proc/self/fd/{folder}")
    return Path(os.path.normpath(os.path.join(base, os.fspath(path))))
