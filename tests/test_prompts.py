import pytest

from embedrun.errors import ConfigError
from embedrun.prompts import EDITS, Prompt, by_role, in_training, in_use, of, problem

ANGLE = 'Summarize sentence "{text}" in one word:"'


def test_the_edits_of_angle_are_made_in_their_published_order():
    for text, edited in [
        ("A dog runs", "A dog runs."),
        ("A dog runs.", "A dog runs."),
        ("Who runs?", "Who runs."),  # the question mark keeps the full stop away, then becomes one
        ('He said "no"', "He said 'no'"),
        ('He said "no', "He said 'no."),
        ('"', "'"),
        ("?", "."),
        ("Really!", "Really!."),
        ("What??", "What?."),
        ("", ""),
    ]:
        assert EDITS["angle_llm"](text) == edited
        assert Prompt(ANGLE, "angle_llm").filled(text) == f'Summarize sentence "{edited}" in one word:"'


def test_what_is_no_template_is_refused():
    for template, said in [
        ("query: ", r"a template with \{text\} once, .* got 'query: ', with 0"),
        ("{text} and {text}", "with 2"),
        ("{text} {sentence}", r"\{sentence\} stands for nothing"),
        ("", "with 0"),
    ]:
        with pytest.raises(ConfigError, match=said):
            of(template)
        assert problem(template) is not None


EDITED = Prompt("q: {text}", "angle_llm")


def test_use_takes_from_training_what_is_not_said():
    for trained, template, edit, used in [
        (EDITED, None, None, EDITED),
        (EDITED, None, "none", Prompt("q: {text}")),
        (EDITED, "p: {text}", None, Prompt("p: {text}", "angle_llm")),
        (EDITED, "{text}", None, None),
        (None, "q: {text}", "angle_llm", EDITED),
        (None, None, "none", None),
    ]:
        assert in_use(trained, template, edit) == used


def test_an_edit_without_a_prompt_is_refused():
    with pytest.raises(ConfigError, match=r"evaluation\.text_edit: angle_llm goes with a prompt"):
        in_use(EDITED, "{text}", "angle_llm")


def test_training_has_a_prompt_for_each_view_and_never_an_edit():
    prompts = by_role({"query": None, "document": "d: {text}"}, {"query": None, "document": EDITED})
    assert prompts == {"query": None, "document": Prompt("d: {text}")}
    roles = {"right": "document", "negative": "query"}
    found = in_training(EDITED, prompts, roles, ("left", "right", "negative"))
    assert found == {"left": Prompt("q: {text}"), "right": Prompt("d: {text}"), "negative": None}
