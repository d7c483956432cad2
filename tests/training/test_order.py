import numpy as np

from embedrun.training.order import Order


def order(rows: int = 10, batch_size: int = 3, accumulate: int = 1, seed: int = 7) -> Order:
    return Order(rows=rows, batch_size=batch_size, accumulate=accumulate, seed=seed)


def batches(of: Order, steps: range) -> list[list[int]]:
    return [draw.rows.tolist() for step in steps for draw in of.batches(step)]


def test_a_step_is_the_same_whatever_came_before_it():
    forwards = {step: batches(order(), range(step, step + 1)) for step in range(1, 30)}
    backwards = {step: batches(order(), range(step, step + 1)) for step in range(29, 0, -1)}
    assert forwards == backwards


def test_what_a_caller_does_to_its_rows_changes_no_other_step():
    before = batches(order(), range(1, 4))
    order().batches(1)[0].rows[:] = 0
    assert batches(order(), range(1, 4)) == before


def test_each_row_comes_once_an_epoch_and_the_rest_is_left_out():
    epoch = batches(order(rows=10, batch_size=3), range(1, 4))  # 3 batches of 3; 1 row left out
    seen = [row for rows in epoch for row in rows]
    assert [len(rows) for rows in epoch] == [3, 3, 3]
    assert len(set(seen)) == 9
    assert set(seen) < set(range(10))


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
    (draw,) = order(rows=2, batch_size=32).batches(1)
    assert sorted(draw.rows.tolist()) == [0, 1]
    assert order(rows=2, batch_size=32).per_epoch == 1


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
