"""Texts that belong together."""


class Groups:
    """Texts that are linked by a chain of duplicates (union-find); a text that is not linked is alone.

    The members are texts, not issue numbers, so that a text that was posted twice is in one group.
    """

    def __init__(self) -> None:
        self._parent: dict[bytes, bytes] = {}

    def root(self, text: bytes) -> bytes:
        """The text that stands for a group: its smallest, whatever the order of the links."""
        chain = []
        while (parent := self._parent.get(text, text)) != text:
            chain.append(text)
            text = parent
        for member in chain:
            self._parent[member] = text
        return text

    def link(self, one: bytes, other: bytes) -> None:
        """Put two texts into one group."""
        low, high = sorted((self.root(one), self.root(other)))
        self._parent[high] = low
