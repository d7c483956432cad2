import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModel

from embedrun.backbone import adapter
from embedrun.backbone.shape import CONFIGS, Linear, Shape, size_of
from embedrun.config import AdapterConfig, BackboneConfig, GpuConfig, PoolingConfig, TrainingConfig
from embedrun.estimate import RowTokens, adapter_weights, estimate, price
from embedrun.files import Plain
from embedrun.loss.terms import Pass

SMALL = {"vocab_size": 50, "hidden_size": 64, "num_hidden_layers": 4, "max_position_embeddings": 40}
BERT = {
    "model_type": "bert",
    **SMALL,
    "num_attention_heads": 2,
    "intermediate_size": 256,
    "attention_probs_dropout_prob": 0.0,  # with it a CPU has no attention that keeps no scores
}
LLAMA = {"model_type": "llama", **SMALL, "num_attention_heads": 4, "intermediate_size": 172}
QWEN = {
    "model_type": "qwen2",
    **SMALL,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 340,
}
MODERN = {
    "model_type": "modernbert",
    **SMALL,
    "num_attention_heads": 2,
    "intermediate_size": 96,
    **{f"{name}_token_id": 1 for name in ("pad", "bos", "eos", "cls", "sep")},
}


STEP = {"texts": 8, "length": 32}


def kept(config, options=None) -> int:
    """Bytes that the backward pass of a real model keeps, but for its weights."""
    model = AutoModel.from_config(AutoConfig.for_model(**config), attn_implementation="sdpa").train()
    model.config.use_cache = False
    if options is not None:
        adapter.add(model, options)
    weights = {weight.data_ptr() for weight in model.parameters()}
    found: dict[int, int] = {}
    alive = []  # or one address would be taken twice

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            found[storage.data_ptr()] = storage.nbytes()
            alive.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = model(input_ids=torch.randint(2, 50, (8, 32))).last_hidden_state
    assert output.requires_grad
    return sum(found.values())


@pytest.mark.parametrize("config", [BERT, LLAMA, QWEN, MODERN], ids=lambda config: config["model_type"])
def test_activations_are_within_a_sixth_of_what_a_real_model_keeps(config):
    size = size_of(config)
    assert size is not None
    assert estimate(size, **STEP, trained=0)["activations"] == pytest.approx(kept(config), rel=1 / 6)


def test_weights_gradients_and_moments_are_counted_by_hand():
    size = size_of(BERT)
    assert size is not None
    found = estimate(size, **STEP, trained=1000)
    assert (found["weights"], found["gradients"], found["optimizer"]) == (4 * size.weights, 4000, 8000)
    in_half = estimate(size, **STEP, half=True, trained=1000)
    assert in_half["weights"] == 4 * size.weights + 2 * size.matrices  # autocast's copies
    assert estimate(size, **STEP, half=True, trained=1000, dtype_bytes=2)["weights"] == 2 * size.weights


def test_weights_in_four_bits_take_half_a_byte_and_their_scales():
    size = size_of(LLAMA)
    assert size is not None
    rest = 4 * (size.weights - size.matrices)
    double, single = (AdapterConfig(quantize="nf4", double_quantize=one) for one in (True, False))
    found = [estimate(size, **STEP, trained=0, adapter=one)["weights"] - rest for one in (double, single)]
    # A scale for 64 numbers: 4 bytes, or 1 byte and 4 bytes for 256 scales.
    assert found[0] == pytest.approx(size.matrices * (0.5 + 1 / 64 + 4 / (64 * 256)), abs=1)
    assert found[1] == pytest.approx(size.matrices * (0.5 + 4 / 64), abs=1)


def test_an_adapter_has_a_row_and_a_column_for_each_rank():
    layers = [Linear("a", 3, 5, 20), Linear("b", 2, 2, 4)]
    assert adapter_weights(layers, AdapterConfig(r=4)) == 4 * (3 + 5 + 2 + 2)
    assert adapter_weights(layers, AdapterConfig(r=4, variant="dora")) == 4 * (3 + 5 + 2 + 2) + 5 + 2


