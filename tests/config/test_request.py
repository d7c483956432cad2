"""Words of Hydra's command lines."""

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st

from embedrun.config.request import quoted

PARSER = OverridesParser.create()


@given(st.text(alphabet="a1 .,/'\"\\\\=:[]{}()$~!?é", min_size=1))
def test_any_text_in_quotes_is_itself(text):
    assert str(PARSER.parse_override(f"model={quoted(text)}").value()) == text


@pytest.mark.parametrize("text", ["null", "True", "12", "1e3", "nan"])
def test_a_text_stays_a_text(text):
    found = PARSER.parse_override(f"model={quoted(text)}").value()
    assert found is not None
    assert not isinstance(found, (bool, int, float))
    assert str(found) == text
