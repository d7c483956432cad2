from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from embedrun.config import TrainingConfig
from embedrun.errors import ConfigError
from embedrun.estimate.steps import Batches, RowTokens, at_a_time, batches, own_rows
from embedrun.loss.terms import Pass
from embedrun.rows import Rows


def pairs(left: str, rows: int = 0) -> Rows:
    """Rows whose first texts are these letters, in turn."""
    first = list(left) * max(1, rows // len(left))
    return Rows("mine", "train", "pair", {"left": first, "right": [f"{i}" for i in range(len(first))]})


def configured(processes: int = 1, **training: Any) -> Any:
    options = TrainingConfig(**{"epochs": 1.0, **training})
    return SimpleNamespace(training=options, gpu=SimpleNamespace(processes=processes, nodes=1), seed=3)


def found(
    rows: Rows | None, *lengths: int, measured: bool = True, looked_at: int | None = None, **options: Any
) -> Batches:
    """The batches of rows of so many tokens, in turn."""
    passes = {"left": Pass("left"), "right": Pass("right")}
    plan: Any = SimpleNamespace(config=configured(**options), losses=SimpleNamespace(passes=passes))
    if rows is None:
        return batches(plan, None, None)
    each = np.resize(lengths or (10,), looked_at or len(rows))  # (sample,)
    return batches(plan, rows, RowTokens(each, measured))


def steps(given: Batches, **training: Any) -> tuple[int, bool]:
    assert given.known is not None
    return given.known.steps(TrainingConfig(**{"epochs": 1.0, **training}))


def test_batches_of_the_configured_size_are_known():
    given = found(pairs("abcde", 40), batch_size=8)
    assert (given.most, given.usual, given.even) == (8, 8, True)
    assert steps(given, batch_size=8) == (5, True)


def test_fewer_rows_make_a_smaller_batch():
    given = found(pairs("abc"), batch_size=8)
    assert (given.most, given.usual) == (3, 3)
    assert steps(given, batch_size=8) == (1, True)


def test_without_the_data_a_batch_is_as_configured():
    assert found(None, batch_size=8) == Batches(8, 8, True)
    assert found(None, batch_size=8, batch_tokens=100) == Batches(8, 8, False)


def test_batches_without_equal_texts_are_made_and_counted():
    options: dict[str, Any] = {"batch_size": 2, "distinct_texts": True}
    given = found(pairs("aaab"), **options)
    assert steps(given, **options) == (
        1,
        True,
    )  # one of the three `a` meets `b`; two batches without the option
    grouped = found(pairs("aaab"), batching="length_grouped", **options)
    assert steps(grouped, **options) == (1, False)


def test_texts_that_fill_no_batch_are_refused_as_training_refuses_them():
    with pytest.raises(ConfigError, match=r"training\.distinct_texts: no batch of 2 .* 'a' alone is in 3"):
        found(pairs("aaa"), batch_size=2, distinct_texts=True)


def test_a_budget_of_tokens_says_about_how_many_rows_a_batch_has():
    options: dict[str, Any] = {"batch_size": 8, "batch_tokens": 65}
    given = found(pairs("abcdef", 60), 15, 15, 30, **options)  # 20 a row
    assert (given.most, given.usual, given.even) == (8, 3, False)
    assert steps(given, **options) == (20, False)


def test_steps_that_end_a_run_before_any_budget_can_are_exact():
    options: dict[str, Any] = {"batch_size": 8, "batch_tokens": 65}
    given = found(pairs("abcdef", 60), 15, 15, 30, **options)
    assert steps(given, max_steps=7, **options) == (7, True)  # 60 rows are seven batches of eight at least
    assert steps(given, max_steps=8, **options) == (8, False)
    assert steps(given, max_steps=7, distinct_texts=True, **options) == (7, False)


def test_rows_that_are_too_long_for_the_budget_are_refused_where_a_tokenizer_has_counted():
    options: dict[str, Any] = {"batch_size": 8, "batch_tokens": 45}
    rows = pairs("abcdef")
    with pytest.raises(
        ConfigError, match=r"training\.batch_tokens: .* longest 2 of 6 .* 50 tokens .* 45; raise"
    ):
        found(rows, 10, 20, 30, 10, 10, 10, **options)
    given = found(rows, 10, 20, 30, 10, 10, 10, measured=False, **options)
    assert given.known is not None
    assert not given.known.whole
    with pytest.raises(ConfigError, match=r"longest 3 .* 60 tokens"):
        found(rows, 10, 20, 30, 10, 10, 10, batch_size=8, batch_tokens=50, processes=3)


@pytest.mark.parametrize(("looked_at", "whole"), [(6, True), (5, False)])
def test_rows_that_nobody_looked_at_may_be_too_long(looked_at, whole):
    given = found(pairs("abcdef"), looked_at=looked_at, batch_size=8, batch_tokens=45)
    assert given.known is not None
    assert given.known.whole is whole


def test_processes_share_a_batch_and_encode_their_share_in_parts():
    assert own_rows(configured(processes=3), 8) == 3
    assert at_a_time(configured(processes=3), 8) == 3
    assert at_a_time(configured(processes=3, micro_batch_size=2), 8) == 2
    assert at_a_time(configured(processes=3, micro_batch_size=4), 8) == 3
