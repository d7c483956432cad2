"""Batches, tokens, operations and time of a run, before it begins."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from embedrun import estimate
from embedrun.backbone.shape import Shape, size_of
from embedrun.config import AdapterConfig, BackboneConfig, PromptsConfig, TrainingConfig
from embedrun.dataset.toy import Toy
from embedrun.estimate import Batches, RowTokens, batches, row_tokens
from embedrun.experiment.amounts import at_a_time, flops, rows_per_process
from embedrun.experiment.data import Divided
from embedrun.loss.terms import Pass
from embedrun.rows import Rows


def configured(processes: int = 1, **training: Any) -> Any:
    options = TrainingConfig(**{"epochs": 1.0, **training})
    return SimpleNamespace(
        training=options,
        gpu=SimpleNamespace(processes=processes, nodes=1),
        seed=3,
        backbone=BackboneConfig(name="a", max_length=training.pop("longest", None)),
        dataset={},
        prompts=PromptsConfig(),
    )


def pairs(rows: int) -> Rows:
    return Rows("mine", "train", "pair", {"left": ["a"] * rows, "right": ["b"] * rows})


def made(rows: int | None, *lengths: int, **options: Any) -> Batches:
    """The batches of rows of so many tokens, in turn."""
    plan: Any = SimpleNamespace(config=configured(**options), dataset=Toy())
    if rows is None:
        return batches(plan, None, {})
    each = np.resize(lengths or (10,), rows)  # (sample,)
    data = Divided({}, {"": pairs(rows)}, None, "")
    return batches(plan, data, {"": RowTokens(each[None], measured=True)})


def steps(known: Batches, **options: Any) -> int:
    assert known.order is not None
    training = configured(**options).training
    return known.order.steps(training.epochs, training.max_steps)


def test_batches_of_the_configured_size_are_known_and_fewer_rows_make_a_smaller_one():
    known = made(40, batch_size=8)
    assert (known.most, known.usual, known.exact, steps(known)) == (8, 8, True, 5)
    known = made(3, batch_size=8)
    assert (known.most, known.usual, steps(known)) == (3, 3, 1)


def test_a_budget_of_tokens_says_about_how_many_rows_a_batch_has():
    known = made(60, 15, 15, 30, batch_size=8, batch_tokens=65)  # 20 tokens a row
    assert (known.most, known.usual, known.exact, steps(known)) == (8, 3, False, 20)


def test_processes_share_a_batch_and_encode_their_share_in_parts():
    assert rows_per_process(configured(processes=3), 8) == 3
    assert at_a_time(configured(processes=3), 8) == 3
    assert at_a_time(configured(processes=3, micro_batch_size=2), 8) == 2


PAIRS = Rows("mine", "train", "pair", {"left": ["a b", "a b c d"], "right": ["c", "d"]})


def tokens(
    rows: Rows, *passes: Pass, tokenizer: Path | None = None, longest: int | None = None, **prompts: str
) -> RowTokens:
    config = configured()
    config.backbone = BackboneConfig(name="a", max_length=longest)
    config.prompts = PromptsConfig(**prompts)
    losses = SimpleNamespace(passes={one.key: one for one in passes})
    plan: Any = SimpleNamespace(config=config, losses={"": losses}, dataset=Toy())
    plan.dataset.roles = {"left": "query", "right": "document"}
    return row_tokens(plan, {"": rows}, Shape({}, "", None, tokenizer=tokenizer), None)[""]


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """A tokenizer whose tokens are words."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def test_the_tokens_of_all_passes_of_a_row_are_counted_as_they_are_cut(words):
    each = tokens(PAIRS, Pass("left"), Pass("right"), tokenizer=words)
    assert (each.mean, each.measured, each.lengths.shape[1]) == ((3 + 5) / 2, True, 2)
    assert tokens(PAIRS, Pass("left"), Pass("left", draw=1), tokenizer=words).mean == 6
    assert tokens(PAIRS, Pass("left"), tokenizer=words, longest=3).mean == 2.5
    assert tokens(PAIRS, Pass("left", max_length=4), tokenizer=words).mean == 3
    assert tokens(PAIRS, Pass("left"), tokenizer=words, query="one {text} word").mean == 5


def test_without_a_tokenizer_words_are_counted():
    each = tokens(PAIRS, Pass("left"))
    assert (each.mean, each.measured) == ((3 + 2 + 5 + 2) / 2, False)  # 1.3 x 2 and 1.3 x 4, and two ends


LLAMA = {
    "model_type": "llama",
    "vocab_size": 100,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "intermediate_size": 24,
    "num_attention_heads": 2,
    "max_position_embeddings": 20,
}
LINEAR = 2 * (4 * 256 + 3 * 384)  # weights of the linear layers of both layers


def work(adapter: AdapterConfig | None = None, *, processes: int = 1, batch: int = 8, **training) -> float:
    """Operations of a token for each weight."""
    size = size_of(LLAMA)
    assert size is not None
    config = configured(processes, **training)
    return flops(config, size, Shape(LLAMA, "", adapter), 10, batch=batch) / (10 * LINEAR)


@pytest.mark.parametrize(
    ("options", "each"),
    [
        ({}, 6),
        ({"micro_batch_size": 4}, 8),
        ({"micro_batch_size": 8}, 6),  # the whole batch in one part
        ({"micro_batch_size": 4, "processes": 2}, 6),
        ({"micro_batch_size": 4, "batch": 4}, 6),
        ({"gradient_checkpointing": True}, 8),
        ({"optimizer": "sam"}, 12),
        ({"optimizer": "sam", "micro_batch_size": 4}, 16),
        ({"adapter": AdapterConfig()}, 4),  # no gradient at the weights beside it
    ],
)
def test_a_token_costs_six_operations_a_weight_and_more_where_it_is_encoded_again(options, each):
    assert work(**options) == each


def test_the_rate_of_this_machine_is_that_of_products():
    assert 1e8 < estimate.rate("cpu", "fp32") < 1e14
    assert estimate.span(5_160) == "1 h 26 min to 2 h 52 min"
