"""Long work in blocks: which process does which, which are still to do, and the settings of those made."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from embedrun.files import Plain, clear_remains


@dataclass(frozen=True)
class Shard:
    """The share of the blocks that one process of `count` does: `index`, from 0, `index + count`, ..."""

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """The shard that `"0/4"`, the first of four, names.

        Raises:
            ValueError: with the reason.
        """
        found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text, re.ASCII)
        if found is None or int(found[1]) >= int(found[2]):
            raise ValueError(f"expected I/N with I from 0 to N - 1 (the first of four is 0/4), got {text!r}")
        return cls(int(found[1]), int(found[2]))

    def of(self, blocks: int) -> list[int]:
        """The numbers of its blocks."""
        return list(range(self.index, blocks, self.count))


EVERY = Shard(0, 1)


class Parts:
    """The blocks of one piece of work that are done: a file each, in the folder `parts/` of the output.

    A part is complete or absent, and records the settings that it was made with; how it is written and read
    is up to each kind of work. `name` is that of a file, with a place for the block's number:
    `part-{:05}.parquet`. The output folder need not exist.
    """

    def __init__(self, output: Path, name: str, count: int) -> None:
        self.output, self.folder = output, output / "parts"
        self.count = count
        self._name = name

    def path(self, number: int) -> Path:
        """The file of a block."""
        return self.folder / self._name.format(number)

    def missing(self, shard: Shard = EVERY) -> list[int]:
        """The blocks of a shard that are still to do."""
        return [number for number in shard.of(self.count) if not self.path(number).is_file()]

    def there(self) -> list[int]:
        """The blocks that have a part, also those beyond the last, which only work of other settings has."""
        found = []
        for path in self.folder.glob("*"):
            digits = re.search("[0-9]+", path.name)
            if digits is not None and path == self.path(number := int(digits[0])):
                found.append(number)
        return sorted(found)

    def clear_remains(self) -> None:
        """Remove what killed writers left among the parts and in the output, once everything is written."""
        for folder in (self.output, self.folder):
            clear_remains(folder)


def differing(settings: Plain, record: object) -> list[str]:
    """The settings that have another value in the record of an earlier output."""
    before = record if isinstance(record, Mapping) else {}
    return [key for key in settings if before.get(key) != settings[key]]
