"""Pairs of similar and of other issues, by groups that are never divided between splits."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from embedrun.errors import DataError

SPLITS = ("train", "dev", "test")
_DRAWS = 100  # at random before the issues are tried one by one
Text = bytes  # what stands for a text: the first 16 bytes of its SHA-256


@dataclass
class Repository:
    """What is kept of a repository.

    Args:
        name: ``owner/name`` as the user gave it.
        texts: title, blank line and body of each issue, by number; the paper does not say what its texts are.
        duplicates: numbers of a duplicate and of its original, sorted, without repeats.
        counts: issues, pull requests and claims by where they stand, and claims that were left out.
    """

    name: str
    texts: dict[int, str] = field(default_factory=dict)
    duplicates: list[tuple[int, int]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


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
    repositories: Iterable[Repository], *, negatives: float, shares: Mapping[str, float], seed: int
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
    """
    texts, by_texts = _positives(repositories)
    if not by_texts:
        raise DataError("no duplicate was found; name other repositories, or more of their issues")
    group_of, positives = _groups(by_texts), sorted(by_texts.values())
    groups = [group_of[texts[pair.repository][pair.left]] for pair in positives]
    room = {  # positives that dev and test take
        split: round(share * len(positives) if share < 1 else share / (1 + negatives))
        for split, share in shares.items()
    }
    split_of = _assign(groups, room, seed)
    pairs = {split: [] for split in SPLITS if shares.get(split, 1) > 0}
    for pair, group in zip(positives, groups, strict=True):
        pairs[split_of[group]].append(pair)
    if empty := [split for split, rows in pairs.items() if not rows]:
        raise DataError(
            f"no pair is left for {' and '.join(empty)}: there are {len(positives)} duplicates, in groups "
            "that stay together; change splits.dev and splits.test, or name more repositories"
        )
    # Small splits first: train must not take all the issues of a small repository.
    for split in reversed(pairs):
        pairs[split] += _negatives(pairs[split], texts, group_of, split_of, split, negatives, seed)
    return {split: sorted(rows) for split, rows in pairs.items()}


def _positives(
    repositories: Iterable[Repository],
) -> tuple[dict[str, dict[int, Text]], dict[frozenset[Text], Pair]]:
    texts, by_texts = {}, {}
    for repository in repositories:  # each is forgotten before the next is read
        hashes = {number: _hash(text)[:16] for number, text in repository.texts.items()}
        texts[repository.name] = hashes
        for left, right in repository.duplicates:
            pair, both = Pair(repository.name, left, right, 1), frozenset((hashes[left], hashes[right]))
            by_texts[both] = min(pair, by_texts.get(both, pair))
    return texts, by_texts


def _groups(links: Iterable[Iterable[Text]]) -> dict[Text, Text]:
    """The group of each text that a chain of links leads to, by its smallest text.

    The members are texts, not issue numbers, so that a text that was posted twice is in one group.
    """
    members: dict[Text, set[Text]] = {}
    for link in links:
        joined = set().union(*(members.get(text, {text}) for text in link))
        members.update(dict.fromkeys(joined, joined))
    return {text: min(group) for text, group in members.items()}


def _assign(pair_groups: Sequence[Text], room: dict[str, int], seed: int) -> dict[Text, str]:
    sizes, split_of = Counter(pair_groups), {}
    for group in sorted(sizes, key=lambda group: _draw(f"{seed} group {group.hex()}")):
        split = next((name for name, left in room.items() if sizes[group] <= left), "train")
        split_of[group] = split
        if split in room:
            room[split] -= sizes[group]
    return split_of


def _negatives(
    positives: Sequence[Pair],
    texts: Mapping[str, Mapping[int, Text]],
    group_of: Mapping[Text, Text],
    split_of: dict[Text, str],
    split: str,
    rate: float,
    seed: int,
) -> list[Pair]:
    pairs, used = [], set()
    numbers = {name: sorted(texts[name]) for name in {pair.repository for pair in positives}}
    for index, pair in enumerate(positives):
        text = texts[pair.repository][pair.left]
        for nth in range(int((index + 1) * rate) - int(index * rate)):
            key = f"{seed} negative {pair.repository} {pair.left} {pair.right} {nth}"
            for number in _candidates(numbers[pair.repository], key):
                other = texts[pair.repository][number]
                group, both = group_of.get(other, other), frozenset((text, other))
                if group != group_of[text] and both not in used and split_of.get(group, split) == split:
                    split_of[group] = split
                    used.add(both)
                    pairs.append(Pair(pair.repository, pair.left, number, 0))
                    break
    return pairs


def _candidates(numbers: Sequence[int], key: str) -> Iterator[int]:
    for draw in range(_DRAWS):
        yield numbers[_draw(f"{key} {draw}") % len(numbers)]
    start = _draw(key) % len(numbers)
    yield from (*numbers[start:], *numbers[:start])


def _draw(key: str) -> int:
    """A number derived from a text: the same on every machine and in every version of Python."""
    return int.from_bytes(_hash(key)[:8], "big")


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
