"""Scores of all tasks in one encoding pass, clean scores, correlations."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from embedrun.evaluation.heldout import Heldout
from embedrun.evaluation.scores import (
    Encode,
    Scores,
    Source,
    add_clean,
    cosines,
    pearson,
    score_all,
    spearman,
)
from embedrun.evaluation.sts import Sts
from embedrun.rows import Rows


class Lengths:
    """A task that gives back what it is handed."""

    def sources(self) -> dict[str, Source]:
        return {"all": Source(None, "test")}

    def score(self, rows, encode: Encode, progress=None) -> Scores:
        texts = rows["all"].texts["right"]
        return Scores(
            {"sum": float(encode(texts).sum())}, "sum", {"seen": {"vector": encode(texts).tolist()}}
        )


def rows(left: list[str], right: list[str]) -> Rows:
    return Rows("toy", "test", "pair", {"left": left, "right": right}, {"score": np.zeros(len(left))})


class Recorder:
    """Encodes a text as its length, and remembers the calls."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def __call__(self, texts: list[str]) -> Tensor:
        self.calls.append(texts)
        return torch.tensor([[float(len(text))] for text in texts])


def test_all_tasks_share_one_pass_over_the_distinct_sentences_in_order_of_appearance():
    encode, task = Recorder(), Lengths()
    given = {"one": {"all": rows(["a", "bb"], ["bb", "ccc"])}, "two": {"all": rows(["ccc"], ["dddd"])}}
    found = score_all({"one": task, "two": task}, given, encode)
    assert encode.calls == [["a", "bb", "ccc", "dddd"]]
    assert found["one"].scores == {"sum": 5.0}
    assert found["two"].scores == {"sum": 4.0}


class Split(Lengths):
    """One part a source, and their sum."""

    def __init__(self, *keys: str) -> None:
        self.keys = keys

    def sources(self) -> dict[str, Source]:
        return {key: Source(None, "test") for key in self.keys}

    def parts(self) -> dict[str, "Split"]:
        return {key: Split(key) for key in self.keys}

    def score(self, rows, encode: Encode, progress=None) -> Scores:
        (key,) = self.keys
        if progress is not None:
            progress(1, 1)
        return Scores({f"{key}/sum": float(encode(rows[key].texts["right"]).sum())}, f"{key}/sum")

    def total(self, found) -> Scores:
        return Scores({"total": sum(one.scores[f"{key}/sum"] for key, one in found.items())}, "total")


PARTS = {"both": {"x": rows(["a"], ["bb"]), "y": rows(["a"], ["ccc"])}}


def test_a_part_is_kept_as_soon_as_it_is_scored_and_the_total_follows():
    kept = []
    found = score_all(
        {"both": Split("x", "y")}, PARTS, Recorder(), keep=lambda *what: kept.append((what[0], what[1]))
    )
    assert kept == [("both", "x"), ("both", "y")]
    assert found["both"].scores == {"x/sum": 2.0, "y/sum": 3.0, "total": 5.0}
    assert found["both"].main == "total"


def test_what_is_done_is_neither_encoded_nor_scored_again():
    encode, kept = Recorder(), []
    done = {"both": {"x": Scores({"x/sum": 40.0}, "x/sum")}}
    found = score_all(
        {"both": Split("x", "y")}, PARTS, encode, done=done, keep=lambda *what: kept.append(what[1])
    )
    assert encode.calls == [["a", "ccc"]]
    assert kept == ["y"]
    assert found["both"].scores == {"x/sum": 40.0, "y/sum": 3.0, "total": 43.0}


def test_clean_rows_have_a_total_of_their_own():
    clean = {"both": {"x": np.array([False]), "y": np.array([True])}}
    found = score_all({"both": Split("x", "y")}, PARTS, Recorder(), clean)["both"].scores
    assert found == {
        "x/sum": 2.0,
        "x/sum_clean": 0.0,
        "y/sum": 3.0,
        "y/sum_clean": 3.0,
        "total": 5.0,
        "total_clean": 3.0,
    }


