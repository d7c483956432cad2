import pytest
import torch
from transformers import AutoConfig, AutoModel

from embedrun.backbone import adapter
from embedrun.backbone.shape import Linear, size_of
from embedrun.config import AdapterConfig
from embedrun.estimate.memory import Step, adapter_weights, estimate

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


def step(**changes) -> Step:
    plain = {"texts": 8, "length": 32, "half": False, "attention": "sdpa", "gradient_checkpointing": False}
    return Step(**{**plain, **changes})


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
    assert estimate(size, step(), trained=0).activations == pytest.approx(kept(config), rel=1 / 6)


@pytest.mark.parametrize("config", [BERT, LLAMA], ids=lambda config: config["model_type"])
def test_so_are_those_under_an_adapter_with_dropout(config):
    options, size = AdapterConfig(r=2, dropout=0.1), size_of(config)
    assert size is not None
    found = estimate(size, step(), trained=0, adapter=options, adapted=size.linear)
    assert found.activations == pytest.approx(kept(config, options), rel=1 / 6)


def test_weights_gradients_and_moments_are_counted_by_hand():
    size = size_of(BERT)
    assert size is not None
    found = estimate(size, step(), trained=1000)
    assert (found.weights, found.gradients, found.optimizer) == (4 * size.weights, 4000, 8000)
    assert found.total == found.weights + 12_000 + found.activations
    in_half = estimate(size, step(half=True), trained=1000)
    assert in_half.weights == 4 * size.weights + 2 * size.matrices  # autocast's copies
    assert estimate(size, step(half=True), trained=1000, dtype_bytes=2).weights == 2 * size.weights


def test_weights_in_four_bits_take_half_a_byte_and_their_scales():
    size = size_of(LLAMA)
    assert size is not None
    rest = 4 * (size.weights - size.matrices)
    double, single = (AdapterConfig(quantize="nf4", double_quantize=one) for one in (True, False))
    found = [estimate(size, step(), trained=0, adapter=one).weights - rest for one in (double, single)]
    # A scale for 64 numbers: 4 bytes, or 1 byte and 4 bytes for 256 scales.
    assert found[0] == pytest.approx(size.matrices * (0.5 + 1 / 64 + 4 / (64 * 256)), abs=1)
    assert found[1] == pytest.approx(size.matrices * (0.5 + 4 / 64), abs=1)


def test_an_adapter_has_a_row_and_a_column_for_each_rank():
    assert adapter_weights([Linear("a", 3, 5, True), Linear("b", 2, 2, False)], 4) == 4 * (3 + 5 + 2 + 2)


def test_checkpointing_keeps_one_layer_and_the_input_of_each():
    size = size_of(BERT)
    assert size is not None
    whole = estimate(size, step(), trained=0).activations
    less = estimate(size, step(gradient_checkpointing=True), trained=0).activations
    assert less == whole // 4 + 8 * 32 * 4 * 4 * 64  # texts, tokens, layers, bytes, width


def test_eager_attention_keeps_its_scores_twice():
    size = size_of(BERT)
    assert size is not None
    more = (
        estimate(size, step(attention="eager"), trained=0).activations
        - estimate(size, step(), trained=0).activations
    )
    assert more == 2 * 4 * (8 * 2 * 32 * 32) * 4  # twice, bytes, texts x heads x tokens x tokens, layers
