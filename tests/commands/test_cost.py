from types import SimpleNamespace

import pytest

from embedrun.backbone.shape import Shape, measured_size
from embedrun.config import AdapterConfig
from embedrun.estimate import steps

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
    ("seconds", "text"),
    [
        (0.2, "1 s"),
        (100, "100 s"),
        (150, "2.5 min"),
        (7000, "117 min"),
        (82_000, "22.8 h"),
        (864_000, "10 days"),
    ],
)
def test_a_duration_has_the_unit_that_suits_it(seconds, text):
    assert steps.duration(seconds) == text


@pytest.mark.parametrize(
    ("number", "text"), [(12, "12"), (12_345, "12,300"), (4.567e6, "4.57 million"), (3e9, "3 billion")]
)
def test_a_large_number_has_three_digits(number, text):
    assert steps.rounded(number) == text


def test_the_rate_of_this_machine_is_that_of_products(monkeypatch):
    monkeypatch.setattr(steps, "_SECONDS", 0.01)
    assert 1e8 < steps.rate.__wrapped__("cpu", "fp32") < 1e14
