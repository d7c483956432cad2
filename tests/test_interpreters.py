import pytest

MOST = 15


def test_few_tests_start_interpreters(request: pytest.FixtureRequest):
    """They take a second or more each; those that are marked slow, or left out otherwise, are not here."""
    items = request.session.items
    starting = [item.nodeid for item in items if "counted" in getattr(item, "fixturenames", ())]
    functions = {name.partition("[")[0] for name in starting}
    assert len(starting) <= MOST, f"{len(starting)} start interpreters: {sorted(functions)}"
