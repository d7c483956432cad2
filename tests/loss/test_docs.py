"""Every loss term says where it is from, what it computes and what it takes."""

import inspect
import re

from embedrun import family
from embedrun.loss.terms import needs, parameters_of


def documented(text: str | None) -> dict[str, str]:
    """What the section `Args` of a docstring says, by parameter."""
    assert text is not None
    section = re.search(r"^(?P<indent> *)Args:\n(?P<body>.*?)(?=\n\s*\n|\Z)", text, re.DOTALL | re.MULTILINE)
    assert section is not None
    deeper = len(section["indent"]) + 4
    entries = re.split(rf"^ {{{deeper}}}(\w+): ", section["body"], flags=re.MULTILINE)[1:]
    return dict(zip(entries[::2], entries[1::2], strict=True))


def test_each_has_its_formula_source_options_and_inputs_with_shapes():
    for name in family.names("loss"):
        assert_documented(name)


def assert_documented(name: str) -> None:
    cls = family.find("loss", name)
    text = inspect.getdoc(cls)
    assert text is not None
    assert re.search(r"^Source: ", text, re.MULTILINE), "no source"
    assert ".. math::" in text, "no formula"
    assert list(documented(cls.__doc__)) == list(parameters_of(cls, "__init__"))
    inputs = documented(cls.forward.__doc__)
    assert list(inputs) == list(parameters_of(cls, "forward"))
    asked = needs(cls)
    for parameter, said in inputs.items():
        dims = r"\w+, dim" if parameter in (*asked.views, *asked.optional_views) else r"\w+,[^)]*"
        assert re.search(rf"``\({dims}\)``|in the same form", said), parameter
