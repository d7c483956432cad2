"""Answers of the platform on the disk, one file each, so that none is ever asked for twice."""

import gzip
import hashlib
import json
import time
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from embedrun.files import published

_REMAINS = 3600.0  # seconds


@dataclass(frozen=True)
class Page:
    """One answer.

    Args:
        url: that was asked for.
        status: of HTTP; 200, or 404, 410 or 451 for what is not there (any more).
        items: the JSON of the answer; None where nothing is there.
        next: URL of the next page, or None on the last one.
        etag: the platform's name for this state of the answer, or None.
    """

    url: str
    status: int
    items: Any
    next: str | None = None
    etag: str | None = None


class Cache:
    """A folder of answers.

    A page is written beside its place, flushed to the disk and renamed, so that a kill at any moment leaves
    a whole page or none. What a damaged disk made of one is found by gzip's checksum and asked for again.

    Args:
        folder: need not exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, url: str) -> Path:
        """Where the answer is or would be; 256 folders, since there may be a hundred thousand pages."""
        name = hashlib.sha256(url.encode()).hexdigest()
        return self.folder / name[:2] / f"{name[2:]}.json.gz"

    def read(self, url: str) -> Page | None:
        """The kept answer, or None where there is none or it is damaged."""
        try:
            page = Page(**json.loads(gzip.decompress(self.path(url).read_bytes())))
        except (FileNotFoundError, gzip.BadGzipFile, EOFError, zlib.error, ValueError, TypeError):
            return None
        return page if page.url == url else None

    def clear_remains(self) -> None:
        """Remove what killed processes left half written: after an hour nobody writes it any more."""
        for remains in self.folder.glob("*/.tmp-*"):
            if time.time() - remains.stat().st_mtime > _REMAINS:
                remains.unlink(missing_ok=True)

    def write(self, page: Page) -> None:
        """Keep an answer."""
        with published(self.path(page.url)) as aside:
            # No time in the header: the same answer is the same bytes.
            aside.write_bytes(gzip.compress(json.dumps(asdict(page)).encode(), mtime=0))
