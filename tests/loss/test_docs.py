"""Every loss term says where it is from, what it computes and what it takes."""

import inspect
import re

import pytest

from embedrun import family
from embedrun.loss.terms import GIVEN, needs, parameters_of

TERMS = family.names("loss")


def documented(text: str | None) -> dict[str, str]:
    """What the section `Args` of a docstring says, by parameter."""
    assert text is not None
    section = re.search(r"^(?P<indent> *)Args:\n(?P<body>.*?)(?=\n\s*\n|\Z)", text, re.DOTALL | re.MULTILINE)
    assert section is not None
    deeper = len(section["indent"]) + 4
    entries = re.split(rf"^ {{{deeper}}}(\w+): ", section["body"], flags=re.MULTILINE)[1:]
    return dict(zip(entries[::2], entries[1::2], strict=True))


def test_sections_are_read_by_parameter():
    text = """Return.

    Args:
        left: first, of any
            length: ``(rows, dim)``.
        n: more.

    Raises:
        ValueError: no parameter.
    """
    assert documented(text) == {"left": "first, of any\n            length: ``(rows, dim)``.\n", "n": "more."}


def test_there_are_terms_to_look_at():
    assert len(TERMS) >= 12
    assert {"cosent", "arccon", "gated_angular"} <= set(TERMS)


@pytest.mark.parametrize("name", TERMS)
def test_docstring_has_the_formula_and_its_source(name: str):
    text = inspect.getdoc(family.find("loss", name))
    assert text is not None
    assert re.search(r"^Source: ", text, re.MULTILINE), "no source"
    assert ".. math::" in text, "no formula"


@pytest.mark.parametrize("name", TERMS)
def test_every_option_is_documented(name: str):
    cls = family.find("loss", name)
    assert list(documented(cls.__doc__)) == list(parameters_of(cls, "__init__"))
    assert set(GIVEN).isdisjoint(("name", "weight", "views"))


@pytest.mark.parametrize("name", TERMS)
def test_every_input_is_documented_with_its_shape(name: str):
    cls = family.find("loss", name)
    inputs = documented(cls.forward.__doc__)
    assert list(inputs) == list(parameters_of(cls, "forward"))
    asked = needs(cls)
    for parameter, text in inputs.items():
        dims = r"\w+, dim" if parameter in (*asked.views, *asked.optional_views) else r"\w+,[^)]*"
        assert re.search(rf"``\({dims}\)``|in the same form", text), parameter
