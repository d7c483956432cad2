"""Many logistic regressions at once.

The solutions are those of scikit-learn's LogisticRegression, run until nothing moves.

Rows in blocks: scaled so that the classifier stays the same, with gradients and curvatures by block.

Many convex functions are minimised at once, each as if alone.
"""

import math

import numpy as np
import pytest
import torch

from embedrun.evaluation.classifier.fast import Blocks, Scaling, fit, fit_without, minimise


def made_up(classes, rows=300, dim=12, seed=0):
    generator = np.random.default_rng(seed)
    labels = generator.integers(classes, size=rows)
    centres = generator.normal(size=(classes, dim))
    features = centres[labels] + 2 * generator.normal(size=(rows, dim))
    return (5 * features + 30).astype(np.float32), labels  # far from 0 and long, as some models' vectors are


def solved(features, labels, regularisers, blocks=4):
    """The scaling, the blocks, the fits to all rows and those without a block."""
    scaling, count = Scaling(features), len(np.unique(labels))
    members = list(np.array_split(np.random.default_rng(1).permutation(len(labels)), blocks))
    parts = Blocks(scaling(features), torch.from_numpy(labels), count, members)
    penalties = scaling.penalties(regularisers)
    whole, curvatures = fit(parts, penalties)
    return scaling, members, parts, whole, fit_without(parts, penalties, whole, curvatures)


def exact(features, labels, regulariser):
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=regulariser, solver="newton-cholesky", tol=1e-8)
    return model.fit(features.astype(float), labels)


def unscaled(scaling, weights):
    """The coefficients of the features as they were, of several classes with mean 0 over them."""
    found = weights[:, :-1].double().numpy() / scaling.scale  # (logits, dim)
    return found - found.mean(axis=0) if len(found) > 1 else found


def test_one_feature_by_hand():
    # Rows 1 and -1 of class 1 and 0: 2 log(1 + exp(-w)) + w^2 / 2C is least where w = 2 C / (1 + exp(w)),
    # so w = log 3 where C = 2 log 3.
    features = np.array([[1.0], [-1.0]], np.float32)
    blocks = Blocks(Scaling(features)(features), torch.tensor([1, 0]), 2, [np.array([0, 1])])
    weights, _ = fit(blocks, torch.tensor([1 / (2 * math.log(3))]))
    assert weights[0, 0].tolist() == pytest.approx([math.log(3), 0], abs=1e-3)


@pytest.mark.parametrize("classes", [2, 4])
def test_coefficients_and_predictions_are_those_of_scikit_learn(classes):
    features, labels = made_up(classes)
    regularisers = [0.001, 0.25, 8.0]
    scaling, members, parts, whole, without = solved(features, labels, regularisers)
    everything = np.arange(len(labels))
    for place, regulariser in enumerate(regularisers):
        rest = np.setdiff1d(everything, members[2])
        of_all = exact(features, labels, regulariser)
        of_rest = exact(features[rest], labels[rest], regulariser)
        for weights, model in ((whole[place], of_all), (without[place, 2], of_rest)):
            off = np.linalg.norm(unscaled(scaling, weights) - model.coef_) / np.linalg.norm(model.coef_)
            assert off < 1e-3
        predicted = parts.predict(without[place, 2][None], 2)[0]
        assert predicted.tolist() == of_rest.predict(features[members[2]].astype(float)).tolist()


def test_separable_classes_have_finite_weights():
    features = np.concatenate([np.full((20, 3), -1.0), np.full((20, 3), 1.0)]).astype(np.float32)
    labels = np.repeat([0, 1], 20)
    scaling, _, parts, whole, without = solved(features, labels, [8.0, 1e6])
    assert torch.isfinite(whole).all()
    assert torch.isfinite(without).all()
    assert (parts.held_out(without) == 1).all()
    assert unscaled(scaling, whole[0])[0].tolist() == pytest.approx(
        exact(features, labels, 8.0).coef_[0], 1e-3
    )


