"""The compiled classifiers against one linear layer and one Adam, fit by fit, and early stopping."""

import numpy as np
import pytest
import torch
from plain_classifier import fit as plain_fit

from embedrun.evaluation.classifier import Fit, Fitted
from embedrun.evaluation.classifier.adam import Adam, Course, initial

SEED = 11
DECAYS = (1e-5, 1e-2, 0.3)  # the last is strong enough to stop before the others


@pytest.fixture(autouse=True, scope="module")
def _compiled() -> None:
    train(*made_up(30, 8, 2), [hold_out(30, 0, 9)])  # which is no test's own time


def made_up(rows: int, dim: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Features of unit length whose class can be told, but not always."""
    random = np.random.default_rng(classes)
    labels = random.integers(0, classes, rows)
    features = random.normal(size=(classes, dim))[labels] + 1.5 * random.normal(size=(rows, dim))
    return (features / np.linalg.norm(features, axis=1, keepdims=True)).astype(np.float32), labels


def train(features: np.ndarray, labels: np.ndarray, fits: list[Fit]) -> list[list[Fitted]]:
    return Adam(SEED).trainer(features, labels)(fits, lambda newly: None)


def hold_out(rows: int, first: int, last: int, decays: tuple[float, ...] = DECAYS) -> Fit:
    every = np.arange(rows)
    return Fit(np.delete(every, np.s_[first:last]), every[first:last], decays)


@pytest.mark.parametrize(("dim", "classes"), [(21, 2), (10, 4)])
def test_every_classifier_is_that_of_a_plain_fit(dim: int, classes: int):
    features, labels = made_up(150, dim, classes)  # 130 or 133 to train on: minibatches of 64, 64 and 2 or 5
    fits = [hold_out(150, 0, 20), hold_out(150, 60, 77)]
    for fit, found in zip(fits, train(features, labels, fits), strict=True):
        for decay, one in zip(fit.regularisers, found, strict=True):
            held_out = (features[fit.held_out], labels[fit.held_out])
            plain = plain_fit(features[fit.train], labels[fit.train], decay, SEED, held_out, classes)
            assert one.accuracy == plain.accuracy
            assert one.rounds == plain.rounds
            weight, bias = plain.model.weight.detach().numpy(), plain.model.bias.detach().numpy()
            np.testing.assert_allclose(one.weights[:, :-1], weight, atol=1e-4)
            np.testing.assert_allclose(one.weights[:, -1], bias, atol=1e-4)


def test_a_classifier_that_holds_out_rows_by_itself_is_that_of_a_plain_fit():
    features, labels = made_up(150, 16, 2)
    ((found,),) = train(features, labels, [Adam(SEED).last(np.arange(150), 1e-3)])
    plain = plain_fit(features, labels, 1e-3, SEED)
    assert (found.accuracy, found.rounds) == (plain.accuracy, plain.rounds)
    np.testing.assert_allclose(found.weights[:, :-1], plain.model.weight.detach().numpy(), atol=1e-4)
    np.testing.assert_array_equal(found.predict(features), plain.predict(features))


def course(held_out: int, counts: list[int]) -> tuple[Course, int]:
    """A course that has seen some numbers of correct rows, until it stopped, and how many these are."""
    made = Course(held_out)
    for seen, correct in enumerate(counts, start=1):
        made.see(correct, np.full((2, 3), float(seen)))
        if not made.goes_on:
            return made, seen
    return made, len(counts)


@pytest.mark.parametrize(("seed", "dim", "classes"), [(1111, 384, 2), (2, 7, 6)])
def test_classifiers_start_as_a_linear_layer_after_manual_seed(seed: int, dim: int, classes: int):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layer = torch.nn.Linear(dim, classes)
    state = torch.get_rng_state()
    weights = initial(seed, dim, classes)
    torch.testing.assert_close(torch.from_numpy(weights[:, :-1]), layer.weight.detach(), rtol=0, atol=0)
    torch.testing.assert_close(torch.from_numpy(weights[:, -1]), layer.bias.detach(), rtol=0, atol=0)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_sixth_round_that_is_no_better_stops_it():
    made, seen = course(10, [5] + [4] * 9)
    assert seen == 7
    assert made.end().rounds == 7


def test_a_better_round_does_not_set_the_count_back():
    _, seen = course(10, [1, 1, 1, 1, 1, 1, 2, 3, 3, 4])  # five no better, two better, the sixth no better
    assert seen == 9


def test_the_first_of_equally_good_weights_is_kept():
    made, _ = course(10, [3, 6, 6, 5])
    fitted = made.end()
    assert fitted.accuracy == 0.6
    assert fitted.weights[0, 0] == 2


def test_no_round_begins_after_200_epochs():
    _, seen = course(100, list(range(100)))
    assert seen == 51
