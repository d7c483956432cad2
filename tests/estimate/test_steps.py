"""Batches, tokens, operations and time of a run, before it begins."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from embedrun.backbone.shape import Shape, measured_size
from embedrun.config import AdapterConfig, TrainingConfig
from embedrun.errors import ConfigError, DataError
from embedrun.estimate import steps
from embedrun.estimate.memory import at_a_time, own_rows
from embedrun.estimate.steps import Batches, RowTokens, batches, row_tokens
from embedrun.loss.terms import Pass
from embedrun.prompt import Prompt
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
    return batches(plan, rows, RowTokens(each[None], measured))


def steps_of(given: Batches, **training: Any) -> tuple[int, bool]:
    assert given.known is not None
    return given.known.steps(TrainingConfig(**{"epochs": 1.0, **training}))


def test_batches_of_the_configured_size_are_known():
    given = found(pairs("abcde", 40), batch_size=8)
    assert (given.most, given.usual, given.even) == (8, 8, True)
    assert steps_of(given, batch_size=8) == (5, True)


def test_fewer_rows_make_a_smaller_batch():
    given = found(pairs("abc"), batch_size=8)
    assert (given.most, given.usual) == (3, 3)
    assert steps_of(given, batch_size=8) == (1, True)


def test_without_the_data_a_batch_is_as_configured():
    assert found(None, batch_size=8) == Batches(8, 8, True)
    assert found(None, batch_size=8, batch_tokens=100) == Batches(8, 8, False)


def test_rows_that_are_still_to_be_made_are_counted_where_no_text_has_to_be_seen():
    plan: Any = SimpleNamespace(config=configured(batch_size=8))
    given = batches(plan, None, None, made=40)
    assert (given.most, given.usual, given.even) == (8, 8, True)
    assert steps_of(given, batch_size=8) == (5, True)
    for option in ({"batch_tokens": 100}, {"distinct_texts": True}):
        unseen: Any = SimpleNamespace(config=configured(batch_size=8, **option))
        assert batches(unseen, None, None, made=40).known is None


def test_batches_without_equal_texts_are_made_and_counted():
    options: dict[str, Any] = {"batch_size": 2, "distinct_texts": True}
    given = found(pairs("aaab"), **options)
    assert steps_of(given, **options) == (
        1,
        True,
    )  # one of the three `a` meets `b`; two batches without the option
    grouped = found(pairs("aaab"), batching="length_grouped", **options)
    assert steps_of(grouped, **options) == (1, False)


def test_texts_that_fill_no_batch_are_refused_as_training_refuses_them():
    with pytest.raises(ConfigError, match=r"training\.distinct_texts: no batch of 2 .* 'a' alone is in 3"):
        found(pairs("aaa"), batch_size=2, distinct_texts=True)


def test_a_budget_of_tokens_says_about_how_many_rows_a_batch_has():
    options: dict[str, Any] = {"batch_size": 8, "batch_tokens": 65}
    given = found(pairs("abcdef", 60), 15, 15, 30, **options)  # 20 a row
    assert (given.most, given.usual, given.even) == (8, 3, False)
    assert steps_of(given, **options) == (20, False)


def test_steps_that_end_a_run_before_any_budget_can_are_exact():
    options: dict[str, Any] = {"batch_size": 8, "batch_tokens": 65}
    given = found(pairs("abcdef", 60), 15, 15, 30, **options)
    assert steps_of(given, max_steps=7, **options) == (7, True)  # 60 rows are seven batches of eight at least
    assert steps_of(given, max_steps=8, **options) == (8, False)
    assert steps_of(given, max_steps=7, distinct_texts=True, **options) == (7, False)


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


PAIRS = Rows("mine", "train", "pair", {"left": ["a b", "a b c d"], "right": ["c", "d"]})


def tokens(rows: Rows, *passes: Pass, **more):
    options = {"tokenizer": None, "longest": 100, "prompts": {}, "seed": 1, **more}
    return row_tokens(rows, {one.key: one for one in passes}, **options)


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """A tokenizer whose tokens are words."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def test_the_tokens_of_all_passes_of_a_row_are_counted(words):
    found = tokens(PAIRS, Pass("left"), Pass("right"), tokenizer=words)
    assert (found.mean, found.measured, found.sample) == ((3 + 5) / 2, True, 2)
    assert found.each.tolist() == [3, 5]


def test_two_passes_of_one_text_count_twice(words):
    assert tokens(PAIRS, Pass("left"), Pass("left", draw=1), tokenizer=words).mean == 6


