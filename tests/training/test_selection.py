import json
import math

from embedrun.training.loop import Selection


def offered(*values: float, **options) -> tuple[Selection, list[bool]]:
    selection = Selection("stsb_dev/spearman", **options)
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


def test_where_lower_is_better_the_lowest_is_the_best():
    selection, taken = offered(3.0, 1.0, 1.0, 2.0, lowest=True)
    assert (selection.step, selection.best) == (20, 1.0)
    assert taken == [True, True, False, False]


def test_patience_ends_after_so_many_scores_without_a_new_best():
    assert not offered(1.0, 0.5, 2.0, 1.0, patience=2)[0].exhausted
    assert offered(1.0, 0.5, 2.0, 1.0, 1.0, patience=2)[0].exhausted
    assert not offered(*[0.0] * 99)[0].exhausted


def test_undefined_scores_use_up_patience():
    assert offered(math.nan, math.nan, patience=2)[0].exhausted
    assert offered(1.0, math.nan, math.nan, patience=2)[0].exhausted


def test_a_selection_goes_on_from_its_state_as_json_holds_it():
    whole, _ = offered(1.0, 3.0, 2.0, 2.5, 1.0, patience=3)
    first, _ = offered(1.0, 3.0, 2.0, patience=3)
    second = Selection("stsb_dev/spearman", patience=3)
    second.load_state(json.loads(json.dumps(first.state())))
    for step, value in ((40, 2.5), (50, 1.0)):
        second.offer(step, value)
    assert second == whole
    assert second.exhausted
