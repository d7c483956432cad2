import numpy as np
import pytest

from embedrun.batch import TokenTable
from embedrun.config import TrainingConfig
from embedrun.errors import ConfigError
from embedrun.loss.terms import Pass
from embedrun.prompt import Prompt
from embedrun.rows import Rows
from embedrun.training.feed import Feed, order_of
from embedrun.training.order import Order


def letters(texts: list[str], max_length: int | None, prompt: Prompt | None = None) -> TokenTable:
    """One token a letter."""
    ids = np.array([ord(letter) for text in texts for letter in text], dtype=np.int32)
    return TokenTable(ids, np.cumsum([0, *map(len, texts)]))


def made(left: list[str], right: list[str], *, processes: int = 1, **options) -> Order:
    rows = Rows("toy", "train", "pair", {"left": left, "right": right})
    feed = Feed(rows, letters, {"left": Pass("left"), "right": Pass("right")}, [])
    return order_of(feed, rows, TrainingConfig(**options), 3, processes=processes)


def numbered(rows: int) -> list[str]:
    return [f"{row:03d}" for row in range(rows)]


def drawn(order: Order, steps: int) -> list[list[int]]:
    return [draw.rows.tolist() for step in range(1, steps + 1) for draw in order.batches(step)]


def test_the_default_is_random_batches():
    one = made(numbered(20), ["x"] * 20, batch_size=4, accumulate=2)
    assert drawn(one, 6) == drawn(Order(20, 4, 2, 3), 6)


def test_the_default_counts_no_tokens():
    rows = Rows("toy", "train", "text", {"text": numbered(4)})
    order = order_of(None, rows, TrainingConfig(batch_size=2), 3)  # type: ignore[arg-type]
    assert (order.lengths, order.texts) == (None, None)


def test_length_grouped_sorts_by_the_longest_text():
    left = ["a" * (1 + row % 16) for row in range(128)]
    one = made(left, ["b"] * 128, batch_size=8, batching="length_grouped", grouped_batches=16)
    assert [len({row % 16 for row in rows}) for rows in drawn(one, 16)] == [1] * 16
    assert one.grouped_batches == 16


def test_batch_tokens_counts_all_views():
    one = made(numbered(20), ["12"] * 20, batch_size=9, batch_tokens=15)
    assert [len(rows) for rows in drawn(one, 6)] == [3] * 6


def test_distinct_texts_looks_at_all_views():
    # Rows 2i and 2i + 1 share a text, in one view or across them.
    left = [f"{row // 2}" if row % 4 < 3 else f"r{row}" for row in range(40)]
    right = [f"r{row}" if row % 4 < 3 else f"{row // 2}" for row in range(40)]
    for rows in drawn(made(left, right, batch_size=8, distinct_texts=True), 12):
        assert len({row // 2 for row in rows}) == 8


def test_all_options_go_together():
    left = ["a" * (1 + row % 16) + str(row // 2) for row in range(128)]
    one = made(
        left, numbered(128), batch_size=8, batching="length_grouped", batch_tokens=120, distinct_texts=True
    )
    for rows in drawn(one, 12):
        assert len({left[row] for row in rows}) == len(rows)
        assert sum(len(left[row]) + 3 for row in rows) <= 120


def test_a_row_above_the_budget_is_named():
    left = ["a" * 9, "b" * 70, "c"]
    with pytest.raises(ConfigError) as caught:
        made(left, ["x"] * 3, batch_size=2, batch_tokens=70)
    (problem,) = caught.value.problems
    assert problem == (
        f"training.batch_tokens: training row 1, counted from 0, '{'b' * 60}...', has 71 tokens over all "
        "views, more than the 70 of a batch; raise training.batch_tokens to 81 or more, or lower "
        "backbone.max_length"
    )
    assert made(left, ["x"] * 3, batch_size=2, batch_tokens=81).steps(1, None) == 1


def test_a_budget_in_which_two_rows_may_have_no_room_is_refused():
    with pytest.raises(ConfigError) as caught:
        made(["aaaaa", "bbbb", "c"], ["x"] * 3, batch_size=8, batch_tokens=10)
    assert "2 rows or more, and the longest 2 (first training row 0" in str(caught.value)
    assert "have 11 tokens over all views, more than 10; raise training.batch_tokens to 11" in str(
        caught.value
    )
    assert made(["aaaaa", "bbbb", "c"], ["x"] * 3, batch_size=1, batch_tokens=6).steps(1, None) == 3


def test_each_process_must_have_room_for_a_row():
    options = {"batch_size": 8, "batch_tokens": 16}
    with pytest.raises(ConfigError, match="a batch has 5 rows or more"):
        made(numbered(9), ["x"] * 9, processes=5, **options)
    assert made(numbered(9), ["x"] * 9, processes=4, **options).steps(1, None) == 2


def test_too_many_rows_with_one_text_are_refused():
    with pytest.raises(ConfigError) as caught:
        made(["same"] * 9 + ["other"], ["same"] * 2 + numbered(8), batch_size=4, distinct_texts=True)
    (problem,) = caught.value.problems
    assert problem == (
        "training.distinct_texts: no batch of 4 of the 10 rows can be filled without equal texts; 'same' "
        "alone is in 9 of them. Lower training.batch_size, or leave training.distinct_texts=false"
    )


def test_two_rows_of_one_text_are_no_batch():
    with pytest.raises(ConfigError, match="no batch of 2 of the 2 rows"):
        made(["same"] * 2, ["a", "b"], batch_size=32, distinct_texts=True)


def test_the_one_batch_of_few_rows_has_one_for_each_process():
    # Beside one row of "same" there is no other with it, so that a batch may have two rows.
    left, right = ["same"] * 4 + ["b"], [*"pqrs", "t"]
    options = {"batch_size": 32, "distinct_texts": True}
    with pytest.raises(ConfigError) as caught:
        made(left, right, processes=3, **options)
    assert caught.value.problems == [
        "training.batch_size: more than the rows there are, and with training.distinct_texts their one batch "
        "may leave a process without any; lower it, or train in one process"
    ]
    assert made(left, right, processes=1, **options).steps(1, None) == 1
    assert made(left, right, processes=3, **{**options, "distinct_texts": False}).steps(1, None) == 1
    assert len(drawn(made(numbered(5), [*"pqrst"], processes=5, **options), 1)[0]) == 5
    assert made(numbered(9), ["same"] * 2 + numbered(7), processes=2, **options).steps(1, None) == 1


def test_few_rows_are_one_batch_of_those_that_are_distinct():
    one = made(["same", "same", "c"], ["a", "b", "d"], batch_size=32, distinct_texts=True)
    (rows,) = drawn(one, 1)
    assert len(rows) == 2
    assert 2 in rows
    assert one.left_out(0) == 1
    assert drawn(made(["a"], ["b"], batch_size=32, distinct_texts=True), 1) == [[0]]
