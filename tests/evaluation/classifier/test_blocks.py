"""Rows in blocks: scaled so that the classifier stays the same, with gradients and curvatures by block."""

import numpy as np
import pytest
import torch

from embedrun.evaluation.classifier.convex import Blocks, Scaling


def made_up(classes, rows=60, dim=4):
    generator = torch.Generator().manual_seed(classes)
    features = torch.randn(rows, dim + 1, generator=generator)
    features[:, -1] = 1
    labels = torch.arange(rows) % classes
    members = list(np.array_split(np.random.default_rng(0).permutation(rows), 3))
    weights = torch.randn(2, 1 if classes == 2 else classes, dim + 1, generator=generator)
    return features, labels, members, weights


def loss(features, labels, weights):
    """The summed negative log likelihood of one fit, in float64."""
    logit = features.double() @ weights.double().T  # (rows, logits)
    if logit.shape[1] == 1:
        logit = torch.cat([torch.zeros_like(logit), logit], dim=1)
    return torch.nn.functional.cross_entropy(logit, labels, reduction="sum")


def test_scaled_features_have_mean_zero_and_mean_square_length_one():
    rows = Scaling(features := np.array([[1, 5], [1, 11]], np.float32))(features)
    assert rows.tolist() == [[0, -1, 1], [0, 1, 1]]


def test_penalties_follow_the_scale():
    # Features of half the length need weights of twice the length, which the penalty counts four times.
    scaling = Scaling(np.array([[-2.0], [2.0]], np.float32))
    assert scaling.penalties([0.5, 1.0]).tolist() == [1 / (0.5 * 4), 1 / 4]


def test_equal_features_are_left_at_their_scale():
    assert Scaling(np.ones((3, 2), np.float32)).scale == 1


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_vector_that_is_not_finite_is_refused(value):
    with pytest.raises(ValueError, match="not finite"):
        Scaling(np.array([[1.0], [value]], np.float32))


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="two classes at least, got 1"):
        Blocks(torch.ones(2, 1), torch.zeros(2, dtype=torch.long), 1, [np.array([0, 1])])


@pytest.mark.parametrize("classes", [2, 4])
def test_the_gradient_is_that_of_the_rows_that_a_fit_has(classes):
    features, labels, members, weights = made_up(classes)
    blocks = Blocks(features, labels, classes, members)
    found = blocks.gradient(weights, torch.tensor([1, -1]))
    kept = np.concatenate([members[0], members[2]])
    for fit, own in ((0, kept), (1, np.arange(60))):
        at = weights[fit].double().requires_grad_()
        loss(features[own], labels[own], at).backward()
        torch.testing.assert_close(found[fit].double(), at.grad, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(blocks.gradients(weights).sum(0)[1], found[1], atol=1e-4, rtol=1e-4)


def test_the_curvature_of_two_classes_is_the_hessian():
    features, labels, members, weights = made_up(2)
    blocks = Blocks(features, labels, 2, members)
    hessian = torch.autograd.functional.hessian(lambda w: loss(features, labels, w[None]), weights[0, 0])
    torch.testing.assert_close(blocks.curvature(weights[0])[0], hessian / 60, atol=1e-5, rtol=1e-4)


def test_the_curvature_at_zero_is_the_mean_square_over_four_or_over_the_classes():
    for classes, share in ((2, 4), (5, 5)):
        features, labels, members, weights = made_up(classes)
        blocks = Blocks(features, labels, classes, members)
        square = features.T @ features / (60 * share)
        torch.testing.assert_close(blocks.curvature()[0], square)
        at_zero = blocks.curvature(torch.zeros_like(weights[0]))
        torch.testing.assert_close(at_zero, square.expand_as(at_zero))


def test_a_wide_curvature_is_the_same_in_strips():
    features = torch.randn(20, 300, generator=torch.Generator().manual_seed(0))
    blocks = Blocks(features, torch.arange(20) % 2, 2, [np.arange(20)])
    torch.testing.assert_close(blocks.curvature()[0], features.T @ features / 80)


def test_held_out_accuracy_is_that_of_the_fit_without_the_block():
    features = torch.tensor([[1.0, 1], [-1, 1], [2, 1], [-2, 1]])
    blocks = Blocks(features, torch.tensor([1, 0, 0, 1]), 2, [np.array([0, 1]), np.array([2, 3])])
    up, down = torch.tensor([[1.0, 0]]), torch.tensor([[-1.0, 0]])
    weights = torch.stack([torch.stack([up, up]), torch.stack([down, down])])
    # Block 0 agrees with `up` in both rows, block 1 in none.
    assert blocks.held_out(weights).tolist() == [[1, 0], [0, 1]]
