"""Many logistic regressions at once.

The solutions are those of scikit-learn's LogisticRegression, run until nothing moves.

Rows in blocks: scaled so that the classifier stays the same, with gradients and curvatures by block.

Many convex functions are minimised at once, each as if alone.
"""

import math

import numpy as np
import pytest
import torch

from embedrun.evaluation.classifier.fast import Blocks, Scaling, fit, fit_without


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
