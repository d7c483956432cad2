import numpy as np
import pytest

from embedrun.training.order import Order


def order(rows: int = 10, batch_size: int = 3, accumulate: int = 1, seed: int = 7) -> Order:
    return Order(rows=rows, batch_size=batch_size, accumulate=accumulate, seed=seed)


def uneven(accumulate: int = 1, seed: int = 7) -> Order:
    """Forty rows of 1 to 40 tokens; an epoch has 9 to 11 batches of 90 tokens."""
    lengths = np.arange(1, 41)[:, None]
    return Order(40, 8, accumulate, seed, batch_tokens=90, lengths=lengths)


def batches(of: Order, steps: range) -> list[list[int]]:
    return [draw.rows.tolist() for step in steps for draw in of.batches(step)]


def test_a_step_is_the_same_whatever_came_before_it():
    forwards = {step: batches(order(), range(step, step + 1)) for step in range(1, 30)}
    backwards = {step: batches(order(), range(step, step + 1)) for step in range(29, 0, -1)}
    assert forwards == backwards


def test_what_a_caller_does_to_its_rows_changes_no_other_step():
    one = order()
    before = batches(one, range(1, 4))
    one.batches(1)[0].rows[:] = 0
    assert batches(one, range(1, 4)) == before


def test_each_row_comes_once_an_epoch_and_the_rest_is_left_out():
    epoch = batches(order(rows=10, batch_size=3), range(1, 4))  # 3 batches of 3; 1 row left out
    seen = [row for rows in epoch for row in rows]
    assert [len(rows) for rows in epoch] == [3, 3, 3]
    assert len(set(seen)) == 9
    assert set(seen) < set(range(10))
    assert order(rows=10, batch_size=3).left_out(0) == 1


def test_no_row_is_always_left_out():
    seen = {row for rows in batches(order(), range(1, 31)) for row in rows}
    assert seen == set(range(10))


def test_every_epoch_has_another_order():
    epochs = [batches(order(rows=12), range(first, first + 4)) for first in (1, 5, 9)]
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    assert [sorted(row for rows in epoch for row in rows) for epoch in epochs] == [list(range(12))] * 3


def test_the_seed_decides_the_order():
    assert batches(order(seed=1), range(1, 4)) == batches(order(seed=1), range(1, 4))
    assert batches(order(seed=1), range(1, 4)) != batches(order(seed=2), range(1, 4))


def test_accumulation_takes_the_same_batches_two_a_step_across_the_end_of_an_epoch():
    one = order(rows=10, batch_size=3)  # 3 batches an epoch, so step 2 has one of each epoch
    two = order(rows=10, batch_size=3, accumulate=2)
    assert batches(two, range(1, 4)) == batches(one, range(1, 7))


def test_less_than_a_batch_is_one_batch_of_all_rows():
    few = order(rows=2, batch_size=32)
    (draw,) = few.batches(1)
    assert sorted(draw.rows.tolist()) == [0, 1]
    assert few.steps(3, None) == 3


def test_the_number_of_steps_by_hand():
    assert order(rows=100, batch_size=10).steps(1, None) == 10
    assert order(rows=109, batch_size=10).steps(2.5, None) == 25
    assert order(rows=100, batch_size=10, accumulate=4).steps(2, None) == 5
    assert order(rows=100, batch_size=10).steps(0.01, None) == 1  # never none
    assert order(rows=100, batch_size=10).steps(3, 7) == 7
    assert order(rows=100, batch_size=10).steps(1, 7000) == 10


def test_epoch_counts_passes_over_the_data():
    assert order(rows=100, batch_size=10).epoch(5) == 0.5
    assert order(rows=100, batch_size=10, accumulate=4).epoch(5) == 2


def test_the_order_of_one_seed_stays_what_it_is():
    # A run can be repeated only while this does not change.
    expected = np.random.default_rng(np.random.SeedSequence([7, 0])).permutation(10)[:3].tolist()
    assert order().batches(1)[0].rows.tolist() == expected


