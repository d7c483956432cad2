"""The rows of every step: a pure function of seed, epoch and step.

What holds for the batches of any data set, with any of the options.
"""

import itertools

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from embedrun.training.order import Filled, Order, by_text, fill


def order(rows: int = 10, batch_size: int = 3, accumulate: int = 1, seed: int = 7) -> Order:
    return Order(rows=rows, batch_size=batch_size, accumulate=accumulate, seed=seed)


def batches(of: Order, steps: range) -> list[list[int]]:
    return [draw.rows.tolist() for step in steps for draw in of.batches(step)]


def test_each_row_comes_once_an_epoch_and_the_rest_is_left_out():
    epoch = batches(order(rows=10, batch_size=3), range(1, 4))  # 3 batches of 3; 1 row left out
    seen = [row for rows in epoch for row in rows]
    assert [len(rows) for rows in epoch] == [3, 3, 3]
    assert len(set(seen)) == 9
    assert set(seen) < set(range(10))
    assert order(rows=10, batch_size=3).left_out(0) == 1


def test_the_number_of_steps_by_hand():
    assert order(rows=100, batch_size=10).steps(1, None) == 10
    assert order(rows=109, batch_size=10).steps(2.5, None) == 25
    assert order(rows=100, batch_size=10, accumulate=4).steps(2, None) == 5
    assert order(rows=100, batch_size=10).steps(0.01, None) == 1  # never none
    assert order(rows=100, batch_size=10).steps(3, 7) == 7
    assert order(rows=100, batch_size=10).steps(1, 7000) == 10


def test_the_order_of_one_seed_stays_what_it_is():
    # A run can be repeated only while this does not change.
    expected = np.random.default_rng(np.random.SeedSequence([7, 0])).permutation(10)[:3].tolist()
    assert order().batches(1)[0].rows.tolist() == expected


def test_marks_by_hand():
    ten = order(rows=100, batch_size=10)  # 10 batches an epoch
    assert ten.marks(20, 1) == {10, 20}
    assert ten.marks(25, 2) == {5, 10, 15, 20, 25}
    assert ten.marks(10, 3) == {4, 7, 10}  # after 3 1/3, 6 2/3 and 10 batches
    assert ten.marks(5, 3) == {4}
    assert ten.marks(2, 100) == {1, 2}  # no more than one a step
    four = order(rows=100, batch_size=10, accumulate=4)
    assert four.marks(5, 1) == {3, 5}  # batches 10 and 20 are in steps 3 and 5


ROWS, SIZE = 1000, 8


def grouped(**other) -> Order:
    lengths = np.random.default_rng(5).integers(5, 60, (ROWS, 2))  # (rows, passes)
    return Order(ROWS, SIZE, 1, 3, batching="length_grouped", grouped_batches=25, lengths=lengths, **other)


def test_rows_of_one_text_are_neighbours_where_its_first_row_was():
    order = np.array([4, 1, 0, 3, 2, 5])
    texts = np.array([7, 8, 7, 9, 8, 7])  # of rows 0 to 5; first rows 0, 1 and 3, at places 2, 1 and 3
    assert by_text(order, texts).tolist() == [4, 1, 0, 2, 5, 3]
    assert by_text(order, np.arange(6)).tolist() == order.tolist()


def test_rows_of_like_length_meet():
    def spread(order: Order) -> float:
        assert order.lengths is not None
        longest = order.lengths.max(axis=1)  # (rows,)
        each = [draw.rows for step in range(1, 126) for draw in order.batches(step)]
        return float(np.mean([np.ptp(longest[rows]) for rows in each]))

    one = grouped()
    alike = Order(ROWS, SIZE, 1, 3, lengths=one.lengths)
    assert spread(one) < 0.15 * spread(alike)


