"""Long work in blocks: which process does which, and the settings of those made."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from embedrun.files import Plain


@dataclass(frozen=True)
class Shard:
    """The share of the blocks that one process of `count` does: `index`, from 0, `index + count`, ..."""

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """The shard that `"0/4"`, the first of four, names; else a ValueError."""
        found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text, re.ASCII)
        if found is None or int(found[1]) >= int(found[2]):
            raise ValueError(f"expected I/N with I from 0 to N - 1 (the first of four is 0/4), got {text!r}")
        return cls(int(found[1]), int(found[2]))

    def of(self, blocks: int) -> list[int]:
        """The numbers of its blocks."""
        return list(range(self.index, blocks, self.count))


def differing(settings: Plain, record: object) -> list[str]:
    """The settings that have another value in the record of an earlier output."""
    before = record if isinstance(record, Mapping) else {}
    return [key for key in settings if before.get(key) != settings[key]]
