from embedrun.report.scores import seen


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
    assert found.summary == "All 2 sets have rows that are in the training data."
    assert found.against == "stsb train, 5,749 rows"


def test_a_text_that_was_seen_in_another_pair_makes_no_seen_pair():
    (found,) = seen({"training": {"sets": [one("stsb", 10, 0, 5)]}})
    assert found.summary == "No evaluation row is in the training data."


def test_the_sets_with_seen_rows_are_named():
    (found,) = seen({"selection": {"sets": [one("a", 9, 1, 1), one("b", 9, 0, 0), one("c", 9, 2, 2)]}})
    assert found.summary == "2 of 3 sets (a test, c test) have rows that are in the dev data."


def test_a_row_of_one_text_is_seen_by_its_text():
    (found,) = seen({"training": {"sets": [one("trec", 10, None, 5)]}})
    assert (found.sets[0].pairs, found.sets[0].any) == ("", True)


def test_a_set_that_two_tasks_score_stands_there_once():
    (found,) = seen({"training": {"sets": [one("stsb", 10, 1, 5)] * 2}})
    assert found.summary == "Rows of stsb test are in the training data."


def test_training_and_selection_are_told_apart():
    own = {"sets": [one("toy", 10, 0, 0)]}
    assert [found.where for found in seen({"selection": own, "training": own})] == [
        "in the training data", "in the dev data"
    ]  # fmt: skip


def test_anything_may_be_missing_or_odd():
    assert seen({}) == []
    assert seen({"training": [1], "selection": {"sets": "x", "seen": 3}}) == []
    (found,) = seen({"training": {"sets": [{"rows": "many"}, 7]}})
    assert found.sets[0].rows == "0"