def test_checkpointing_keeps_one_layer_and_the_input_of_each():
    size = size_of(BERT)
    assert size is not None
    whole = estimate(size, **STEP, trained=0)["activations"]
    less = estimate(size, **STEP, checkpointing=True, trained=0)["activations"]
    assert less == whole // 4 + 8 * 32 * 4 * 4 * 64  # texts, tokens, layers, bytes, width


def of_nli() -> RowTokens:
    """Tokens of 512 pairs as long as NLI's, which are near log-normal."""
    random = np.random.default_rng(1)
    return RowTokens(np.clip(np.round(np.exp(random.normal(2.75, 0.45, (2, 512)))) + 2, 5, 128), True)


def priced(model: Plain, tokens: RowTokens, rows: int = 512, pooling: str = "mean", **options: Any):
    """The lines on memory of a step on CUDA in bf16, but for these options."""
    gpu = GpuConfig(device="cuda", **{"precision": "bf16", **options.pop("gpu", {})})
    config: Any = SimpleNamespace(
        backbone=BackboneConfig(name="a/b"),
        pooling=PoolingConfig(name=pooling),
        training=TrainingConfig(batch_size=rows, **options),
        gpu=gpu,
    )
    passes = {"left": Pass("left"), "right": Pass("right")}
    shape, size = Shape(model, "", None), size_of(model)
    lines = [text for _, text in price(config, passes, shape, size, batch=rows, tokens=tokens)[2:]]
    return [line for line in lines if " minutes" not in line]  # those of tests/estimate/test_devices.py


def gigabytes(text: str) -> float:
    """The first size in a text, in units of 10^9 bytes."""
    found = re.search(r"([0-9.]+) GiB", text)
    assert found is not None, text
    return float(found[1]) * 2**30 / 1e9


BASE = CONFIGS["google-bert/bert-base-uncased"]
LARGE = CONFIGS["google-bert/bert-large-uncased"]
MODERN_BASE = {
    **CONFIGS["answerdotai/ModernBERT-base"],
    "num_hidden_layers": 12,
    "vocab_size": 30522,
    **{f"{name}_token_id": 1 for name in ("pad", "bos", "eos", "cls", "sep")},
}


# The most live storage of one step, counted: AdamW, RAOE, dropout of 0.1, whole blocks of 512 bytes, without
# what the allocator keeps back. Unpadded attention has its dropout in the kernel.
@pytest.mark.parametrize(
    ("model", "options", "peak"),
    [
        (BASE, {}, 9.65),
        (BASE, {"rows": 64}, 2.50),
        (LARGE, {}, 25.69),
        (LARGE, {"rows": 64}, 7.25),
        (MODERN_BASE, {}, 7.85),
        (MODERN_BASE, {"rows": 64}, 1.96),
        (BASE, {"seeded_dropout": True}, 15.81),  # padded
        (BASE, {"micro_batch_size": 128}, 8.18),
        (LARGE, {"micro_batch_size": 64}, 16.07),
        (BASE, {"gpu": {"precision": "fp32"}}, 21.65),
        (BASE, {"gradient_checkpointing": True}, 3.63),
    ],
)
def test_the_memory_of_a_step_is_within_15_percent_of_what_was_counted(model, options, peak):
    assert gigabytes(priced(model, of_nli(), **options)[0]) == pytest.approx(peak, rel=0.15)


def test_the_highest_memory_is_that_of_texts_as_long_as_the_longest():
    mixed = np.full((2, 8), 20)
    mixed[0, 3] = 64
    usual, how, most = priced(BASE, RowTokens(mixed, True))
    # 65,536 tokens of 12 layers, 2 (14.5 x 768 + 2 x 3072) bytes each; 12 bytes a weight, 2 more in a matrix.
    by_hand = 65536 * 12 * 2 * (14.5 * 768 + 2 * 3072) + 12 * 109.5e6 + 2 * 85e6
    assert gigabytes(most) == pytest.approx(by_hand / 1e9, rel=0.005)
    assert most.endswith(", if all have 64, as the longest looked at")
    assert how == "for 1,024 texts of 23 tokens on average at a time, in 16 bits"
    assert priced(BASE, RowTokens(mixed, True), gpu={"compile": True})[1] == how  # without padding, too
    assert gigabytes(usual) < gigabytes(most) / 2
