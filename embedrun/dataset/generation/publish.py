"""Files that are there whole or not at all, with the same bytes for the same content."""

import gzip
import json
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Any

from embedrun.dataset.atomic import published


def publish(path: Path, content: bytes, *, replace: bool = False) -> None:
    """Write a file under its name once it is complete and on the disk.

    Args:
        path: in a folder that is made if need be.
        content: of the file.
        replace: whether a file of that name gives way; else it stays and the content is dropped.
    """
    if replace or not path.exists():
        with published(path) as aside:
            aside.write_bytes(content)


def to_json(data: Any) -> bytes:
    """JSON on one line, keys in their own order; half a surrogate pair, which UTF-8 cannot hold, is a `?`."""
    return json.dumps(data, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def to_lines(rows: Iterable[Any]) -> bytes:
    """JSON Lines."""
    return b"".join(to_json(row) + b"\n" for row in rows)


def packed(content: bytes) -> bytes:
    """The content as gzip, without the name and the time that would make equal files differ."""
    buffer = BytesIO()
    with gzip.GzipFile(filename="", fileobj=buffer, mode="wb", compresslevel=9, mtime=0) as file:
        file.write(content)
    return buffer.getvalue()
