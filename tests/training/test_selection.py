import math

from embedrun.training.selection import Selection


def offered(*values: float) -> tuple[Selection, list[bool]]:
    selection = Selection("stsb_dev/spearman")
    return selection, [selection.offer(10 * (index + 1), value) for index, value in enumerate(values)]


def test_the_highest_score_is_the_best():
    selection, taken = offered(1.0, 3.0, 2.0)
    assert (selection.step, selection.best) == (20, 3.0)
    assert taken == [True, True, False]


def test_the_first_of_equal_scores_stays():
    selection, taken = offered(2.0, 2.0)
    assert (selection.step, taken) == (10, [True, False])


def test_a_score_below_zero_can_be_the_best():
    assert offered(-5.0, -3.0)[0].step == 20


def test_an_undefined_score_is_never_the_best():
    selection, taken = offered(math.nan, 1.0, math.nan)
    assert (selection.step, selection.best) == (20, 1.0)
    assert taken == [False, True, False]


def test_with_undefined_scores_alone_there_is_no_best():
    selection, _ = offered(math.nan, math.nan)
    assert selection.step is selection.best is None
