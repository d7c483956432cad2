"""Long work in blocks: whose they are, which are still to do, and what was made with which settings."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedrun.files import clear_remains


@dataclass(frozen=True)
class Shard:
    """The share of the blocks of work that one process does: `index`, `index + count`, `index + 2 count`, ...

    Args:
        index: from 0.
        count: of shards.
    """

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

    A part is there whole or not at all, and says in itself which settings it was made with; how it is written
    and read is for each kind of work to say.

    Args:
        output: the folder of the work; it need not exist.
        name: of the file of a block, with a place for its number: `part-{:05}.parquet`.
        count: how many blocks there are.
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
        """Remove what killed writers left among the parts and in the output, once all is written."""
        for folder in (self.output, self.folder):
            clear_remains(folder)


def differing(settings: Mapping[str, Any], record: Any) -> list[str]:
    """The settings whose value is another in the record of what something was made with."""
    before = record if isinstance(record, Mapping) else {}
    return [key for key in settings if before.get(key) != settings[key]]
