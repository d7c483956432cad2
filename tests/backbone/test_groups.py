import itertools

import numpy as np
import pytest

from embedrun.backbone.transformer import groups


def lengths_of(lengths, found):
    return [[int(lengths[i]) for i in group] for group in found]


def cost(lengths, found, overhead):
    return sum(len(group) * max(lengths[i] for i in group) + overhead for group in found)


def test_without_overhead_only_texts_of_one_length_share_a_pass():
    lengths = np.array([3, 5, 3, 4, 5])
    assert lengths_of(lengths, groups(lengths, overhead=0)) == [[5, 5], [4], [3, 3]]


def test_a_large_overhead_makes_one_group():
    lengths = np.array([3, 50, 3, 4, 5])
    assert lengths_of(lengths, groups(lengths, overhead=10_000)) == [[50, 5, 4, 3, 3]]


def test_a_pass_is_saved_where_padding_costs_less_than_it():
    # Padding 9 to 10 twice costs 2 tokens, less than 5; padding 2 to 9 would cost 7, more than 5.
    lengths = np.array([9, 10, 2, 9])
    assert lengths_of(lengths, groups(lengths, overhead=5)) == [[10, 9, 9], [2]]


def test_the_cut_is_as_cheap_as_the_best_of_all_cuts():
    generator = np.random.default_rng(0)
    for _ in range(20):
        lengths = generator.integers(1, 30, size=8)
        ordered = np.sort(lengths)
        cheapest = min(
            cost(ordered, np.split(np.arange(8), cuts), 6)
            for count in range(8)
            for cuts in itertools.combinations(range(1, 8), count)
        )
        assert cost(lengths, groups(lengths, overhead=6), 6) == cheapest


@pytest.mark.parametrize("budget", [1, 7, 16, 64])
def test_no_group_is_over_budget_and_every_text_is_in_one_group(budget):
    lengths = np.random.default_rng(1).integers(1, 17, size=200)
    found = groups(lengths, overhead=30, budget=budget)
    assert sorted(np.concatenate(found)) == list(range(200))
    assert all(len(group) == 1 or len(group) * lengths[group].max() <= budget for group in found)


def test_no_texts_make_no_groups():
    assert groups(np.array([], dtype=np.int64), overhead=32) == []
