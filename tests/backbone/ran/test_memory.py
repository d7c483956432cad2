from itertools import pairwise

import pytest
import torch

LENGTHS = (512, 1024, 2048, 4096, 8192)  # tokens


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


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_memory_is_linear_from_512_to_8192_tokens(make, dropout):
    model = make(window=64, min_window=16, dropout=dropout).train()
    kept = [bytes_for_backward(model, tokens) for tokens in LENGTHS]
    ratios = [after / before for before, after in pairwise(kept)]
    assert all(1.9 < ratio < 2.1 for ratio in ratios), ratios


def test_memory_of_one_window_around_the_whole_text_would_be_quadratic(make):
    model = make(window=4096, attention="eager")
    one, two = (bytes_for_backward(model, tokens) for tokens in (1024, 2048))
    assert two / one > 3.5
