"""Files of a data set that appear whole or not at all."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

_ASIDE = ".tmp-"  # begins the name of every file that is being written


@contextlib.contextmanager
def published(path: Path) -> Iterator[Path]:
    """A place beside `path` to write to; after the block the file stands at `path`, whole, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A random name: processes that do the same work, to the same bytes, never write into one file.
    aside = path.with_name(f"{_ASIDE}{uuid4().hex}-{path.name}")
    try:
        yield aside
        with aside.open("rb+") as file:
            os.fsync(file.fileno())
        aside.replace(path)
    except FileNotFoundError:
        # Another process has published the same file, and cleared up what it took for remains.
        if not path.is_file():
            raise
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def clear_remains(folder: Path) -> None:
    """Remove what killed writers left in a folder; only once nothing there is still to be written."""
    for remains in folder.glob(f"{_ASIDE}*"):
        remains.unlink(missing_ok=True)
