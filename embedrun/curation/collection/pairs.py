"""Pairs of similar and of other issues, by groups that are never divided between splits."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from embedrun.curation.collection.issues import Repository
from embedrun.errors import DataError


class Groups:
    """Texts that are linked by a chain of duplicates (union-find); a text without links is alone.

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


SPLITS = ("train", "dev", "test")
_DRAWS = 100  # at random before the issues are gone through one by one


@dataclass(frozen=True, order=True)
class Pair:
    """Two issues of one repository, ``owner/name``, with score 1 or 0.

    `left` is the number of the duplicate, `right` of its original (1) or of an issue of another group (0).
    """

    repository: str
    left: int
    right: int
    score: int


def make_pairs(
    repositories: Sequence[Repository], *, negatives: float, shares: Mapping[str, float], seed: int
) -> dict[str, list[Pair]]:
    """Positive and negative pairs by split, sorted.

    Each duplicate with its original is a positive. Groups, the connected components of the duplicates, go to
    the splits whole, in an order that the seed draws: to the first of dev and test that has room for all of
    the group's positives, else to train. A negative is a duplicate with an issue of its repository from
    another group; an issue that is in no group belongs to the split that draws it first. So no issue, and no
    text, is in two splits.

    Departure from the AnglE paper, Sec. 4.1: it does not say how its negatives and its splits were drawn.

    Args:
        negatives: for each positive, at least 0; of 0.5 every second one gets one.
        shares: of dev and test: below 1 a share of all pairs, else their number.

    Raises:
        DataError: if there is no duplicate, or a split comes out empty.
    """
    draft = _Draft(repositories, seed)
    positives = draft.positives()
    if not positives:
        raise DataError("no duplicate was found; name other repositories, or more of their issues")
    draft.assign(positives, _wanted(shares, len(positives), negatives))
    pairs = {
        split: [pair for pair in positives if draft.split_of(pair) == split]
        for split in SPLITS
        if split == "train" or shares[split] > 0
    }
    if empty := [split for split, found in pairs.items() if not found]:
        raise DataError(
            f"no pair is left for {' and '.join(empty)}: there are {len(positives)} duplicates, in groups "
            "that stay together; change splits.dev and splits.test, or name more repositories"
        )
    # Small splits first: train must not take all the issues of a small repository.
    for split in reversed(pairs):
        pairs[split] += list(draft.negatives(pairs[split], split, negatives))
    return {split: sorted(found) for split, found in pairs.items()}


def _wanted(shares: Mapping[str, float], positives: int, negatives: float) -> dict[str, int]:
    """Positives of dev and test."""
    return {
        split: round(share * positives if share < 1 else share / (1 + negatives))
        for split, share in shares.items()
    }


class _Draft:
    """Pairs in the making: which texts form groups, and which split each group has gone to."""

    def __init__(self, repositories: Sequence[Repository], seed: int) -> None:
        self._repositories = {repository.name: repository for repository in repositories}
        self._numbers = {repository.name: sorted(repository.issues) for repository in repositories}
        self._seed = seed
        self._groups = Groups()
        self._split: dict[bytes, str] = {}  # by the root of the group

    def positives(self) -> list[Pair]:
        """One pair for every two texts, however often they were posted."""
        found: dict[frozenset[bytes], Pair] = {}
        for name, repository in sorted(self._repositories.items()):
            for left, right in repository.duplicates:
                one, other = self._text(name, left), self._text(name, right)
                self._groups.link(one, other)
                found.setdefault(frozenset((one, other)), Pair(name, left, right, 1))
        return sorted(found.values())

    def assign(self, positives: Sequence[Pair], room: dict[str, int]) -> None:
        """Give every group its split; `room` is how many positives dev and test take."""
        sizes = Counter(map(self._group, positives))
        for group in sorted(sizes, key=lambda group: _draw(f"{self._seed} group {group.hex()}")):
            split = next((name for name, left in room.items() if sizes[group] <= left), "train")
            self._split[group] = split
            if split in room:
                room[split] -= sizes[group]

    def split_of(self, pair: Pair) -> str:
        """The split of a positive."""
        return self._split[self._group(pair)]

    def negatives(self, positives: Sequence[Pair], split: str, rate: float) -> Iterator[Pair]:
        """The negatives of one split; a pair for which its repository has no issue left gets none."""
        used: set[frozenset[bytes]] = set()
        for index, pair in enumerate(positives):
            for nth in range(int((index + 1) * rate) - int(index * rate)):
                key = f"{self._seed} negative {pair.repository} {pair.left} {pair.right} {nth}"
                one, group = self._text(pair.repository, pair.left), self._group(pair)
                for number in _candidates(self._numbers[pair.repository], key):
                    other = self._text(pair.repository, number)
                    theirs = self._groups.root(other)
                    both = frozenset((one, other))
                    if theirs != group and both not in used and self._split.get(theirs, split) == split:
                        self._split[theirs] = split
                        used.add(both)
                        yield Pair(pair.repository, pair.left, number, 0)
                        break

    def _text(self, name: str, number: int) -> bytes:
        return self._repositories[name].issues[number].text

    def _group(self, pair: Pair) -> bytes:
        return self._groups.root(self._text(pair.repository, pair.left))


def _candidates(numbers: Sequence[int], key: str) -> Iterator[int]:
    """Issues in a drawn order: some at random, then all of them one after another."""
    for draw in range(_DRAWS):
        yield numbers[_draw(f"{key} {draw}") % len(numbers)]
    start = _draw(key) % len(numbers)
    yield from (*numbers[start:], *numbers[:start])


def _draw(key: str) -> int:
    """A number derived from a text: the same on every machine and in every version of Python."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big")
