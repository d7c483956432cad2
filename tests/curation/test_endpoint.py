"""Addresses and keys: what is refused, without showing it."""

import pytest

from embedrun.curation.endpoint import is_in_the_clear, url_problem, variable_problem


@pytest.mark.parametrize(
    "url", ["https://api.openai.com/v1", "http://127.0.0.1:8000/v1", "http://[::1]:8000", "HTTPS://HOST"]
)
def test_these_are_addresses(url):
    assert url_problem(url) is None


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("api.openai.com/v1", "expected an address like https"),
        ("file:///etc/passwd", "expected an address like https"),
        ("http://a b/v1", "expected an address like https"),
        ("http://host:99999/v1", "not an address"),
        ("https://me:secret@host/v1", "no user, password"),
        ("https://host/v1?key=secret", "no user, password"),
    ],
)
def test_these_are_not_and_what_they_hold_is_not_shown(url, words):
    problem = url_problem(url)
    assert problem is not None
    assert words in problem
    assert "secret" not in problem


def test_the_key_itself_is_no_variable_and_is_not_shown():
    assert variable_problem("OPENAI_API_KEY") is None
    for key in ("sk-canary-0123", "ghp_canary0123", "canary"):
        problem = variable_problem(key)
        assert problem is not None
        assert "canary" not in problem


def test_only_http_to_another_machine_is_in_the_clear():
    assert is_in_the_clear("http://host/v1")
    for url in ("https://host/v1", "http://localhost:1", "http://[::1]:1"):
        assert not is_in_the_clear(url)
