"""The work cut into blocks of sentences: each is one file, written once, wherever and whenever it is made."""

import gzip
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from embedrun.dataset.generation.sift import Row, Sifted
from embedrun.errors import DataError
from embedrun.files import packed, publish, to_json_line

BLOCK = 200  # sentences; part of the layout, so that any sharding gives the same parts
_PART = re.compile(r"part-(\d{6})\.json\.gz", re.ASCII)


def blocks(sentences: Sequence[str], block: int = BLOCK) -> list[list[str]]:
    """The sentences in blocks, the last one shorter."""
    return [list(sentences[start : start + block]) for start in range(0, len(sentences), block)]


class Parts:
    """The parts of one output folder.

    Args:
        folder: where they are.
        settings: all that decides their content; it stands in each part.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.folder = folder
        self._settings = dict(settings)

    def path(self, block: int) -> Path:
        """The file of a block."""
        return self.folder / f"part-{block:06}.json.gz"

    def has(self, block: int) -> bool:
        """Whether the part of the block is there."""
        return self.path(block).is_file()

    def check(self) -> None:
        """Hold every part that is there against the settings.

        Raises:
            DataError: if one is damaged or was made with other settings.
        """
        if self.folder.is_dir():
            for path in sorted(self.folder.iterdir()):
                if found := _PART.fullmatch(path.name):
                    self.read(int(found[1]))

    def write(self, block: int, sifted: Sequence[Sifted]) -> None:
        """Publish the part of a block; one that is there already stays."""
        content = {
            "settings": self._settings,
            "block": block,
            "pairs": [row for one in sifted for row in one.pairs],
            "rejects": [row for one in sifted for row in one.rejects],
        }
        publish(self.path(block), packed(to_json_line(content) + b"\n"))

    def read(self, block: int) -> tuple[list[Row], list[Row]]:
        """Pairs and rejects of a block.

        Raises:
            DataError: if the part is missing, damaged, or was made with other settings.
        """
        path = self.path(block)
        try:
            content = json.loads(gzip.decompress(path.read_bytes()))
            settings, pairs, rejects = content["settings"], content["pairs"], content["rejects"]
            if content["block"] != block:
                raise ValueError(f"it is the part of block {content['block']}")
        except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as fault:
            raise DataError(
                f"{path}: not a readable part ({type(fault).__name__}: {fault}); delete it, and the same "
                "command makes it again"
            ) from fault
        if settings != self._settings:
            keys = [key for key in self._settings if settings.get(key) != self._settings[key]]
            raise DataError(
                f"{path}: made with another {', '.join(keys) or 'configuration'}; go on with the "
                "configuration that it was made with, or give another output=DIR, and with responses=DIR the "
                "answers so far"
            )
        return pairs, rejects
