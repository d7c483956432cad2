"""How vectors lie, and how those of one text lie under dropout."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from embedrun.evaluation.geometry import (
    Geometry,
    alignment,
    anisotropy,
    flatten,
    ordered,
    shorter,
    spread,
    uniformity,
)
from embedrun.rows import Rows

# East, north, west and south, of different lengths: only directions count.
VECTORS = {"e": [2.0, 0.0], "n": [0.0, 0.5], "w": [-3.0, 0.0], "s": [0.0, -1.0], "zero": [0.0, 0.0],
           "nan": [math.nan, 1.0]}  # fmt: skip
# Positive pairs: e-n at 90 degrees, squared distance 2; e-w at 180 degrees, squared distance 4.
# The last has a gold score of exactly 4, which is none.
PAIRS = [("e", "n", 5.0), ("e", "w", 4.5), ("w", "s", 4.0)]
FOUR = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])


def encode(texts: list[str]) -> Tensor:
    return torch.tensor([VECTORS[text] for text in texts]).reshape(len(texts), 2)


def rows(pairs: list[tuple[str, str, float]], split: str = "test") -> dict[str, Rows]:
    texts = {"left": [left for left, _, _ in pairs], "right": [right for _, right, _ in pairs]}
    return {"stsb": Rows("stsb", split, "pair", texts, {"score": np.array([gold for *_, gold in pairs])})}


def test_copies_lose_a_fifth_of_the_words_and_two_fifths_that_hold_it():
    random = np.random.default_rng(0)
    words = [f"w{number}" for number in range(10)]
    for _ in range(50):
        first, second = (copy.split() for copy in shorter(" ".join(words), random))
        assert (len(first), len(second)) == (8, 6)
        assert set(second) < set(first)
        gone = [place for place, word in enumerate(words) if word not in second]
        assert gone == list(range(gone[0], gone[0] + 4))


def test_the_order_is_right_where_the_sentence_is_nearer_to_the_longer_copy():
    def lengths(texts: list[str]) -> Tensor:  # a whole sentence of five words is (1, 0); "a ..." turns round
        angles = [0.1 * (5 - len(text.split())) for text in texts]
        turned = [
            3 - angle if "a" in text and angle > 0.05 else angle
            for text, angle in zip(texts, angles, strict=True)
        ]
        return torch.tensor([[math.cos(angle), math.sin(angle)] for angle in turned])

    assert ordered(["b c d e f", "a a a a a", "too short"], lengths).tolist() == [1.0, 0.0]
    found = Geometry(triplet_order=True).score(
        rows([("b c d e f", "c d e f g", 5.0), ("a a a a a", "b c d e f", 1.0)]), lengths
    )
    assert found.scores["geometry/triplet_order"] == pytest.approx(2 / 3)


def unit(count: int, dim: int = 3) -> np.ndarray:
    vectors = np.random.default_rng(1).normal(size=(count, dim))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_alignment_is_the_squared_distance_of_each_pair():
    # 0 degrees, 90 degrees, 180 degrees: 0, (1 - 0)² + (0 - 1)² = 2, (1 + 1)² = 4.
    assert alignment(FOUR[[0, 0, 0]], FOUR[[0, 1, 2]]).tolist() == [0, 2, 4]


def test_uniformity_of_four_vectors_at_right_angles():
    # Of the six pairs four are at squared distance 2 and two at 4: log((4 e^-4 + 2 e^-8) / 6) = -4.3964.
    expected = math.log((4 * math.exp(-4) + 2 * math.exp(-8)) / 6)
    assert expected == pytest.approx(-4.3964, abs=1e-4)
    assert uniformity(FOUR) == pytest.approx(expected, abs=1e-12)


def test_anisotropy_is_the_mean_cosine_of_different_vectors():
    # Four cosines of 0 and two of -1, over six pairs.
    assert anisotropy(FOUR) == pytest.approx(-1 / 3)
    vectors = unit(7)
    cosines = vectors @ vectors.T
    assert anisotropy(vectors) == pytest.approx(cosines[np.triu_indices(7, k=1)].mean(), abs=1e-12)


def test_the_scores_of_three_pairs_worked_out_by_hand():
    found = Geometry().score(rows(PAIRS), encode)
    assert found.scores == pytest.approx(
        {
            "geometry/alignment": 3.0,  # (2 + 4) / 2
            "geometry/saturation": 1 / 3,  # cosines 0, -1 and 0
            "geometry/gradient": 2 / 3,  # sines 1, 0 and 1
            "geometry/wasserstein": (1.8 + 0.9 + 1.0) / 3,  # -1, 0, 0 and 0.8, 0.9, 1
            "geometry/uniformity": -4.3964,
            "geometry/anisotropy": -1 / 3,
        },
        abs=1e-4,
    )
    assert found.main == "geometry/alignment"
    assert found.predictions == {"geometry_stsb": {"gold": [5.0, 4.5, 4.0], "score": [0.0, -1.0, 0.0]}}
    assert found.notes == {
        "sentences": 4, "positive_pairs": 2, "saturated_from": 0.9, "left_out_sentences": 0,
    }  # fmt: skip


def test_the_options_say_what_is_positive_and_where_the_zone_begins():
    found = Geometry(positive_above=4.5, saturated_from=0.5).score(rows([*PAIRS, ("e", "e", 1.0)]), encode)
    assert found.scores["geometry/alignment"] == pytest.approx(2)  # e-n alone
    assert found.scores["geometry/saturation"] == pytest.approx(0.5)  # e-w and e-e
    assert found.notes["saturated_from"] == 0.5


@pytest.mark.parametrize("bad", ["zero", "nan"])
def test_a_vector_without_a_direction_is_left_out_with_its_pairs_and_counted(bad):
    whole = Geometry().score(rows([*PAIRS, (bad, "e", 5.0), (bad, "n", 0.0)]), encode)
    assert whole.scores == pytest.approx(Geometry().score(rows(PAIRS), encode).scores)
    assert whole.notes["left_out_sentences"] == 1
    assert len(whole.predictions["geometry_stsb"]["gold"]) == 3


@pytest.mark.parametrize("pairs", [[], [("zero", "nan", 5.0)]])
def test_nothing_to_score_is_undefined_and_no_failure(pairs):
    found = Geometry().score(rows(pairs), encode)
    assert len(found.scores) == 6
    assert all(math.isnan(value) for value in found.scores.values())
    assert (found.predictions, found.intervals) == ({}, {})


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


def test_the_spread_is_the_largest_difference_from_the_first_sample_of_the_largest_number():
    samples = np.array([[[2.0, 0.0], [2.0, 0.5]], [[-4.0, 1.0], [-4.0, 1.0]]])  # 0.5 of 4
    assert spread(samples) == pytest.approx(0.125)
    assert spread(samples[1:]) == 0
    assert spread(np.zeros((1, 2, 2))) == 0
