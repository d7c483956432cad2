import pickle

import numpy as np
import pytest

from embedrun.evaluation.geometry import MOST, RELATED, flatten, spread


def clouds(sentences: int, draws: int) -> np.ndarray:
    """Samples around a direction of each sentence, ``(sentences, draws, 8)``."""
    noise = np.random.default_rng(0).normal(size=(sentences, draws, 8))  # (sentences, draws, 8)
    return np.eye(8)[:sentences, None] + 0.02 * noise


def test_the_samples_of_a_sentence_stay_together_and_apart_from_others():
    points = flatten(clouds(3, 10))
    assert points.shape == (3, 10, 2)
    centres = points.mean(axis=1)  # (3, 2)
    own = np.linalg.norm(points - centres[:, None], axis=-1).max()
    between = min(np.linalg.norm(centres[a] - centres[b]) for a, b in ((0, 1), (0, 2), (1, 2)))
    assert own < between / 2


def test_only_directions_count_and_the_map_is_always_the_same():
    samples = clouds(2, 3)
    longer = samples * np.linspace(1, 2, 6).reshape(2, 3, 1)
    state = pickle.dumps(np.random.get_state())
    first = flatten(samples)
    # Rounding is all that is left of the lengths; t-SNE of so few points hardly multiplies it.
    np.testing.assert_allclose(flatten(longer), first, rtol=1e-2, atol=1e-2 * np.abs(first).max())
    assert np.array_equal(flatten(samples), first)
    assert pickle.dumps(np.random.get_state()) == state


def test_four_samples_are_enough():
    assert np.isfinite(flatten(clouds(2, 2))).all()


def test_a_zero_vector_is_placed_too():
    samples = clouds(2, 3)
    samples[0, 0] = 0
    assert np.isfinite(flatten(samples)).all()


def test_the_spread_is_the_largest_difference_from_the_first_sample_of_the_largest_number():
    samples = np.array([[[2.0, 0.0], [2.0, 0.5]], [[-4.0, 1.0], [-4.0, 1.0]]])  # 0.5 of 4
    assert spread(samples) == pytest.approx(0.125)
    assert spread(samples[1:]) == 0
    assert spread(np.zeros((1, 2, 2))) == 0


def test_our_sentences_are_three_and_different():
    assert len(set(RELATED)) == 3 <= MOST
