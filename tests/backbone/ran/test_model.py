"""RAN as a model of transformers, and its memory against the length of a text."""

from itertools import pairwise

import pytest
import torch

from embedrun.backbone.dropout import SeededDropout
from embedrun.backbone.ran import RanConfig, RanModel

LENGTHS = (30, 10, 1, 18, 8, 19, 24)  # windows of 8, the last of at least 3
CPU = torch.device("cpu")


def batch(lengths=LENGTHS, *, left: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(6)
    ids = torch.zeros(len(lengths), max(lengths), dtype=torch.long)
    mask = torch.zeros_like(ids)
    for text, length in enumerate(lengths):
        own = slice(ids.shape[1] - length, None) if left else slice(length)
        ids[text, own] = torch.randint(1, 50, (length,))
        mask[text, own] = 1
    return ids, mask


def close(found, expected, atol=1e-6):
    torch.testing.assert_close(found, expected, rtol=0, atol=atol)


@pytest.mark.parametrize(
    ("dtype", "weights", "atol"),
    [(torch.float32, {"initializer_range": 0.02}, 5e-6), (torch.float64, {}, 1e-6)],  # a vector's length is 4
)
def test_a_text_has_the_same_vectors_alone_and_beside_six_others(make, dtype, weights, atol):
    model, (ids, mask) = make(**weights).to(dtype), batch()
    together = model(ids, mask)
    for text, length in enumerate(LENGTHS):
        alone = model(ids[text : text + 1, :length])
        close(together.last_hidden_state[text, :length], alone.last_hidden_state[0], atol)
        close(together.pooler_output[text], alone.pooler_output[0], atol)


def test_padding_on_the_left_is_refused(make):
    with pytest.raises(ValueError, match="padding must stand behind the tokens"):
        make()(*batch(left=True))


def test_a_text_of_padding_alone_has_finite_vectors_and_gradients(make):
    model, (ids, mask) = make(), batch([20, 4])
    mask[1] = 0
    output = model(ids, mask)
    assert output.last_hidden_state.isfinite().all()
    assert output.pooler_output.isfinite().all()
    output.pooler_output.sum().backward()
    assert all(weight.grad is None or weight.grad.isfinite().all() for weight in model.parameters())


def test_seeded_dropout_of_a_text_does_not_depend_on_the_texts_beside_it(make):
    model, (ids, mask) = make(dropout=0.2).double().train(), batch()
    seeds = torch.arange(7) * 1000 - 3
    with SeededDropout(seeds, CPU):
        together = model(ids, mask)
    for text, length in enumerate(LENGTHS):
        with SeededDropout(seeds[text : text + 1], CPU):
            alone = model(ids[text : text + 1, :length])
        close(together.last_hidden_state[text, :length], alone.last_hidden_state[0])
        close(together.pooler_output[text], alone.pooler_output[0])
    with SeededDropout(seeds + 1, CPU):
        other = model(ids, mask)
    assert (other.pooler_output - together.pooler_output).abs().max() > 1e-2


def test_the_base_model_has_87_million_weights_beside_its_pooler():
    with torch.device("meta"):
        model = RanModel(RanConfig())
    pooler = sum(weight.numel() for weight in model.pooler.parameters())
    assert sum(weight.numel() for weight in model.parameters()) - pooler == 86_874_624


MEMORY_LENGTHS = (512, 1024, 2048, 4096, 8192)  # tokens


def bytes_for_backward(model, tokens: int) -> int:
    """What a forward pass over one text keeps for the backward pass, beside the weights."""
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = model(torch.ones(1, tokens, dtype=torch.long)).last_hidden_state
    assert output.shape == (1, tokens, 16)
    return sum(tensor.untyped_storage().nbytes() for place, tensor in kept.items() if place not in weights)


def test_memory_is_linear_from_512_to_8192_tokens(make):
    model = make(window=64, min_window=16, dropout=0.1).train()
    kept = [bytes_for_backward(model, tokens) for tokens in MEMORY_LENGTHS]
    ratios = [after / before for before, after in pairwise(kept)]
    assert all(1.9 < ratio < 2.1 for ratio in ratios), ratios
