"""Both engines against one linear layer and one Adam, fit by fit."""

import numpy as np
import pytest
from plain_classifier import fit as plain_fit

from embedrun.evaluation.classifier import Permutations
from embedrun.evaluation.classifier.adam import EPOCHS, Engine, Fit, Fitted, initial, stacked
from embedrun.evaluation.classifier.kernels import compiled

SEED = 11
DECAYS = (1e-5, 1e-2, 0.3)  # the last is strong enough to stop before the others


def engines() -> list:
    return [pytest.param(stacked, id="torch"), pytest.param(compiled, id="numba")]


@pytest.fixture(autouse=True)
def _only_what_is_installed(request: pytest.FixtureRequest) -> None:
    if "numba" in request.node.name:
        pytest.importorskip("numba")
        train(compiled, *made_up(30, 8, 2), [hold_out(30, 0, 9)])  # compiles, which is no test's own time


def made_up(rows: int, dim: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Features of unit length whose class can be told, but not always."""
    random = np.random.default_rng(classes)
    labels = random.integers(0, classes, rows)
    features = random.normal(size=(classes, dim))[labels] + 1.5 * random.normal(size=(rows, dim))
    return (features / np.linalg.norm(features, axis=1, keepdims=True)).astype(np.float32), labels


def train(engine: Engine, features: np.ndarray, labels: np.ndarray, fits: list[Fit]) -> list[list[Fitted]]:
    start = initial(SEED, features.shape[1], int(labels.max()) + 1)
    return engine(features, labels, fits, Permutations(SEED, EPOCHS), start, lambda newly: None)


def hold_out(rows: int, first: int, last: int, decays: tuple[float, ...] = DECAYS) -> Fit:
    every = np.arange(rows)
    return Fit(np.delete(every, np.s_[first:last]), every[first:last], decays)


@pytest.mark.parametrize("engine", engines())
@pytest.mark.parametrize(("dim", "classes"), [(21, 2), (10, 4)])
def test_every_classifier_is_that_of_a_plain_fit(engine: Engine, dim: int, classes: int):
    features, labels = made_up(150, dim, classes)  # 130 or 133 to train on: minibatches of 64, 64 and 2 or 5
    fits = [hold_out(150, 0, 20), hold_out(150, 60, 77)]
    for fit, found in zip(fits, train(engine, features, labels, fits), strict=True):
        for decay, one in zip(fit.decays, found, strict=True):
            held_out = (features[fit.held_out], labels[fit.held_out])
            plain = plain_fit(features[fit.train], labels[fit.train], decay, SEED, held_out, classes)
            assert one.accuracy == plain.accuracy
            assert one.rounds == plain.rounds
            weight, bias = plain.model.weight.detach().numpy(), plain.model.bias.detach().numpy()
            np.testing.assert_allclose(one.weights[:, :-1], weight, atol=1e-4)
            np.testing.assert_allclose(one.weights[:, -1], bias, atol=1e-4)


@pytest.mark.parametrize("engine", engines())
def test_a_classifier_that_holds_out_rows_by_itself_is_that_of_a_plain_fit(engine: Engine):
    features, labels = made_up(150, 16, 2)
    order = Permutations(SEED, EPOCHS).first(150)
    ((found,),) = train(engine, features, labels, [Fit(order[7:], order[:7], (1e-3,), drawn=150)])
    plain = plain_fit(features, labels, 1e-3, SEED)
    assert (found.accuracy, found.rounds) == (plain.accuracy, plain.rounds)
    np.testing.assert_allclose(found.weights[:, :-1], plain.model.weight.detach().numpy(), atol=1e-4)
    np.testing.assert_array_equal(found.predict(features), plain.predict(features))
