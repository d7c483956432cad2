import numpy as np

from embedrun.training.order import Epoch, Order, by_length

ROWS, SIZE = 1000, 8


def grouped(**other) -> Order:
    lengths = np.random.default_rng(5).integers(5, 60, (ROWS, 2))  # (rows, passes)
    return Order(ROWS, SIZE, 1, 3, batching="length_grouped", grouped_batches=25, lengths=lengths, **other)


def test_each_chunk_is_sorted_and_its_ties_stay_in_order():
    order = np.array([4, 1, 0, 3, 2, 5, 6])
    lengths = np.array([7, 5, 1, 5, 9, 2, 1])  # of rows 0 to 6
    assert by_length(order, lengths, chunk=3, tail=1).tolist() == [1, 0, 4, 2, 5, 3, 6]
    assert by_length(order, np.ones(7), chunk=3, tail=1).tolist() == order.tolist()


def test_many_equal_lengths_stay_in_their_order():
    random = np.random.default_rng(0)
    order, lengths = random.permutation(300), random.integers(0, 3, 300)
    by_hand = sorted(order, key=lambda row: lengths[row])
    assert by_length(order, lengths, chunk=300, tail=0).tolist() == by_hand


def test_a_tail_of_all_rows_sorts_nothing():
    assert by_length(np.array([2, 0, 1]), np.array([3, 1, 2]), chunk=2, tail=4).tolist() == [2, 0, 1]


def test_stirred_batches_are_the_same_batches():
    epoch = Epoch.of([[0, 1], [2], [3, 4, 5], [6, 7]])
    stirred = epoch.stirred(1, 0)
    found = [stirred.batch(place).tolist() for place in range(len(stirred))]
    assert sorted(found) == [[0, 1], [2], [3, 4, 5], [6, 7]]
    assert found != [[0, 1], [2], [3, 4, 5], [6, 7]]
    assert stirred.starts[-1] == 8


def test_batches_are_stirred_by_seed_and_epoch():
    epoch = Epoch.of([[row] for row in range(20)])
    each = [epoch.stirred(seed, number).rows.tolist() for seed, number in ((1, 0), (1, 1), (2, 0), (1, 0))]
    assert each[0] == each[3]
    assert each[0] != each[1] != each[2] != each[0]


def test_an_epoch_without_batches_has_none():
    assert len(Epoch.of([]).stirred(0, 0)) == 0


def test_rows_of_like_length_meet():
    def spread(order: Order) -> float:
        assert order.lengths is not None
        longest = order.lengths.max(axis=1)  # (rows,)
        each = [draw.rows for step in range(1, 126) for draw in order.batches(step)]
        return float(np.mean([np.ptp(longest[rows]) for rows in each]))

    one = grouped()
    alike = Order(ROWS, SIZE, 1, 3, lengths=one.lengths)
    assert spread(one) < 0.15 * spread(alike)


def test_it_is_the_longest_text_of_a_row_that_counts():
    lengths = np.array([[1, 30], [16, 16], [1, 31], [17, 17]] * 4)  # (rows, passes); sums would pair 0 and 1
    one = Order(16, 2, 1, 0, batching="length_grouped", grouped_batches=8, lengths=lengths)
    pairs = [sorted((draw.rows % 4).tolist()) for step in range(1, 9) for draw in one.batches(step)]
    assert sorted(pairs) == [[0, 0]] * 2 + [[1, 1]] * 2 + [[2, 2]] * 2 + [[3, 3]] * 2


def test_grouping_leaves_out_the_rows_that_random_batches_leave_out():
    rows = 1003
    lengths = np.arange(rows)[:, None]
    one = Order(rows, SIZE, 1, 3, batching="length_grouped", lengths=lengths)
    other = Order(rows, SIZE, 1, 3)
    for epoch in range(3):
        steps = range(1 + 125 * epoch, 126 + 125 * epoch)
        seen = [{int(row) for step in steps for row in of.batches(step)[0].rows} for of in (one, other)]
        assert seen[0] == seen[1]
        assert len(seen[0]) == 1000


def test_short_and_long_batches_come_in_random_order():
    one = grouped()
    assert one.lengths is not None
    means = [one.lengths[one.batches(step)[0].rows].max(axis=1).mean() for step in range(1, 126)]
    later = np.corrcoef(means[:-1], means[1:])[0, 1]
    assert abs(later) < 0.25  # 0.9 where batches stay in the order of their lengths
    again = [one.lengths[one.batches(step)[0].rows].max(axis=1).mean() for step in range(126, 251)]
    assert means != again


def test_no_length_is_always_left_out_by_a_budget():
    # All rows are one chunk: sorted to its end, the longest would be left out in every epoch.
    lengths = np.arange(1, 65)[:, None]
    one = Order(64, 8, 1, 0, batching="length_grouped", batch_tokens=130, lengths=lengths)
    left = [set(range(64)) - _rows(one, epoch) for epoch in range(12)]
    assert sum(map(len, left)) > 0
    assert not set.intersection(*[rows for rows in left if rows])
    assert set(range(64)) == set.union(*[_rows(one, epoch) for epoch in range(12)])


def _rows(order: Order, epoch: int) -> set[int]:
    first, last = (order.steps(epoch, None) if epoch else 0) + 1, order.steps(epoch + 1, None)
    return {int(row) for step in range(first, last + 1) for row in order.batches(step)[0].rows}
