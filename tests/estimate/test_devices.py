"""Steps on devices that are not here: counted operations, and the time that follows from them by hand."""

import json

import pytest

from embedrun.backbone.shape import CONFIGS, size_of
from embedrun.devices import Operation, counted, seconds

BERT = CONFIGS["google-bert/bert-base-uncased"]


def test_a_step_computes_six_operations_for_each_weight_and_token_and_attention():
    size, texts, length = size_of(BERT), 8, 20
    assert size is not None
    operations = counted(json.dumps(BERT), texts, length, True, False)
    products = 6 * size.matrices * texts * length
    # Scores and their mixing, forward and twice backward: 12 layers, width 768.
    attention = 3 * 2 * 2 * 12 * texts * length**2 * 768
    # The pooler, which training leaves alone, is multiplied with the first token of each text.
    pooler = 2 * 768**2 * texts
    work = sum(one.flops * often for one, often in operations)
    assert work == pytest.approx(products + attention + pooler)
    # Under an adapter no weight has a gradient.
    frozen = sum(one.flops * often for one, often in counted(json.dumps(BERT), texts, length, True, True))
    assert frozen == pytest.approx(products * 4 / 6 + attention + pooler)


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "distilbert", "n_layers": 3, "dim": 16, "n_heads": 2, "hidden_dim": 32},
        {  # with a list of its layers
            "model_type": "qwen3", "num_hidden_layers": 3, "hidden_size": 16, "intermediate_size": 24,
            "head_dim": 8, "num_attention_heads": 2, "num_key_value_heads": 1,
            "layer_types": ["full_attention"] * 3,
        },
    ],
)  # fmt: skip
def test_models_that_count_their_layers_in_other_words_are_counted(config):
    config |= {"vocab_size": 30}
    size, operations = size_of(config), counted(json.dumps(config), 2, 5, True, False)
    assert size is not None
    assert sum(one.flops * often for one, often in operations) >= 6 * size.matrices * 2 * 5


def test_seconds_by_hand():
    # On an H100 10 ms of products, 4 ms of memory, and one kernel that is shorter than any.
    product = Operation(989e12 * 0.60 * 0.010, 1.0)
    moving = Operation(0.0, 3.35e12 * 0.75 * 0.002)
    tiny = Operation(0.0, 1.0)
    least, most = seconds("H100", "bf16", [(product, 1), (moving, 2), (tiny, 1)], trained=0)
    assert least == pytest.approx(0.93 * (0.014 + 2e-6))
    assert most == pytest.approx(least + 4 * 1.22 * 39e-6)
    # AdamW moves 28 bytes a weight; where kernels are many, the processor is what is waited for.
    assert seconds("H100", "bf16", [], trained=10**9)[0] == pytest.approx(28e9 / (3.35e12 * 0.75))
    assert seconds("H100", "bf16", [(tiny, 10_000)], trained=0)[0] == pytest.approx(10_000 * 1.22 * 17e-6)
