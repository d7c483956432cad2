import json
import math
from pathlib import Path

import pytest

from embedrun.evaluation.mteb import averages

# One made-up score for each task of MTEB(eng, v1), evenly spaced within a category.
STORED = json.loads((Path(__file__).parent / "mteb_eng_v1.json").read_text(encoding="utf-8"))
CATEGORY = {task: one["category"] for task, one in STORED.items()}
SCORES = {task: one["score"] for task, one in STORED.items()}
# RAOE, Table 11: seven categories and their average, in the order of the table.
COUNTS = (12, 11, 3, 4, 15, 10, 1)
TABLE_11 = {
    "BERT-base SimCSE": (67.32, 33.43, 73.68, 47.54, 21.82, 79.12, 31.25, 48.72),
    "BERT-base RAOE-S1": (69.34, 34.31, 82.12, 49.76, 24.09, 82.24, 31.25, 51.25),
    "BERT-base RAOE-S2": (67.37, 27.73, 80.84, 47.92, 16.49, 83.91, 32.38, 47.62),
    "BERT-large SimCSE": (68.92, 35.17, 76.33, 47.65, 21.66, 79.66, 30.89, 49.75),
    "BERT-large RAOE-S1": (69.73, 34.89, 82.25, 50.07, 23.95, 83.49, 29.63, 51.63),
    "BERT-large RAOE-S2": (68.58, 31.32, 82.06, 49.72, 20.65, 85.61, 30.17, 50.16),
    "ModernBERT-base SimCSE": (68.65, 36.72, 78.32, 49.56, 24.10, 80.30, 29.64, 50.98),
    "ModernBERT-base RAOE-S1": (70.43, 36.83, 83.40, 52.30, 30.67, 83.05, 29.64, 54.10),
    "ModernBERT-base RAOE-S2": (68.55, 32.05, 82.19, 51.16, 23.46, 84.31, 31.92, 50.95),
    "ModernBERT-large SimCSE": (71.13, 37.22, 81.37, 50.44, 29.46, 81.61, 30.22, 53.52),
    "ModernBERT-large RAOE-S1": (72.22, 38.32, 85.09, 53.73, 33.84, 84.63, 29.02, 56.50),
    "ModernBERT-large RAOE-S2": (70.81, 33.72, 84.29, 52.73, 28.65, 85.80, 30.19, 53.61),
}
# Two rows of the paper whose average is not that of their own categories, and what that would be.
OFF = {"BERT-base SimCSE": 48.87, "ModernBERT-large RAOE-S1": 56.09}


def of_row(row: tuple[float, ...]) -> dict[str, float]:
    """The averages of a benchmark of 56 tasks in which all tasks of a category have its printed score."""
    names = sorted(set(CATEGORY.values()))
    printed = dict(zip(names, row, strict=False))
    return averages({task: printed[own] for task, own in CATEGORY.items()}, CATEGORY)


def test_averages_of_the_stored_scores_worked_out_by_hand():
    # Classification 60 61 .. 71, clustering 30 .. 40, pairs 80 82 84, reranking 48 49 51 52, retrieval
    # 13 .. 27, STS 75.5 .. 84.5, summaries 30: 786 + 385 + 246 + 200 + 300 + 800 + 30 = 2747 over 56 tasks.
    assert averages(SCORES, CATEGORY) == pytest.approx(
        {
            "mteb/avg.Classification/score": 65.5,
            "mteb/avg.Clustering/score": 35,
            "mteb/avg.PairClassification/score": 82,
            "mteb/avg.Reranking/score": 50,
            "mteb/avg.Retrieval/score": 20,
            "mteb/avg.STS/score": 80,
            "mteb/avg.Summarization/score": 30,
            "mteb/avg/score": 2747 / 56,  # 49.05, where the mean of the seven would be 51.79
        }
    )


def test_categories_come_in_the_order_of_the_table():
    keys = list(averages(SCORES, CATEGORY))
    counts = [sum(f"mteb/avg.{own}/score" == key for own in CATEGORY.values()) for key in keys[:-1]]
    assert counts == list(COUNTS)
    assert sum(COUNTS) == len(STORED) == 56


@pytest.mark.parametrize("model", sorted(TABLE_11.keys() - OFF.keys()))
def test_the_printed_average_is_that_over_tasks(model):
    printed = TABLE_11[model][-1]
    assert of_row(TABLE_11[model])["mteb/avg/score"] == pytest.approx(printed, abs=0.01)
    assert abs(sum(TABLE_11[model][:-1]) / 7 - printed) > 0.9  # and not that over categories


@pytest.mark.parametrize("model", OFF)
def test_two_printed_averages_are_not_those_of_their_own_row(model):
    found = of_row(TABLE_11[model])["mteb/avg/score"]
    assert found == pytest.approx(OFF[model], abs=0.005)
    assert abs(found - TABLE_11[model][-1]) > 0.14


def test_a_benchmark_with_a_missing_task_has_no_average():
    assert averages({task: score for task, score in SCORES.items() if task != "STS12"}, CATEGORY) == {}


def test_an_undefined_score_makes_its_averages_undefined_and_no_other():
    found = averages(SCORES | {"STS12": math.nan}, CATEGORY)
    undefined = [key for key, value in found.items() if math.isnan(value)]
    assert undefined == ["mteb/avg.STS/score", "mteb/avg/score"]


def test_scores_of_other_tasks_are_not_averaged():
    assert averages(SCORES | {"Foreign": 1000.0}, CATEGORY) == averages(SCORES, CATEGORY)
