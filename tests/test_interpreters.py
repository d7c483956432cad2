from pathlib import Path

import pytest
from limits import SLOW_BY_NATURE

ROOT = Path(__file__).parents[1]

MOST = 15


def test_few_tests_start_interpreters(request: pytest.FixtureRequest):
    """They take a second or more each; those that are marked slow, or left out otherwise, are not here."""
    items = request.session.items
    starting = [item.nodeid for item in items if "counted" in getattr(item, "fixturenames", ())]
    functions = {name.partition("[")[0] for name in starting}
    assert len(starting) <= MOST, f"{len(starting)} start interpreters: {sorted(functions)}"


def test_few_tests_are_slow_by_nature_and_all_of_them_exist():
    assert len(SLOW_BY_NATURE) <= 20
    for name in SLOW_BY_NATURE:
        file, _, function = name.partition("::")
        assert f"def {function}(" in (ROOT / file).read_text(encoding="utf-8"), name