def test_a_text_is_cut_and_has_its_prompt(words):
    assert tokens(PAIRS, Pass("left"), tokenizer=words, longest=3).mean == 2.5
    assert tokens(PAIRS, Pass("left", max_length=4), tokenizer=words, longest=100).mean == 3
    prompt = {"left": Prompt("one {text} word")}
    assert tokens(PAIRS, Pass("left"), tokenizer=words, prompts=prompt).mean == 5


def test_without_a_tokenizer_words_are_counted():
    found = tokens(PAIRS, Pass("left"))
    assert (found.mean, found.measured) == (
        (3 + 2 + 5 + 2) / 2,
        False,
    )  # 1.3 x 2 and 1.3 x 4, and the two ends


def test_masked_copies_are_of_the_sentences_that_can_be_masked(words):
    class Doubled:
        needs_token = True

        def usable(self, text: str) -> bool:
            return len(text.split()) > 1

        def copies(self, text: str, mask: str, random: np.random.Generator) -> tuple[str, str]:
            return f"{mask} {text}", text

    rows = Rows("mine", "train", "text", {"text": ["a b c", "d"]}, masked=Doubled())
    assert tokens(rows, Pass("masked_once", dropout=False), tokenizer=words).mean == 2


def test_many_rows_are_sampled():
    rows = Rows("mine", "train", "text", {"text": ["a"] * 5000})
    assert tokens(rows, Pass("text")).sample == 512


def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path):
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(DataError, match=r"backbone\.name: .*tokenizer\.json cannot be read"):
        tokens(PAIRS, Pass("left"), tokenizer=tmp_path / "tokenizer.json")


LLAMA = {
    "model_type": "llama",
    "vocab_size": 100,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "intermediate_size": 24,
    "num_attention_heads": 2,
    "max_position_embeddings": 20,
}
OUTSIDE = 2 * (4 * 256 + 3 * 384 + 2 * 16)  # weights of its layers


def work(
    adapter: AdapterConfig | None = None, *, processes: int = 1, batch: int | None = None, **training
) -> float:
    """Operations of a token for each weight."""
    usual = {"micro_batch_size": None, "batch_size": 8, "gradient_checkpointing": False, "optimizer": "adamw"}
    config = SimpleNamespace(
        training=SimpleNamespace(**{**usual, **training}), gpu=SimpleNamespace(processes=processes, nodes=1)
    )
    size = measured_size(LLAMA)
    assert size is not None
    done = steps.flops(config, size, Shape(LLAMA, "", adapter), 10, batch=batch)  # type: ignore[arg-type]
    return done / (10 * OUTSIDE)


@pytest.mark.parametrize(
    ("training", "each"),
    [
        ({}, 6),
        ({"micro_batch_size": 4}, 8),
        ({"micro_batch_size": 8}, 6),  # the whole batch in one part
        ({"gradient_checkpointing": True}, 8),
        ({"optimizer": "sam"}, 12),
        ({"optimizer": "sam", "micro_batch_size": 4}, 16),
    ],
)
def test_a_token_costs_six_operations_a_weight_and_more_where_it_is_encoded_again(training, each):
    assert work(**training) == each


def test_a_batch_is_in_parts_only_where_the_rows_of_a_process_are_more_than_one():
    assert work(micro_batch_size=4, processes=2) == 6
    assert work(micro_batch_size=3, processes=2) == 8
    assert work(micro_batch_size=4, batch=4) == 6  # of a batch of 8, no more rows are there


def test_an_adapter_needs_no_gradient_at_the_weights_beside_it():
    assert work(AdapterConfig()) == 4


@pytest.mark.parametrize(
    ("number", "text"), [(12, "12"), (12_345, "12,300"), (4.567e6, "4.57 million"), (3e9, "3 billion")]
)
def test_a_large_number_has_three_digits(number, text):
    assert steps.rounded(number) == text


def test_the_rate_of_this_machine_is_that_of_products(monkeypatch):
    monkeypatch.setattr(steps, "_SECONDS", 0.01)
    assert 1e8 < steps.rate.__wrapped__("cpu", "fp32") < 1e14


def test_a_rate_is_the_median_of_five_timings_of_which_a_busy_machine_may_spoil_two(monkeypatch):
    spoilt, now = [4, 1, 9, 1, 1], [0.0]
    # A timing begins, finds that no product is done, and ends after the first.
    passing = iter([second for product in spoilt for second in (0, 0, product)])
    monkeypatch.setattr(steps, "_now", lambda device: now.__setitem__(0, now[0] + next(passing)) or now[0])
    assert steps.rate.__wrapped__("cpu", "fp32") == 2 * 1024**3  # one product a second


def test_a_price_is_a_range_from_the_rate_of_a_product_to_half_of_it():
    assert steps.span(5_160) == "1 h 26 min to 2 h 52 min"
