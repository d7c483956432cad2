"""Positive and negative pairs of issues."""

from collections import Counter

import pytest

from embedrun.curation.pairs import Pair, Repository, make_pairs
from embedrun.errors import DataError

NONE = {"dev": 0, "test": 0}


def repository(name: str, issues: int, duplicates: list[tuple[int, int]], texts: dict[int, str] = {}):  # noqa: B006
    """Issues 1 to `issues`, each with a text of its own unless it is said otherwise."""
    own = {number: texts.get(number, f"{name} {number}") for number in range(1, issues + 1)}
    return Repository(name, own, duplicates)


def many(name: str, count: int) -> Repository:
    """Pairs (2, 1), (4, 3), ... and as many issues again that are no duplicates."""
    return repository(name, 4 * count, [(2 * index, 2 * index - 1) for index in range(1, count + 1)])


def test_every_duplicate_with_its_original_is_a_positive():
    pairs = make_pairs([repository("o/r", 4, [(2, 1), (4, 3)])], negatives=0, shares=NONE, seed=1)
    assert pairs == {"train": [Pair("o/r", 2, 1, 1), Pair("o/r", 4, 3, 1)]}


def test_a_negative_is_of_the_same_repository_and_another_group():
    # Issue 5 is the only one of o/r outside the group of four, though they are linked in a chain only.
    chain = repository("o/r", 5, [(2, 1), (3, 2), (4, 3)])
    pairs = make_pairs([chain, repository("x/y", 9, [])], negatives=1, shares=NONE, seed=1)["train"]
    assert [pair for pair in pairs if not pair.score] == [Pair("o/r", left, 5, 0) for left in (2, 3, 4)]


@pytest.mark.parametrize(("rate", "count"), [(0, 0), (0.5, 10), (1, 20), (2.5, 50)])
def test_the_rate_of_negatives_is_exact(rate, count):
    (pairs,) = make_pairs([many("o/r", 20)], negatives=rate, shares=NONE, seed=1).values()
    assert Counter(pair.score for pair in pairs) == Counter({1: 20, 0: count})


def members(pairs: list[Pair]) -> set[tuple[str, int]]:
    return {(pair.repository, number) for pair in pairs for number in (pair.left, pair.right)}


@pytest.mark.parametrize("seed", range(5))
def test_no_issue_and_no_text_is_in_two_splits(seed):
    linked = repository(
        "a/b", 60, [(3 * i, 3 * i - 1) for i in range(1, 16)] + [(3 * i, 1) for i in (4, 5, 6)]
    )
    same = repository("c/d", 30, [(2, 1), (4, 3), (6, 5)], texts={1: "one", 3: "one", 9: "a/b 2"})
    repositories = [linked, same, many("o/r", 20)]
    pairs = make_pairs(repositories, negatives=2, shares={"dev": 0.2, "test": 0.2}, seed=seed)
    texts = {item.name: item.texts for item in repositories}
    by_split = [
        {texts[name][number] for name, number in members(pairs[split])} for split in ("train", "dev", "test")
    ]
    assert all(by_split)
    assert not by_split[0] & by_split[1]
    assert not by_split[0] & by_split[2]
    assert not by_split[1] & by_split[2]


def test_shares_and_numbers_of_pairs_are_met_where_groups_are_small():
    pairs = make_pairs([many("o/r", 100)], negatives=1, shares={"dev": 0.1, "test": 30}, seed=3)
    assert {split: len(found) for split, found in pairs.items()} == {"train": 150, "dev": 20, "test": 30}


def test_the_seed_alone_decides():
    def made(seed: int, first: str = "o/r"):
        repositories = sorted([many("o/r", 30), many("x/y", 30)], key=lambda item: item.name != first)
        return make_pairs(repositories, negatives=1, shares={"dev": 0.1, "test": 0.1}, seed=seed)

    assert made(1) == made(1) == made(1, first="x/y")
    assert made(1)["dev"] != made(2)["dev"]


def test_without_duplicates_there_is_nothing_to_make():
    with pytest.raises(DataError, match="no duplicate was found"):
        make_pairs([repository("o/r", 5, [])], negatives=1, shares=NONE, seed=1)


def test_an_issue_with_the_text_of_the_group_is_no_negative():
    twice = repository("o/r", 4, [(2, 1)], texts={3: "o/r 1"})
    pairs = make_pairs([twice], negatives=1, shares=NONE, seed=1)["train"]
    assert [pair for pair in pairs if not pair.score] == [Pair("o/r", 2, 4, 0)]
