import json
from typing import Any

import numpy as np
import pytest
from finished_runs import GOLD, diff, diff_data, finished

from embedrun.evaluation.sts import SETS
from embedrun.report.diff import STS_SETS, interval_over_rows
from embedrun.runs.reading import RunFiles

pytestmark = pytest.mark.usefixtures("here")


# The comparison.


def test_options_versions_and_data_that_differ_are_said_and_the_command_line_is_not(capsys):
    a = finished("a", {"pooling": {"name": "cls"}, "only": None})
    b = finished(
        "b",
        {"pooling": {"name": "mean"}},
        environment={"command": "x", "versions": {"torch": "2.14.0"}, "data": {"stsb/test": "bb"}},
    )
    found = diff_data(capsys, a, b)
    assert found["configuration"] == {"only": {"a": None}, "pooling.name": {"a": "cls", "b": "mean"}}
    assert list(found["environment"]) == ["data.stsb/test", "versions.torch"]
    out = diff(capsys, a, b, "--draws", "100")
    assert ["pooling.name", "cls", "mean"] in [line.split() for line in out.splitlines()]
    assert ["only", "null", "-"] in [line.split() for line in out.splitlines()]


def test_a_prediction_file_of_both_gives_its_score_an_interval_and_a_p_value(capsys):
    gold = np.arange(40.0)
    worse = gold.copy()
    worse[::2] = gold[::2][::-1]
    score = 100 * float(np.corrcoef(worse, gold)[0, 1])  # both are ranks already
    a = finished(
        "a", scores={"sts/stsb/spearman": score}, predictions={"stsb": {"gold": gold, "score": worse}}
    )
    b = finished("b", scores={"sts/stsb/spearman": 100}, predictions={"stsb": {"gold": gold, "score": gold}})
    (found,) = diff_data(capsys, a, b)["comparisons"]
    assert found["key"] == "sts/stsb/spearman"
    assert found["difference"] == pytest.approx(100 - score)
    assert 0 < found["low"] < found["difference"] < found["high"]
    assert found["p"] == 1 / 1001
    assert found["rows"] == 40
    out = diff(capsys, a, b)
    assert "1,000 draws" in out
    assert "10,000 draws" in out
    assert "uncorrected" in out
    assert "<0.0001" in out
    assert out.count("sts/stsb/spearman") == 1  # not in the other table too


def test_the_average_of_the_seven_sets_is_compared_only_where_all_are_there(capsys):
    generator = np.random.default_rng(0)

    def predictions(noise: float) -> dict[str, dict[str, Any]]:
        return {
            name: {"gold": GOLD * 10, "score": np.array(GOLD * 10) + noise * generator.normal(size=40)}
            for name in STS_SETS
        }

    seven, worse = predictions(0.1), predictions(1.0)
    found = diff_data(capsys, finished("a", predictions=worse), finished("b", predictions=seven))
    *each, whole = found["comparisons"]
    assert [one["key"] for one in each] == [f"sts/{name}/spearman" for name in SETS]
    assert whole["key"] == "sts/avg/spearman"
    assert whole["difference"] == pytest.approx(sum(one["difference"] for one in each) / 7)
    assert whole["rows"] == 280
    assert whole["high"] - whole["low"] < min(one["high"] - one["low"] for one in each)
    del seven["sts12"]
    found = diff_data(capsys, finished("c", predictions=worse), finished("d", predictions=seven))
    assert "sts/avg/spearman" not in [one["key"] for one in found["comparisons"]]
    assert found["not_compared"] == {"sts12": "only A has it"}


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"gold": [0.0, 1.0, 3.0, 2.0], "score": GOLD}, "gold differs in 2 of 4 rows"),
        (
            {"gold": GOLD, "predicted": GOLD},
            "A holds x_dev/spearman (correlation), B holds x_dev/spearman (accuracy)",
        ),
    ],
)
def test_files_of_other_rows_are_not_compared_and_the_reason_is_said(columns, why, capsys):
    a = finished("a", predictions={"x_dev": {"gold": GOLD, "score": GOLD}})
    b = finished("b", predictions={"x_dev": columns})
    assert diff_data(capsys, a, b)["not_compared"] == {"x_dev": why}
    assert f"not compared, {why}: x_dev" in diff(capsys, a, b)


def test_the_interval_of_a_score_is_the_recorded_one_else_that_of_its_predictions():
    gold = np.arange(40.0)
    noisy = gold + np.random.default_rng(0).normal(scale=10, size=40)
    run = finished(
        "a",
        scores={"x_dev/spearman": 70.0},
        predictions={
            "x_dev": {"gold": gold, "score": noisy},
            "y_dev": {"gold": gold, "score": np.ones(40)},
            "retrieval_z": {"correct": [0, 1] * 50},
        },
    )
    found = RunFiles.read(run)
    assert interval_over_rows(found, "nothing") is None
    assert interval_over_rows(found, "y_dev/spearman") is None  # undefined
    low, high = interval_over_rows(found, "x_dev/spearman") or (0, 0)
    assert 0 < low < 100 * float(np.corrcoef(noisy, gold)[0, 1]) < high < 100
    low, high = interval_over_rows(found, "retrieval/z/strict_accuracy") or (0, 0)
    assert (low, high) == pytest.approx((40, 60), abs=1.5)  # 50 ± 1.96 * 5, the deviation of 100 coins' mean
    results = {**found.results, "intervals": {"x_dev/spearman": [60.0, 75.0]}}
    (run / "results.json").write_text(json.dumps(results))
    assert interval_over_rows(RunFiles.read(run), "x_dev/spearman") == (60, 75)


# Names and values.