def filled(
    batch_size: int,
    *,
    order: list[int],
    lengths: list[int] | None = None,
    budget: int | None = None,
    texts: list[str] | None = None,
) -> Filled:
    """Texts of a row as letters."""
    return fill(
        np.array(order),
        batch_size,
        lengths=None if lengths is None else np.array(lengths),
        budget=budget,
        texts=None if texts is None else np.array([[ord(letter) for letter in row] for row in texts]),
    )


def test_a_batch_is_closed_by_the_row_that_would_be_too_much():
    # 5 + 4 is 9, another 2 would be 11; 2 + 8 is 10, just right; 1 + 9 too.
    found = filled(9, order=[0, 1, 2, 3, 4, 5, 6], lengths=[5, 4, 2, 8, 1, 9, 3], budget=10)
    assert found == Filled([[0, 1], [2, 3], [4, 5]], [6])


def test_a_row_with_a_text_of_the_batch_waits_for_the_next():
    # 1 shares b with 0; of the next batch it is the first.
    assert filled(2, order=[0, 1, 2, 3], texts=["ab", "bc", "de", "fg"]) == Filled([[0, 2], [1, 3]], [])


def test_a_row_that_is_too_long_closes_the_batch_and_one_with_its_text_does_not():
    # 1 shares a with 0 and would be too long; it waits. 2 is too long and opens the next batch.
    found = filled(9, order=[0, 1, 2, 3], lengths=[6, 9, 8, 1], budget=10, texts=["ab", "ac", "de", "fg"])
    assert found.batches == [[0], [2]]
    assert found.begun == [1, 3]


EPOCHS = 3


@st.composite
def orders(draw, seed: int | None = None, least: int = 1) -> Order:
    rows = draw(st.integers(least, 60))
    size = draw(st.integers(1, 12))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    lengths = random.integers(1, 30, (rows, 2))  # (rows, passes)
    texts = random.integers(0, draw(st.integers(1, 120)), (rows, 2))  # (rows, views)
    together = int(np.sort(lengths.sum(axis=1))[-min(2, size) :].sum())
    return Order(
        rows,
        size,
        draw(st.integers(1, 3)),
        draw(st.integers(0, 9)) if seed is None else seed,
        batching=draw(st.sampled_from(["random", "length_grouped"])),
        grouped_batches=draw(st.integers(2, 5)),
        batch_tokens=draw(st.none() | st.integers(together, 4 * together)),
        distinct=draw(st.booleans()),
        lengths=lengths,
        texts=texts,
    )


def usable(order: Order) -> bool:
    return order.left_out(0) < order.rows


def draws(order: Order, first: int = 1) -> list[tuple[int, int, list[int]]]:
    steps = range(first, order.steps(EPOCHS, None) + 1)
    return [
        (number, epoch, rows.tolist()) for step in steps for number, epoch, rows, _ in order.batches(step)
    ]


@given(orders())
@settings(max_examples=150, deadline=None)
def test_each_batch_keeps_the_rules(order: Order):
    assume(usable(order))
    assert order.lengths is not None
    assert order.texts is not None
    for _, _, rows in draws(order):
        assert len(rows) <= order.batch_size
        assert len(rows) >= min(2, order.rows, order.batch_size)
        if order.batch_tokens is not None:
            assert order.lengths[rows].sum() <= order.batch_tokens
        else:
            assert len(rows) == order.batch_size or order.rows < order.batch_size
        if order.distinct:
            each = [set(texts) for texts in order.texts[rows].tolist()]
            assert all(one.isdisjoint(other) for one, other in itertools.combinations(each, 2))


@given(orders())
@settings(max_examples=100, deadline=None)
def test_no_row_comes_twice_in_an_epoch_and_those_left_out_are_counted(order: Order):
    assume(usable(order))
    by_epoch = itertools.groupby(draws(order), key=lambda draw: draw[1])
    for epoch, found in by_epoch:
        seen = [row for _, _, rows in found for row in rows]
        assert len(seen) == len(set(seen))
        assert set(seen) <= set(range(order.rows))
        if epoch < EPOCHS - 1:  # the last may end amid a step
            assert len(seen) == order.rows - order.left_out(epoch)
