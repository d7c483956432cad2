"""Folds, choice and scores, of the published classifier against plain fits."""

import numpy as np
import pytest
from plain_classifier import Fitted as Plain
from plain_classifier import fit as plain_fit

from embedrun.evaluation import classifier
from embedrun.evaluation.classifier import Examples, Fit, Fitted, adam, stratified, validate
from embedrun.evaluation.classifier.adam import Adam

SEED = 5


@pytest.fixture(autouse=True)
def _three_folds_and_two_decays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classifier, "FOLDS", 3)
    monkeypatch.setattr(adam, "DECAYS", (1e-5, 3e-1))


def made_up(rows: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng([seed, classes])
    labels = random.integers(0, classes, rows)
    features = np.eye(classes, 8)[labels] + 0.8 * random.normal(size=(rows, 8))
    return features.astype(np.float32), labels


def outcome(method: classifier.Method, *arrays: np.ndarray) -> classifier.Outcome:
    """Of the features and labels of one, two or three splits."""
    splits = zip(arrays[::2], arrays[1::2], strict=True)
    return validate(method, [Examples(*split, np.arange(len(split[1]))) for split in splits])


def percent(right: np.ndarray) -> float:
    return round(100 * float(np.mean(right)), 2)


def plain_choice(features: np.ndarray, labels: np.ndarray, seed: int) -> tuple[Plain, float, float]:
    """Choose among the decays by cross-validation, then train on all rows, as SentEval does it."""
    means = []
    for decay in adam.DECAYS:
        each = [
            plain_fit(features[train], labels[train], decay, SEED, (features[out], labels[out])).accuracy
            for train, out in stratified(labels, classifier.FOLDS, seed)
        ]
        means.append(round(100 * float(np.mean(each)), 2))
    best = int(np.argmax(means))
    return plain_fit(features, labels, adam.DECAYS[best], SEED), means[best], adam.DECAYS[best]


def test_nested_cross_validation_is_that_of_plain_fits():
    features, labels = made_up(120, 2)
    devs, tests, chosen, predicted = [], [], [], np.empty(120, dtype=np.int64)
    for train, out in stratified(labels, 3, 1111):
        last, dev, decay = plain_choice(features[train], labels[train], 1111)
        predicted[out] = last.predict(features[out])
        devs.append(dev)
        tests.append(percent(predicted[out] == labels[out]))
        chosen.append(decay)
    found = outcome(Adam(SEED), features, labels)
    assert (found.dev, found.test) == (round(np.mean(devs), 2), round(np.mean(tests), 2))
    assert found.chosen == chosen
    np.testing.assert_array_equal(found.predicted, predicted)


def test_cross_validation_with_a_test_split_is_that_of_plain_fits():
    features, labels = made_up(120, 3)
    test, gold = made_up(50, 3, seed=1)
    last, dev, decay = plain_choice(features, labels, SEED)
    found = outcome(Adam(SEED), features, labels, test, gold)
    assert (found.dev, found.chosen) == (dev, [decay])
    assert found.test == percent(last.predict(test) == gold)
    np.testing.assert_array_equal(found.predicted, last.predict(test))


def test_with_a_dev_split_the_best_classifier_itself_is_scored():
    features, labels = made_up(90, 2)
    dev, dev_gold = made_up(40, 2, seed=1)
    test, gold = made_up(50, 2, seed=2)
    fits = [plain_fit(features, labels, decay, SEED, (dev, dev_gold)) for decay in adam.DECAYS]
    accuracies = [round(100 * one.accuracy, 2) for one in fits]
    best = int(np.argmax(accuracies))
    found = outcome(Adam(SEED), features, labels, dev, dev_gold, test, gold)
    assert (found.dev, found.chosen) == (accuracies[best], [adam.DECAYS[best]])
    np.testing.assert_array_equal(found.predicted, fits[best].predict(test))


class Told(Adam):
    """A method whose classifiers have the accuracies that it is told, and always say class 1."""

    def __init__(self, accuracies: list[list[float]]) -> None:
        super().__init__(SEED)
        self.accuracies, self.asked = accuracies, list[Fit]()

    def trainer(self, features, labels):
        def train(fits, done):
            self.asked += fits
            weights = np.zeros((2, features.shape[1] + 1))
            weights[1, -1] = 1
            told = self.accuracies if len(fits[0].regularisers) > 1 else [[0.0]] * len(fits)
            return [[Fitted(accuracy, weights) for accuracy in each] for each in told]

        return train


def test_the_first_of_the_decays_that_are_equal_to_two_decimals_is_chosen():
    features, labels = made_up(60, 2)
    told = Told([[0.50001, 0.50003], [0.5, 0.5], [0.5, 0.5]])
    found = outcome(told, features, labels, features, labels)
    assert found.chosen == [1e-5]
    assert found.dev == 50.0
    assert found.test == percent(labels == 1)


def test_the_last_classifier_holds_out_a_twentieth_of_its_rows():
    features, labels = made_up(60, 2)
    told = Told([[0.1, 0.2]] * 3)
    outcome(told, features, labels, features, labels)
    last = told.asked[-1]
    order = np.random.RandomState(SEED).permutation(60)
    np.testing.assert_array_equal(last.held_out, order[:3])
    np.testing.assert_array_equal(last.train, order[3:])
    assert (last.regularisers, last.drawn) == ((0.3,), 60)


def test_the_outer_folds_are_those_of_1111_and_the_folds_with_a_test_split_those_of_the_seed():
    features, labels = made_up(60, 2)
    nested, kfold = Told([[0.1, 0.2]] * 9), Told([[0.1, 0.2]] * 3)
    outcome(nested, features, labels)
    outcome(kfold, features, labels, features, labels)
    train, _ = stratified(labels, 3, 1111)[0]
    np.testing.assert_array_equal(nested.asked[0].train, train[stratified(labels[train], 3, 1111)[0][0]])
    np.testing.assert_array_equal(kfold.asked[0].train, stratified(labels, 3, SEED)[0][0])