def test_a_class_that_only_the_left_out_block_has_does_no_harm():
    features, labels = made_up(2)
    labels[0] = 2
    scaling = Scaling(features)
    members = [np.arange(100), np.arange(100, 300)]
    blocks = Blocks(scaling(features), torch.from_numpy(labels), 3, members)
    penalties = scaling.penalties([1.0])
    weights = fit_without(blocks, penalties, *fit(blocks, penalties))
    assert torch.isfinite(weights).all()
    assert 2 not in blocks.predict(weights[:, 0], 0)


def blocks_made_up(classes, rows=60, dim=4):
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


@pytest.mark.parametrize("classes", [2, 4])
def test_the_gradient_is_that_of_the_rows_that_a_fit_has(classes):
    features, labels, members, weights = blocks_made_up(classes)
    blocks = Blocks(features, labels, classes, members)
    found = blocks.gradient(weights, torch.tensor([1, -1]))
    kept = np.concatenate([members[0], members[2]])
    for one, own in ((0, kept), (1, np.arange(60))):
        at = weights[one].double().requires_grad_()
        loss(features[own], labels[own], at).backward()
        torch.testing.assert_close(found[one].double(), at.grad, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(blocks.gradients(weights).sum(0)[1], found[1], atol=1e-4, rtol=1e-4)


def test_the_curvature_of_two_classes_is_the_hessian():
    features, labels, members, weights = blocks_made_up(2)
    blocks = Blocks(features, labels, 2, members)
    hessian = torch.autograd.functional.hessian(lambda w: loss(features, labels, w[None]), weights[0, 0])
    torch.testing.assert_close(blocks.curvature(weights[0])[0], hessian / 60, atol=1e-5, rtol=1e-4)


def identity(slope, active):
    return slope


def test_a_parabola_with_its_own_curvature_needs_one_step_and_no_gradient_but_the_first():
    # 2 (x - 3)^2 from 0: the gradient is -12, the second derivative 4.
    calls = []

    def gradient(x, active):
        calls.append(x.clone())
        return 4 * (x - 3)

    found = minimise(
        gradient,
        lambda slope, active: slope / 4,
        torch.zeros(1, 1),
        torch.tensor([[-12.0]]),
        flat=1e-6,
        short=1e-6,
    )
    torch.testing.assert_close(found, torch.tensor([[3.0]]))
    assert [float(x) for x in calls] == [3.0]


def test_a_step_that_goes_much_too_far_is_cut_until_it_does_not():
    # sqrt(1 + x^2): Newton's own steps from |x| > 1 fly apart, here they are ten times too long besides.
    largest = []

    def gradient(x, active):
        largest.append(float(x.abs().max()))
        return x / (1 + x**2).sqrt()

    start = torch.tensor([[3.0], [-0.5]])
    found = minimise(
        gradient,
        lambda slope, active: 300 * slope,
        start,
        start / (1 + start**2).sqrt(),
        flat=1e-6,
        short=1e-3,
    )
    assert found.abs().max() < 1e-4
    assert largest[0] > 100
    assert len(largest) < 30


def test_a_function_is_solved_the_same_beside_others_as_alone():
    generator = torch.Generator().manual_seed(1)
    root = torch.randn(3, 4, 4, generator=generator)
    curvature = root @ root.mT + torch.eye(4)  # (functions, size, size)
    centre = torch.randn(3, 4, generator=generator)

    def solved(some):
        def gradient(x, active):
            return ((x - centre[some][active])[:, None] @ curvature[some][active])[:, 0]

        start = torch.zeros(len(some), 4)
        first = gradient(start, torch.arange(len(some)))
        return minimise(gradient, identity, start, first, flat=1e-6, short=1e-6)

    together = solved([0, 1, 2])
    torch.testing.assert_close(together, centre, atol=1e-4, rtol=0)
    for one in range(3):
        torch.testing.assert_close(solved([one])[0], together[one], atol=1e-4, rtol=0)
