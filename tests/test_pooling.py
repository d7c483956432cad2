import pytest
import torch

from embedrun.config import PoolingConfig
from embedrun.pooling import POOLINGS, Pooling, problems

# One text of two real tokens, one of three; two dimensions; 9 stands where padding is.
FIRST = [[1.0, 2.0], [3.0, -4.0]]
SECOND = [[-3.0, -6.0], [0.0, -3.0], [6.0, -3.0]]
PADDING = [9.0, 9.0]
RIGHT = (torch.tensor([[*FIRST, PADDING], SECOND]), torch.tensor([[1, 1, 0], [1, 1, 1]]))
LEFT = (torch.tensor([[PADDING, *FIRST], SECOND]), torch.tensor([[0, 1, 1], [1, 1, 1]]))

BY_HAND = {
    "cls": [[1.0, 2.0], [-3.0, -6.0]],
    "mean": [[2.0, -1.0], [1.0, -4.0]],
    "max": [[3.0, 2.0], [6.0, -3.0]],
    "cls_last_mean": [[1.5, 0.5], [-1.0, -5.0]],
}


@pytest.mark.parametrize("name", BY_HAND)
@pytest.mark.parametrize("side", [RIGHT, LEFT], ids=["right", "left"])
def test_padding_on_either_side_leaves_the_vector_worked_out_by_hand(name, side):
    tokens, mask = side
    torch.testing.assert_close(Pooling(name)((tokens,), mask), torch.tensor(BY_HAND[name]))


@pytest.mark.parametrize("side", [RIGHT, LEFT], ids=["right", "left"])
@pytest.mark.parametrize(("first_layer", "factor"), [(0, 3.0), (1, 5.0)])
def test_first_last_mean_takes_the_layer_that_is_asked_for(side, first_layer, factor):
    tokens, mask = side
    layers = (3 * tokens, 5 * tokens, 7 * tokens, tokens)
    expected = torch.tensor(BY_HAND["mean"]) * (factor + 1) / 2
    torch.testing.assert_close(Pooling("first_last_mean", first_layer)(layers, mask), expected)


@pytest.mark.parametrize("name", POOLINGS)
def test_the_list_of_poolings_names_each_one_that_can_be_made(name):
    assert Pooling(name, 0 if name == "first_last_mean" else None).all_layers == (name == "first_last_mean")


def test_half_precision_tokens_are_summed_in_float32():
    # In float16 a sum of 4096 ones and more stops growing at 2048.
    tokens = torch.ones(1, 4096, 1, dtype=torch.float16)
    vector = Pooling("mean")((tokens,), torch.ones(1, 4096, dtype=torch.int64))
    assert vector.dtype == torch.float32
    assert vector.item() == 1.0


def test_no_gradient_reaches_padding():
    for name in BY_HAND:
        tokens = RIGHT[0].clone().requires_grad_()
        Pooling(name)((tokens,), RIGHT[1]).sum().backward()
        assert tokens.grad is not None
        assert tokens.grad[0, 2].abs().sum() == 0
        assert tokens.grad[0, :2].abs().sum() > 0


@pytest.mark.parametrize(
    ("name", "first_layer", "says"),
    [
        ("meen", None, "did you mean 'mean'?"),
        ("first_last_mean", None, "needs 0"),
        ("first_last_mean", 2, "got 2"),
        ("mean", 1, "leave it null"),
    ],
)
def test_options_that_do_not_fit_are_refused_alike_by_class_and_check(name, first_layer, says):
    with pytest.raises(ValueError, match=says.replace("?", r"\?")):
        Pooling(name, first_layer)
    assert says in problems(PoolingConfig(name=name, first_layer=first_layer))[0]


def test_auto_is_not_a_problem_but_a_first_layer_with_it_is():
    assert problems(PoolingConfig()) == []
    assert len(problems(PoolingConfig(first_layer=1))) == 1
