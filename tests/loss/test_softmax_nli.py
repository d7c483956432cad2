import math

import torch

from embedrun.loss.softmax_nli import SoftmaxNli


def with_weights(weight: list[list[float]], bias: list[float]) -> SoftmaxNli:
    term = SoftmaxNli(dim=len(weight[0]) // 3)
    term.load_state_dict({"classifier.weight": torch.tensor(weight), "classifier.bias": torch.tensor(bias)})
    return term


def test_features_are_both_vectors_and_their_absolute_difference():
    # W is the identity: the three logits are u = 1, v = 3 and |u - v| = 2.
    term = with_weights([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [0.0, 0.0, 0.0])
    normalizer = math.log(math.exp(1) + math.exp(3) + math.exp(2))
    for label, logit in enumerate((1, 3, 2)):
        loss = term(torch.tensor([[1.0]]), torch.tensor([[3.0]]), torch.tensor([label]))
        torch.testing.assert_close(loss, torch.tensor(normalizer - logit))


def test_bias_is_added_and_the_mean_is_over_the_pairs():
    term = with_weights([[0.0] * 3] * 3, [1.0, 0.0, 0.0])
    loss = term(torch.ones(2, 1), torch.ones(2, 1), torch.tensor([0, 1]))
    normalizer = math.log(math.e + 2)
    torch.testing.assert_close(loss, torch.tensor((normalizer - 1 + normalizer) / 2))


def test_rows_of_one_label_are_idle():
    reason = SoftmaxNli(dim=2).idle(8, torch.tensor([2, 2, 2]))
    assert reason == (
        "all training rows have the label 2, so there is nothing to tell apart; "
        "keep more labels (dataset.labels)"
    )
    assert SoftmaxNli(dim=2).idle(8, torch.tensor([2, 0])) is None
