import pytest

from embedrun.config.check import nearest


@pytest.mark.parametrize(
    ("word", "hint"),
    [("traning", "; did you mean 'training'?"), ("gup", "; did you mean 'gpu'?"), ("elephant", ""), ("", "")],
)
def test_the_closest_choice_is_named_if_any_is_close(word: str, hint: str):
    assert nearest(word, ["training", "gpu", "loss"]) == hint


def test_without_choices_there_is_no_hint():
    assert nearest("x", []) == ""
