"""Rows that are nearly training rows, by the words that both have."""

import json

import numpy as np
import pytest

from embedrun.config import EvaluationConfig
from embedrun.dataset.published import Sickr, Stsb
from embedrun.evaluation.scores import Scores
from embedrun.experiment.contamination import Contamination, normalise
from embedrun.experiment.near import clean, curves, near_rows, tell
from embedrun.rows import Rows
from embedrun.store import Store


def pairs(*rows: tuple[str, str]) -> Rows:
    left, right = zip(*rows, strict=True)
    return Rows("mine", "test", "pair", {"left": list(left), "right": list(right)})


def test_a_pair_is_near_where_both_texts_share_so_many_words_in_either_order():
    train = pairs(("a man plays a guitar", "the dog runs"), ("two cats", "a man plays a guitar"))
    rows = pairs(
        ("The dog runs!", "a man plays the guitar"),  # 3 of 3 words and 4 of 5
        ("the dog runs", "two cats"),  # each is in a training pair, but not together
        ("a man plays", "the dog runs"),  # 3 of 4 words and 3 of 3
    )
    found = near_rows([train], rows, [0.8, 0.75])
    assert found[0.8].tolist() == [True, False, False]
    assert found[0.75].tolist() == [True, False, True]


def test_no_near_pair_is_missed_beside_every_comparison():
    random = np.random.default_rng(0)
    words = [f"w{number}" for number in range(12)]

    def texts(many: int) -> list[str]:
        return [" ".join(random.choice(words, random.integers(1, 6))) for _ in range(many)]

    train = pairs(*zip(texts(60), texts(60), strict=True))
    rows = pairs(*zip(texts(40), texts(40), strict=True))

    def similar(a: str, b: str) -> float:
        one, other = set(normalise(a).split()), set(normalise(b).split())
        return len(one & other) / len(one | other)

    for level in (0.5, 0.7, 1.0):
        wanted = [
            any(
                min(similar(a, c), similar(b, d)) >= level or min(similar(a, d), similar(b, c)) >= level
                for c, d in zip(*train.texts.values(), strict=True)
            )
            for a, b in zip(*rows.texts.values(), strict=True)
        ]
        assert near_rows([train], rows, [level])[level].tolist() == wanted


def test_a_clean_score_leaves_near_rows_out():
    rows = pairs(("a b c d", "e f"), ("x", "y"))
    shared = Contamination.find([pairs(("a b c d g", "e f"))], {"task": {"key": rows}})
    assert clean(shared, None)["task"]["key"].tolist() == [True, True]
    assert clean(shared, 0.8)["task"]["key"].tolist() == [False, True]


def test_the_curve_is_that_of_the_predictions_without_equal_and_near_rows(tmp_path):
    # One row is equal to a seen one, one shares 4 of 5 words with one; three are left from 0.8 on.
    rows = pairs(("a b", "c"), ("a b c d", "e f"), ("x", "y"), ("x", "z"), ("y", "z"))
    seen = [pairs(("a b", "c"), ("a b c d g", "e f"))]
    shared = Contamination.find(seen, {"task": {"mine": rows}})
    columns = {"gold": [9.0, 0.0, 1.0, 2.0, 3.0], "score": [0.9, 0.5, 0.1, 0.3, 0.2]}
    scored = {"task": Scores({}, "", predictions={"mine": columns})}
    curve = curves(shared, scored)["mine"]
    assert {name: rows for name, (rows, _) in curve.items()} == {
        "nothing": 5, "equal": 4, "0.9": 4, "0.8": 3, "0.7": 3, "0.6": 3, "0.5": 3,
    }  # fmt: skip
    # Ranks 1 2 3 against 1 3 2: 1 - 6 (0 + 1 + 1) / 24.
    assert curve["0.8"][1] == pytest.approx(50)
    tell(shared, scored, tmp_path, EvaluationConfig(tasks={}, near=0.8), "png")
    assert json.loads((tmp_path / "near.json").read_text())["mine"]["equal"]["rows"] == 4
    assert (tmp_path / "plots" / "near.png").is_file()
    tell(shared, scored, tmp_path / "other", EvaluationConfig(tasks={}), "png")
    assert not (tmp_path / "other").exists()


@pytest.mark.realdata
def test_sick_r_has_301_pairs_near_those_of_sts_b_where_53_are_equal():
    store = Store.find()
    near = near_rows([Stsb().read("train", store)], Sickr().read("test", store), [0.9, 0.7])
    assert {level: int(found.sum()) for level, found in near.items()} == {0.9: 60, 0.7: 301}
