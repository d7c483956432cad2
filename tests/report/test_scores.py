"""Scores on the page, rows that were seen, worst pairs."""

import numpy as np

from embedrun.report.scores import ScoredPairs, ranks, seen, table, worst

KEY = "sts/stsb/spearman"


def test_a_score_stands_beside_those_of_baseline_unseen_rows_and_paper():
    results = {
        "main": {"name": KEY, "value": 80.0},
        "scores": {KEY: 80.0, f"{KEY}_clean": 77.5},
        "baseline": {KEY: 60.0, f"{KEY}_clean": 60.0},
        "intervals": {KEY: [78.0, 82.0]},
    }
    found = table(results)
    ((row,),) = [suite.rows for suite in found.suites]
    assert row.main
    assert row.cells == {
        "before": "60.00", "value": "80.00", "gain": "+20.00", "interval": "78.00 to 82.00", "clean": "77.50",
    }  # fmt: skip
    assert list(found.headings) == list(row.cells)
    assert found.headings["value"] == "trained"


def test_scores_of_parts_of_a_set_are_folded():
    names = ["avg", "sts12", "sts12.MSRpar", "sts12.SMT", "stsb"]
    scores = {f"sts/{name}/spearman": 1.0 for name in names}
    (suite,) = table({"scores": scores, "main": {"name": "sts/sts12.SMT/spearman"}}).suites
    assert [row.key for row in suite.folded] == ["sts/sts12.MSRpar/spearman"]
    assert [row.key.split("/")[1] for row in suite.rows] == ["avg", "sts12", "sts12.SMT", "stsb"]


def one(name: str, rows: int, pairs: int | None, sentences: int, subset: str | None = None) -> dict:
    return {
        "name": name,
        "split": "test",
        "subset": subset,
        "rows": rows,
        "pairs": pairs,
        "sentences": sentences,
    }


def test_each_set_has_its_share_and_subsets_have_none_of_their_own():
    sets = [one("sts12", 1000, 323, 400), one("sts12", 10, 1, 1, "MSRpar"), one("sickr", 10_000, 1, 0)]
    (found,) = seen({"training": {"seen": [{"name": "stsb", "split": "train", "rows": 5749}], "sets": sets}})
    assert [(line.name, line.rows, line.pairs, line.sentences) for line in found.sets] == [
        ("sts12 test", "1,000", "323 (32.3 %)", "400 (40.0 %)"),
        ("sickr test", "10,000", "1 (under 0.1 %)", "0"),
    ]
    assert found.summary == "2 of 2 sets (sts12 test, sickr test) have rows that are in the training data."
    assert found.against == "stsb train, 5,749 rows"


def pairs(gold: list[float], predicted: list[float], **more) -> ScoredPairs:
    return ScoredPairs("stsb", "sts/stsb/spearman", np.array(gold), np.array(predicted), **more)


def test_a_rank_is_the_share_below_with_half_of_the_equals():
    np.testing.assert_allclose(ranks(np.array([3.0, 1.0, 3.0, 2.0])), [75, 12.5, 75, 37.5])


def test_pairs_come_by_the_difference_of_their_ranks():
    # By gold 0 1 2 3; by cosine 0 3 1 2: rank differences 0, 2, 1, 1.
    found = worst(pairs([0, 1, 2, 3], [0.1, 0.9, 0.2, 0.3]))
    assert found is not None
    assert [row.row for row in found.rows] == [2, 3, 4]  # the first pair is ranked right
    first = found.rows[0]
    assert (first.gold, first.predicted, first.gold_rank, first.predicted_rank) == (
        "1.00",
        "0.900",
        37.5,
        87.5,
    )
