"""Files that others share: locks, links that nothing is written through, modes that the umask decides."""

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from embedrun.errors import ConfigError


def open_lock(path: Path, *, make: bool = True) -> IO[bytes]:
    """Open the file of a lock; what is in it stays as it is.

    Args:
        path: of the file; its folder must be there.
        make: whether it is made where it is missing; without that it is opened to be read alone.

    Raises:
        ConfigError: if it is a link.
        OSError: if it cannot be opened.
    """
    flags = os.O_RDWR | os.O_CREAT if make else os.O_RDONLY
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW, 0o666)
    except OSError as fault:
        if fault.errno == errno.ELOOP:
            refuse_links([path])
        raise
    return os.fdopen(descriptor, "r+b" if make else "rb", buffering=0)


def refuse_links(paths: Iterable[Path]) -> None:
    """Refuse to write where there are links.

    Raises:
        ConfigError: naming each that is one.
    """
    problems = [
        f"{path} is a link to {os.readlink(path)}; embedrun writes through no link: put the file or folder "
        "itself there, or remove the link"
        for path in paths
        if path.is_symlink()
    ]
    if problems:
        raise ConfigError(problems)


def copy_mode(like: Path | int, paths: Iterable[Path]) -> None:
    """Give files the mode of another, so that the umask decides it; safetensors makes its own private.

    Args:
        like: a file that was made in the ordinary way, or its descriptor. A process can read its umask only
            by changing it, for all of its threads.
        paths: of the files; folders among them stay as they are.
    """
    mode = stat.S_IMODE(os.stat(like).st_mode)
    for path in paths:
        if path.is_file() and stat.S_IMODE(path.stat().st_mode) != mode:
            path.chmod(mode)