def test_batches_are_numbered_through_the_run_and_know_their_epoch():
    one = order(rows=10, batch_size=3, accumulate=2)  # 3 batches an epoch
    draws = [(draw.number, draw.epoch) for step in (1, 2, 3) for draw in one.batches(step)]
    assert draws == [(0, 0), (1, 0), (2, 0), (3, 1), (4, 1), (5, 1)]


def test_where_epochs_differ_in_batches_their_steps_add_up():
    counts = [uneven(seed=seed).steps(1, None) for seed in range(20)]
    assert len(set(counts)) > 1
    one = uneven()
    draws = [draw for step in range(1, one.steps(3, None) + 1) for draw in one.batches(step)]
    assert [draw.number for draw in draws] == list(range(len(draws)))
    each = [sum(draw.epoch == epoch for draw in draws) for epoch in range(4)]
    assert each == [one.steps(1, None), one.steps(2, None) - each[0], len(draws) - sum(each[:2]), 0]


def test_part_of_an_uneven_epoch_is_that_part_of_its_batches():
    one = uneven()
    first, second = one.steps(1, None), one.steps(2, None)
    assert one.steps(1.5, None) == round(first + (second - first) / 2)
    assert one.steps(0.001, None) == 1
    assert one.epoch(first) == 1
    assert one.epoch(second) == 2
    assert one.epoch(0) == 0
    assert one.epoch(first + 1) == 1 + 1 / (second - first)


def test_no_epoch_beyond_the_last_step_is_made():
    one = uneven()
    assert one.steps(10**9, 7) == 7
    assert len(one._starts) <= 2
    other = uneven()
    assert other.epoch(one.steps(1, None)) == 1
    assert len(other._starts) == 2  # of the second epoch only that it begins is known


def test_accumulation_takes_the_same_uneven_batches():
    assert batches(uneven(accumulate=3), range(1, 12)) == batches(uneven(), range(1, 34))


def test_marks_by_hand():
    ten = order(rows=100, batch_size=10)  # 10 batches an epoch
    assert ten.marks(20, 1) == {10, 20}
    assert ten.marks(25, 2) == {5, 10, 15, 20, 25}
    assert ten.marks(10, 3) == {4, 7, 10}  # after 3 1/3, 6 2/3 and 10 batches
    assert ten.marks(5, 3) == {4}
    assert ten.marks(2, 100) == {1, 2}  # no more than one a step
    four = order(rows=100, batch_size=10, accumulate=4)
    assert four.marks(5, 1) == {3, 5}  # batches 10 and 20 are in steps 3 and 5


def test_marks_of_uneven_epochs_stand_at_their_ends():
    one = uneven()
    ends = [one.steps(epochs, None) for epochs in (1, 2, 3)]
    assert one.marks(ends[-1], 1) == set(ends)
    assert {step for step in one.marks(ends[-1], 4) if one.epoch(step) == int(one.epoch(step))} == set(ends)
    assert len(one.marks(ends[-1], 4)) == 12


def test_what_the_options_need_must_be_there():
    with pytest.raises(ValueError, match="lengths"):
        Order(4, 2, 1, 0, batching="length_grouped")
    with pytest.raises(ValueError, match="lengths"):
        Order(4, 2, 1, 0, batch_tokens=9, lengths=np.ones((3, 1), dtype=np.int64))
    with pytest.raises(ValueError, match="identities"):
        Order(4, 2, 1, 0, distinct=True)
    with pytest.raises(ValueError, match="12 tokens in a batch of 11"):
        Order(3, 2, 1, 0, batch_tokens=11, lengths=np.array([[6], [6], [1]]))


def test_rows_that_all_share_a_text_make_no_batch():
    one = Order(4, 2, 1, 0, distinct=True, texts=np.zeros((4, 1), dtype=np.int64))
    with pytest.raises(ValueError, match="no batch"):
        one.steps(1, None)
