"""Pairs that are alike or not, and triplets: by hand, and as other libraries score them."""

import numpy as np
import pytest

from embedrun.evaluation.binary import metrics_of, scored
from embedrun.rows import Rows


def pairs(gold, left=None) -> Rows:
    texts = {"left": left or [f"a{row}" for row in range(len(gold))], "right": ["b"] * len(gold)}
    return Rows("mine", "dev", "pair", texts, {"score": np.array(gold, dtype=np.float64)})


def test_the_scores_by_hand():
    # Alike, unlike, alike, unlike: precision 1 at recall 1/2, 2/3 at recall 1.
    values, _, thresholds = scored(pairs([5, 1, 5, 1]), np.array([0.9, 0.6, 0.5, 0.1]), 0)
    assert values == {"ap": pytest.approx(100 * (1 / 2 + 1 / 3)), "f1": pytest.approx(80), "accuracy": 75}
    assert thresholds == {"f1": pytest.approx(0.3), "accuracy": pytest.approx(0.75)}


def test_they_are_those_of_sentence_transformers_and_scikit_learn_ties_included():
    from sentence_transformers.sentence_transformer.evaluation import BinaryClassificationEvaluator
    from sklearn.metrics import average_precision_score

    random = np.random.default_rng(0)
    gold = random.integers(0, 2, 300)
    cosines = random.normal(gold, 1.0)
    values, intervals, _ = scored(pairs(gold), cosines, 200)
    theirs = BinaryClassificationEvaluator
    best = (
        theirs.find_best_acc_and_threshold(cosines, gold, True)[0],
        theirs.find_best_f1_and_threshold(cosines, gold, True)[0],
    )
    assert (values["accuracy"], values["f1"]) == pytest.approx([100 * float(value) for value in best])
    tied = np.round(cosines, 1)
    assert scored(pairs(gold), tied, 0)[0]["ap"] == pytest.approx(100 * average_precision_score(gold, tied))
    for metric, (low, high) in intervals.items():
        assert low < values[metric] < high


def test_triplets_are_right_where_the_positive_is_nearer_than_every_negative():
    rows = pairs([1, 1, 0, 0, 0, 0], ["a", "b"] * 3)
    assert metrics_of(rows) == ("ap", "f1", "accuracy", "triplet_accuracy")
    found = scored(rows, np.array([0.9, 0.5, 0.1, 0.2, 0.3, 0.6]), 0)[0]
    assert found["triplet_accuracy"] == 50  # b has 0.5 with its positive and 0.6 with a negative
    assert metrics_of(pairs([1, 2, 3])) == ()