def test_a_model_scales_its_vectors_but_for_tasks_that_want_them_unscaled():
    class Raw(Lengths):
        unscaled = True

    given = {name: {"all": rows(["a"], ["ccc"])} for name in ("scaled", "raw")}
    found = score_all({"scaled": Lengths(), "raw": Raw()}, given, Recorder(), scale=lambda found: found / 10)
    assert (found["scaled"].scores["sum"], found["raw"].scores["sum"]) == (pytest.approx(0.3), 3.0)


ANGLES = {"a": 0.0, "b": 0.2, "c": 0.6, "d": 1.2}  # of the vector of each text, in radians


def encode(texts: list[str]) -> Tensor:
    return torch.tensor([[math.cos(ANGLES[text]), math.sin(ANGLES[text])] for text in texts]).reshape(-1, 2)


def clean_rows(right: str, gold: list[float], subset: list[str] | None = None) -> Rows:
    """Pairs of the text `a` with each of `right`; its cosine falls from b over c to d."""
    texts = {"left": ["a"] * len(right), "right": list(right)}
    return Rows("toy", "test", "pair", texts, {"score": np.array(gold)}, subset or [])


def both(task: Sts | Heldout, own: dict[str, Rows], clean: dict[str, list[bool]]) -> Scores:
    masks = {key: np.array(mask, dtype=bool) for key, mask in clean.items()}
    return add_clean(task.score(own, encode), task, own, masks, encode)


def test_the_clean_score_is_that_of_the_clean_rows_and_the_whole_score_stays():
    own = {"heldout": clean_rows("bcdb", [3, 2, 1, 0])}  # but for the last row, the right order
    found = both(Heldout(), own, {"heldout": [True, True, True, False]})
    whole = Heldout().score(own, encode)
    assert list(found.scores) == ["toy_test/spearman", "toy_test/spearman_clean"]
    assert found.scores["toy_test/spearman"] == whole.scores["toy_test/spearman"] < 50
    assert found.scores["toy_test/spearman_clean"] == pytest.approx(100)
    columns = {"toy_test": {**whole.predictions["toy_test"], "clean": [True, True, True, False]}}
    assert (found.main, found.predictions) == (whole.main, columns)


@pytest.mark.parametrize("left", [0, 1])
def test_fewer_than_two_clean_rows_have_no_score(left):
    mask = [True] * left + [False] * (3 - left)
    found = both(Heldout(), {"heldout": clean_rows("bcd", [3, 2, 1])}, {"heldout": mask}).scores
    assert math.isnan(found["toy_test/spearman_clean"])
    assert found["toy_test/spearman"] == pytest.approx(100)


GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "metrics.json").read_text(encoding="utf-8"))
CASES = [case for case in GOLDEN["cases"] if case["metric"] == "spearman"]


def test_golden():
    assert len(CASES) >= 4
    assert "nan" in [case["expected"] for case in CASES]
    for case in CASES:
        found = spearman(case["inputs"]["system"], case["inputs"]["gold"])
        expected = pytest.approx(float(case["expected"]), abs=GOLDEN["default_tolerance"], nan_ok=True)
        assert found == expected, case["id"]


@pytest.mark.parametrize(
    ("predicted", "gold"), [([], []), ([1.0], [2.0]), ([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [2, 2, 2])]
)
@pytest.mark.filterwarnings("error")
def test_a_correlation_that_is_undefined_is_nan_and_never_a_number(predicted, gold):
    assert math.isnan(spearman(predicted, gold))
    assert math.isnan(pearson(predicted, gold))


def test_cosines_by_hand_with_zero_for_a_zero_vector():
    vectors = {"x": [3.0, 0.0], "y": [0.0, 2.0], "xy": [1.0, 1.0], "nothing": [0.0, 0.0]}
    found = cosines(
        lambda texts: torch.tensor([vectors[text] for text in texts]),
        ["x", "x", "x", "x"],
        ["x", "y", "xy", "nothing"],
    )
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, [1, 0, 1 / math.sqrt(2), 0], atol=1e-7)


def test_pearson_by_hand():
    # Deviations -1 0 1 and -1 -1 2: products sum to 3; 3 / sqrt(2 * 6).
    assert pearson([1, 2, 3], [1, 1, 4]) == pytest.approx(3 / math.sqrt(12))
