"""`protocol=fast` is the toolkit's validation with LogisticRegression, by other means."""

import math
import warnings

import numpy as np
import pytest

from embedrun.evaluation import classifier
from embedrun.evaluation.classifier import Examples, Fit, stratified, validate
from embedrun.evaluation.classifier.convex import REGULARISERS, Convex


def made_up(classes, rows, seed=0):
    generator = np.random.default_rng(seed)
    labels = generator.integers(classes, size=rows)
    centres = np.random.default_rng(99).normal(size=(classes, 6))
    vectors = centres[labels] + 1.5 * generator.normal(size=(rows, 6))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32), labels


def solved(*arrays):
    """The outcome on the features and labels of one, two or three splits."""
    splits = zip(arrays[::2], arrays[1::2], strict=True)
    return validate(Convex(), [Examples(*split, np.arange(len(split[1]))) for split in splits])


def model(regulariser, vectors, labels):
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=regulariser, solver="newton-cholesky", tol=1e-8)
    return model.fit(vectors.astype(float), labels)


def chosen_by_folds(grid, vectors, labels, count=10):
    """The regulariser and its accuracy, by a plain loop."""
    folds = stratified(labels, count, 1111)
    scores = []
    for regulariser in grid:
        fits = [(model(regulariser, vectors[train], labels[train]), held) for train, held in folds]
        scores.append(
            round(100 * np.mean([each.score(vectors[held], labels[held]) for each, held in fits]), 2)
        )
    return grid[int(np.argmax(scores))], max(scores)


def test_nested_is_the_plain_loop(monkeypatch):
    monkeypatch.setattr(classifier, "FOLDS", 3)
    vectors, labels = made_up(2, 130)
    found = solved(vectors, labels)
    chosen, dev, test = [], [], []
    for train, held in stratified(labels, 3, 1111):
        regulariser, accuracy = chosen_by_folds(REGULARISERS[1], vectors[train], labels[train], 3)
        refit = model(regulariser, vectors[train], labels[train])
        assert found.predicted[held].tolist() == refit.predict(vectors[held].astype(float)).tolist()
        test.append(round(100 * refit.score(vectors[held], labels[held]), 2))
        chosen.append(regulariser)
        dev.append(accuracy)
    assert (found.chosen, found.dev, found.test) == (chosen, round(np.mean(dev), 2), round(np.mean(test), 2))


def test_kfold_of_several_classes_is_the_plain_loop():
    (train, labels), (test, test_labels) = made_up(3, 150), made_up(3, 50, seed=1)
    found = solved(train, labels, test, test_labels)
    regulariser, dev = chosen_by_folds(REGULARISERS[2], train, labels)
    predicted = model(regulariser, train, labels).predict(test.astype(float))
    assert found.predicted.tolist() == predicted.tolist()
    assert (found.chosen, found.dev) == ([regulariser], dev)
    assert found.test == round(100 * np.mean(predicted == test_labels), 2)


def test_of_equal_regularisers_the_first_is_chosen():
    vectors = np.repeat([[-1.0, 0.0], [1.0, 0.0]], 20, axis=0).astype(np.float32)
    labels = np.repeat([0, 1], 20)
    assert solved(vectors, labels).chosen == [0.25] * 10
    assert solved(vectors, labels, vectors, labels).chosen == [0.5]
    assert solved(*[vectors, labels] * 3).chosen == [0.25]


def test_large_vectors_are_as_accurate_as_short_ones():
    vectors, labels = made_up(2, 200)
    far = 300 * vectors + 5000  # as activations of a few great dimensions
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = solved(far, labels, far, labels)
    predicted = model(found.chosen[0], 300 * vectors, labels).predict(300 * vectors.astype(float))
    assert np.mean(found.predicted == predicted) > 0.99


def test_long_vectors_of_more_dimensions_than_rows_leak_no_held_out_row():
    # Labels drawn at random cannot be told, unless a fit was begun from weights that have seen the row.
    random = np.random.default_rng(0)
    features = random.normal(size=(240, 300)).astype(np.float32)
    features *= 1000 / np.linalg.norm(features, axis=1, keepdims=True)
    labels = random.integers(0, 2, 240)
    found = solved(features[:200], labels[:200], features[200:], labels[200:])
    assert abs(found.dev - 50) < 12  # 59.5 is the accuracy of a hard margin


def test_one_feature_by_hand():
    # Rows 1 and -1 of class 1 and 0: 2 log(1 + exp(-w)) + w^2 / 2C is least where w = 2 C / (1 + exp(w)),
    # so w = log 3 where C = 2 log 3.
    features, every = np.array([[1.0], [-1.0]], np.float32), np.arange(2)
    train = Convex().trainer(features, np.array([1, 0]))
    ((found,),) = train([Fit(every, every, (2 * math.log(3),))], lambda newly: None)
    assert (found.weights[1] - found.weights[0]).tolist() == pytest.approx([math.log(3), 0], abs=1e-3)
    assert found.accuracy == 1
