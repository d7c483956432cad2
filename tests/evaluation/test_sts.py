import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from embedrun.evaluation.scores import Source
from embedrun.evaluation.sts import SETS, Sts, aggregate, by_subset
from embedrun.rows import Rows

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "metrics.json").read_text(encoding="utf-8"))
ANGLES = {"a": 0.0, "b": 0.2, "c": 0.6, "d": 1.2}  # of the vector of each text, in radians


def encode(texts: list[str]) -> Tensor:
    return torch.tensor([[math.cos(ANGLES[text]), math.sin(ANGLES[text])] for text in texts])


def rows(name: str, right: str, gold: list[float], subset: list[str] | None = None) -> Rows:
    """Pairs of the text `a` with each of `right`; its cosine falls from b over c to d."""
    texts = {"left": ["a"] * len(right), "right": list(right)}
    return Rows(name, "test", "pair", texts, {"score": np.array(gold)}, subset or [])


def test_golden_aggregation_and_subsets():
    (case,) = [case for case in GOLDEN["cases"] if case["id"] == "sts_aggregation"]
    subsets, expected = case["inputs"]["subsets"], case["expected"]
    system = np.concatenate([values["system"] for values in subsets.values()])
    gold = np.concatenate([values["gold"] for values in subsets.values()])
    names = [name for name, values in subsets.items() for _ in values["gold"]]
    for how in ("all", "mean", "wmean"):
        assert aggregate(system, gold, names, how) == pytest.approx(100 * expected[how], abs=1e-4)
    each = {name: 100 * value for name, value in expected["per_subset"].items()}
    assert by_subset(system, gold, names) == pytest.approx(each, abs=1e-4)


def test_each_set_is_read_from_its_test_split():
    assert Sts(sets=["stsb", "sts12", "sickr"]).sources() == {
        "stsb": Source("stsb", "test"),
        "sts12": Source("sts", "test", {"year": 12}),
        "sickr": Source("sickr", "test"),
    }
    assert list(Sts().sources()) == list(SETS)


def test_scores_by_aggregation_and_the_first_set_stands_for_the_task():
    found = Sts(sets=["sts12"], aggregation=["mean", "all"]).score(
        {"sts12": rows("sts", "bcdbc", [3, 2, 1, 5, 4], ["x", "x", "x", "y", "y"])}, encode
    )
    # Within x and y every order is right; over all five, cosine ranks 4.5 2.5 1 4.5 2.5 meet gold 3 2 1 5 4.
    assert found.scores["sts/sts12/spearman_mean"] == pytest.approx(100)
    assert found.scores["sts/sts12/spearman"] == pytest.approx(100 * 7 / math.sqrt(9 * 10))
    assert found.main == "sts/sts12/spearman_mean"


def test_the_average_is_there_for_all_seven_sets_only():
    given = {name: rows(name, "bcd", [3, 2, 1]) for name in SETS}
    given["stsb"] = rows("stsb", "bdc", [3, 2, 1])  # 50
    found = Sts().score(given, encode)
    assert found.scores["sts/avg/spearman"] == pytest.approx((6 * 100 + 50) / 7)
    assert found.main == "sts/avg/spearman"
    assert "sts/avg/spearman" not in Sts(sets=list(SETS[:6])).score(given, encode).scores


def test_one_undefined_set_makes_the_average_undefined():
    given = {name: rows(name, "bcd", [3, 2, 1]) for name in SETS}
    given["sts13"] = rows("sts13", "bbb", [3, 2, 1])
    found = Sts().score(given, encode).scores
    assert math.isnan(found["sts/sts13/spearman"])
    assert math.isnan(found["sts/avg/spearman"])
    assert found["sts/sts12/spearman"] == pytest.approx(100)


def test_pearson_and_subsets_have_keys_of_their_own():
    task = Sts(sets=["sts12"], aggregation=["all", "wmean"], metrics=["spearman", "pearson"], subsets=True)
    found = task.score({"sts12": rows("sts", "bcdbc", [3, 2, 1, 5, 4], ["x", "x", "x", "y", "y"])}, encode)
    assert list(found.scores) == [
        "sts/sts12/spearman",
        "sts/sts12/spearman_wmean",
        "sts/sts12/pearson",
        "sts/sts12/pearson_wmean",
        "sts/sts12.x/spearman",
        "sts/sts12.y/spearman",
        "sts/sts12.x/pearson",
        "sts/sts12.y/pearson",
    ]
    cosine = [math.cos(0.2), math.cos(0.6), math.cos(1.2)]
    x = 100 * float(np.corrcoef(cosine, [3, 2, 1])[0, 1])
    assert found.scores["sts/sts12.x/pearson"] == pytest.approx(x)
    assert found.scores["sts/sts12.y/pearson"] == pytest.approx(100)  # any two points lie on a line
    assert found.scores["sts/sts12/pearson_wmean"] == pytest.approx((3 * x + 2 * 100) / 5)
    assert found.shown == ("sts/sts12/spearman",)


def test_the_interval_is_that_of_resampled_pairs_and_of_each_set_by_itself():
    words = "bcd" * 40
    gold = list(np.random.default_rng(3).normal([3, 2, 1] * 40))
    given = {name: rows(name, words, gold) for name in SETS}
    found = Sts(interval_draws=200).score(given, encode)
    widths = {}
    for name in SETS:
        low, high = found.intervals[f"sts/{name}/spearman"]
        assert low < found.scores[f"sts/{name}/spearman"] < high
        widths[name] = high - low
    low, high = found.intervals["sts/avg/spearman"]
    # Seven independent sets of one spread: the spread of their average is 1 / sqrt(7) = 0.38 of it.
    assert 0.25 < (high - low) / np.mean(list(widths.values())) < 0.5
