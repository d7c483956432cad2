"""Which blocks of a long piece of work one of several processes does."""

import re
from dataclasses import dataclass


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

    def takes(self, block: int) -> bool:
        """Whether the block is its own."""
        return block % self.count == self.index
