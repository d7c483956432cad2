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
    "pooler": [[1.0, 2.0], [-3.0, -6.0]],  # the layer behind it is the encoder's
    "cls_mlp": [[1.0, 2.0], [-3.0, -6.0]],
    "mean": [[2.0, -1.0], [1.0, -4.0]],
    "max": [[3.0, 2.0], [6.0, -3.0]],
    "last_token": [[3.0, -4.0], [6.0, -3.0]],
    "weighted_mean": [[7 / 3, -2.0], [2.5, -3.5]],  # (1 + 2 x 3) / 3, (-3 + 2 x 0 + 3 x 6) / 6, ...
    "cls_last_mean": [[1.5, 0.5], [-1.0, -5.0]],
    "cls_max": [[2.0, 2.0], [1.5, -4.5]],
}
# By the tokens that texts are padded to.
LEGACY_BY_HAND = {
    ("mean_padded_legacy", 3): [[13 / 3, 7 / 3], [1.0, -4.0]],  # (1 + 3 + 9) / 3, (2 - 4 + 9) / 3
    ("mean_padded_legacy", 2): [[2.0, -1.0], [1.0, -4.0]],
    ("cls_last_mean_padded_legacy", 3): [[8 / 3, 13 / 6], [-1.0, -5.0]],
    ("cls_last_mean_padded_legacy", 1): [[1.5, 0.5], [-1.0, -5.0]],
}


@pytest.mark.parametrize("name", BY_HAND)
def test_padding_on_either_side_leaves_the_vector_worked_out_by_hand(name):
    for side in [RIGHT, LEFT]:
        tokens, mask = side
        torch.testing.assert_close(Pooling(name)((tokens,), mask), torch.tensor(BY_HAND[name]))


@pytest.mark.parametrize(("name", "padded_to"), LEGACY_BY_HAND)
def test_a_legacy_pooling_counts_padding_up_to_its_length_and_no_further(name, padded_to):
    for more in [0, 5]:
        for side in [RIGHT, LEFT]:
            tokens, mask = side
            before, behind = (more, 0) if side is LEFT else (0, more)
            tokens = torch.nn.functional.pad(tokens, (0, 0, before, behind), value=100.0)
            mask = torch.nn.functional.pad(mask, (before, behind))
            expected = torch.tensor(LEGACY_BY_HAND[name, padded_to])
            torch.testing.assert_close(Pooling(name, padded_to=padded_to)((tokens,), mask), expected)


def test_a_legacy_pooling_refuses_texts_that_are_padded_too_little():
    with pytest.raises(ValueError, match="padded to 3 tokens have no mean over 4"):
        Pooling("mean_padded_legacy", padded_to=4)((RIGHT[0],), RIGHT[1])


def test_first_last_mean_takes_the_layer_that_is_asked_for():
    for first_layer, factor in [(0, 3.0), (1, 5.0)]:
        for side in [RIGHT, LEFT]:
            tokens, mask = side
            layers = (3 * tokens, 5 * tokens, 7 * tokens, tokens)
            expected = torch.tensor(BY_HAND["mean"]) * (factor + 1) / 2
            torch.testing.assert_close(Pooling("first_last_mean", first_layer)(layers, mask), expected)


def test_every_pooling_is_worked_out_by_hand():
    assert {*BY_HAND, *(name for name, _ in LEGACY_BY_HAND), "first_last_mean"} == set(POOLINGS)


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


def test_options_that_do_not_fit_are_refused_alike_by_class_and_check():
    for name, first_layer, says in [
        ("meen", None, "did you mean 'mean'?"),
        ("first_last_mean", None, "needs 0"),
        ("first_last_mean", 2, "got 2"),
        ("mean", 1, "leave it null"),
        ("mean_padded_legacy", None, "needs a number of tokens"),
    ]:
        with pytest.raises(ValueError, match=says.replace("?", r"\?")):
            Pooling(name, first_layer)
        assert says in problems(PoolingConfig(name=name, first_layer=first_layer))[0]


def test_auto_is_not_a_problem_but_an_option_with_it_is():
    assert problems(PoolingConfig()) == []
    assert len(problems(PoolingConfig(first_layer=1))) == 1
    assert len(problems(PoolingConfig(first_layer=1, padded_to=9, keep_head=True))) == 3


def test_a_padded_length_that_does_not_fit_is_refused_alike_by_class_and_check():
    for name, padded_to in [("mean", 8), ("mean_padded_legacy", 0), ("cls", 1)]:
        with pytest.raises(ValueError, match=r"pooling\.padded_to"):
            Pooling(name, padded_to=padded_to)
        config = PoolingConfig(name=name, padded_to=padded_to)
        assert [fault.split(":")[0] for fault in problems(config)] == ["pooling.padded_to"]
