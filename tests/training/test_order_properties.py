"""What holds for the batches of any data set, with any of the options."""

import itertools

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from embedrun.training.order import Order, fill

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


def copy(order: Order) -> Order:
    """The same order, of which nothing was asked yet."""
    names = ("batching", "grouped_batches", "batch_tokens", "distinct", "lengths", "texts")
    options = {name: getattr(order, name) for name in names}
    return Order(order.rows, order.batch_size, order.accumulate, order.seed, **options)


def usable(order: Order) -> bool:
    return order.left_out(0) < order.rows


def draws(order: Order, first: int = 1) -> list[tuple[int, int, list[int]]]:
    steps = range(first, order.steps(EPOCHS, None) + 1)
    return [(number, epoch, rows.tolist()) for step in steps for number, epoch, rows in order.batches(step)]


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


@given(orders(), st.booleans())
@settings(max_examples=100, deadline=None)
def test_no_row_that_is_left_could_be_in_the_batch_that_was_not_filled(order: Order, limited: bool):
    assert order.lengths is not None
    assert order.texts is not None
    tokens = order.lengths.sum(axis=1)  # (rows,)
    budget = 3 * int(tokens.max()) if limited else None
    rows = np.arange(order.rows)
    found = fill(rows, order.batch_size, lengths=tokens, budget=budget, texts=order.texts)
    kept = [row for batch in (*found.batches, found.begun) for row in batch]
    assert len(set(kept)) == len(kept)
    assert len(found.begun) < order.batch_size
    taken = set(order.texts[found.begun].ravel().tolist())
    assert all(not taken.isdisjoint(order.texts[row].tolist()) for row in set(rows.tolist()) - set(kept))


@given(orders(), st.integers(1, 40))
@settings(max_examples=100, deadline=None)
def test_to_begin_at_any_step_gives_the_rest_of_the_whole(order: Order, first: int):
    assume(usable(order))
    whole = draws(order)
    begun = draws(copy(order), first)
    assert begun == whole[(first - 1) * order.accumulate :]
    assert [number for number, _, _ in whole] == list(range(len(whole)))


@given(orders(), st.lists(st.integers(1, 30), max_size=5))
@settings(max_examples=100, deadline=None)
def test_what_was_asked_before_changes_nothing(order: Order, asked: list[int]):
    assume(usable(order))
    whole, other = draws(order), copy(order)
    for step in asked:
        other.batches(step)
        other.epoch(step)
        other.marks(step, 2)
    assert draws(other) == whole
    assert other.steps(2.5, None) == order.steps(2.5, None)


@given(orders())
@settings(max_examples=100, deadline=None)
def test_epochs_and_marks_follow_the_draws(order: Order):
    assume(usable(order))
    steps = order.steps(EPOCHS, None)
    epochs = [order.epoch(step) for step in range(steps + 1)]
    assert epochs[0] == 0
    assert all(one < other for one, other in itertools.pairwise(epochs))
    numbers = [number for number, _, _ in draws(order)]
    of = [epoch for _, epoch, _ in draws(order)]
    last = [number for number, epoch, later in zip(numbers, of, of[1:], strict=False) if epoch != later]
    ends = {number // order.accumulate + 1 for number in last}
    assert ends <= order.marks(steps, 1) <= ends | {steps}
    assert order.marks(steps, 1) <= order.marks(steps, 3)


@given(orders(seed=1, least=20), st.sampled_from(["seed", "epoch"]))
@settings(max_examples=60, deadline=None)
def test_another_seed_or_epoch_has_another_order(order: Order, what: str):
    assume(order.left_out(0) <= order.rows // 2)
    first = [rows for _, epoch, rows in draws(order) if epoch == 0]
    if what == "epoch":
        other = [rows for _, epoch, rows in draws(order) if epoch == 1]
    else:
        object.__setattr__(again := copy(order), "seed", 2)
        other = [rows for _, epoch, rows in draws(again) if epoch == 0]
    assert first != other
