"""Files that others share: locks, and links that nothing is written through."""

import errno
import os
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
