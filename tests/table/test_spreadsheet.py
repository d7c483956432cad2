import pytest

from embedrun.table.formats import cell


@pytest.mark.parametrize(
    ("value", "written"),
    [("=1+1", "'=1+1"), ("-x", "'-x"), ("'a", "''a"), ("\n=1", "'\n=1"), ("a\x1b[31m", "a\ufffd[31m"),
     ("-5", "-5"), ("+1e-3", "+1e-3"), ("-inf", "'-inf"), (None, ""), (0.1, "0.1"), (3, "3")],
)  # fmt: skip
def test_what_looks_like_a_formula_is_text_and_a_number_stays_one(value, written):
    assert cell(value) == written
