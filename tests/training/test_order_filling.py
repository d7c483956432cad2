import time

import numpy as np

from embedrun.training.order import Filled, fill


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


def test_a_batch_has_no_more_rows_than_it_may():
    assert filled(2, order=[3, 2, 1, 0], lengths=[1, 1, 1, 1], budget=99) == Filled([[3, 2], [1, 0]], [])


def test_a_row_with_a_text_of_the_batch_waits_for_the_next():
    # 1 shares b with 0; of the next batch it is the first.
    assert filled(2, order=[0, 1, 2, 3], texts=["ab", "bc", "de", "fg"]) == Filled([[0, 2], [1, 3]], [])


def test_a_text_is_one_text_in_whatever_view():
    assert filled(2, order=[0, 1, 2], texts=["ab", "ca", "de"]) == Filled([[0, 2]], [1])


def test_a_row_may_have_one_text_twice():
    assert filled(2, order=[0, 1, 2], texts=["aa", "ab", "cc"]) == Filled([[0, 2]], [1])


def test_rows_that_never_fit_are_left():
    # One row with an x a batch: 0 and 4, 1 and 5; then nothing is left beside x.
    texts = ["ax", "bx", "cx", "dx", "ef", "gh"]
    assert filled(2, order=[0, 1, 2, 3, 4, 5], texts=texts) == Filled([[0, 4], [1, 5]], [2])


def test_a_waiting_row_that_has_another_text_of_the_batch_lets_those_behind_it_pass():
    # 1 and 2 wait for a, 3 for A. The second batch begins with 3, so 1 cannot be in it, but 2 can.
    texts = ["aA", "ab", "ac", "bA", "de", "fg", "hi"]
    found = filled(3, order=[0, 1, 2, 3, 4, 5, 6], texts=texts)
    assert found == Filled([[0, 4, 5], [3, 2, 6]], [1])


def test_a_row_that_is_too_long_closes_the_batch_and_one_with_its_text_does_not():
    # 1 shares a with 0 and would be too long; it waits. 2 is too long and opens the next batch.
    found = filled(9, order=[0, 1, 2, 3], lengths=[6, 9, 8, 1], budget=10, texts=["ab", "ac", "de", "fg"])
    assert found.batches == [[0], [2]]
    assert found.begun == [1, 3]


def test_time_does_not_grow_with_the_rows_that_wait():
    rows = 30_000
    texts = np.arange(2 * rows).reshape(rows, 2)  # (rows, 2)
    texts[: 2 * rows // 3, 0] = -1  # two of three rows share a text, so 16,000 of them wait in the end
    order = np.random.default_rng(0).permutation(rows)
    started = time.process_time()
    found = fill(order, 4, texts=texts)
    assert len(found.batches) in range(3300, 3400)  # one row with it and three without
    assert time.process_time() - started < 3  # 0.05 s on an idle core; to look at each in turn takes a minute
