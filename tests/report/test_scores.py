from embedrun.report.scores import table

KEY = "sts/stsb/spearman"


def test_a_score_stands_beside_those_of_baseline_unseen_rows_and_paper():
    results = {
        "main": {"name": KEY, "value": 80.0},
        "scores": {KEY: 80.0, f"{KEY}_clean": 77.5},
        "baseline": {KEY: 60.0, f"{KEY}_clean": 60.0},
        "intervals": {KEY: [78.0, 82.0]},
    }
    found = table(results, {KEY: 85.0})
    ((row,),) = [suite.rows for suite in found.suites]
    assert row.main
    assert row.cells == {
        "before": "60.00", "value": "80.00", "gain": "+20.00", "interval": "78.00 to 82.00", "clean": "77.50",
        "paper": "85.00", "to_paper": "−5.00",
    }  # fmt: skip
    assert list(found.headings) == list(row.cells)
    assert found.headings["value"] == "trained"


def test_columns_that_nothing_is_in_are_left_out():
    found = table({"scores": {KEY: 80.0}}, {})
    assert found.headings == {"value": "value"}
    assert not found.clean


def test_a_score_that_unseen_rows_do_not_change_is_said_to_be_the_same():
    found = table({"scores": {KEY: 80.0, f"{KEY}_clean": 80.0}}, {})
    assert found.suites[0].rows[0].cells["clean"] == "the same"


def test_dev_scores_come_last_and_undefined_ones_not_at_all():
    found = table({"scores": {"toy_dev/spearman": 1.0, KEY: 2.0, "sts/sts12/spearman": None}}, {})
    assert [suite.name for suite in found.suites] == ["sts", "toy_dev"]
    assert [row.key for row in found.suites[0].rows] == [KEY]


def test_of_a_long_suite_the_main_metric_on_whole_sets_stands_open():
    names = ["avg", "sts12", "stsb", *(f"sts12.part{place}" for place in range(10))]
    scores = {f"sts/{name}/{metric}": 1.0 for name in names for metric in ("pearson", "spearman")}
    (suite,) = table({"scores": scores, "main": {"name": KEY}}, {"sts/stsb/pearson": 2.0}).suites
    assert [row.key for row in suite.rows] == [
        "sts/avg/pearson", "sts/avg/spearman", "sts/sts12/spearman", "sts/stsb/pearson", "sts/stsb/spearman"
    ]  # fmt: skip
    assert len(suite.folded) == len(scores) - 5


def test_of_a_very_long_suite_averages_and_the_main_score_stand_open():
    scores = {"mteb/avg/main": 1.0} | {f"mteb/task{place}/main": 1.0 for place in range(60)}
    (suite,) = table({"scores": scores, "main": {"name": "mteb/task7/main"}}, {}).suites
    assert [row.key for row in suite.rows] == ["mteb/avg/main", "mteb/task7/main"]
    assert len(suite.folded) == 59


def test_a_published_number_without_a_score_is_listed():
    assert table({"scores": {KEY: 80.0}}, {KEY: 81.0, "sts/avg/spearman": 82.37}).lost == {
        "sts/avg/spearman": "82.37"
    }


def test_results_may_lack_everything():
    found = table({"scores": [1], "baseline": None, "intervals": 3}, {})
    assert (found.suites, found.headings) == ((), {})
