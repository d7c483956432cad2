"""What is sent to an endpoint, and what its answers become; retries and waits are the openai package's."""

import logging
import time

import pytest
from chat_server import ChatServer, Reply, serving

from embedrun.config.options import LlmConfig
from embedrun.curation.llm import Answer, HttpLlm
from embedrun.errors import DataError

KEY = "sk-canary-0123456789"


@pytest.fixture(autouse=True)
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds between tries, without waiting."""
    seconds: list[float] = []
    monkeypatch.setattr(time, "sleep", seconds.append)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("LLM_KEY", KEY)
    return seconds


def llm(chat: ChatServer, **options) -> HttpLlm:
    """The endpoint as a language model."""
    given = {"kind": "http", "url": chat.url, "model": "m", **options}
    return HttpLlm(LlmConfig(**given), retries=2, timeout=120)


def test_one_request_holds_the_prompt_the_options_and_the_key():
    with serving(lambda prompt, tries: Reply(f"1. re {prompt}")) as chat:
        one = llm(chat, key_variable="LLM_KEY", max_new_tokens=7, temperature=0.5, seed=3)
        assert one.ask(["p é"]) == [Answer("1. re p é")]
        llm(chat, url=f"{chat.url}/chat/completions/", max_new_tokens=None, temperature=None).ask(["p"])
    whole, bare = chat.bodies
    assert whole == {
        "path": "/v1/chat/completions",
        "model": "m",
        "messages": [{"role": "user", "content": "p é"}],
        "max_tokens": 7,
        "temperature": 0.5,
        "seed": 3,
    }
    assert set(bare) == {"path", "model", "messages"}
    assert bare["path"] == "/v1/chat/completions"
    assert [headers.get("authorization") for headers in chat.headers] == [f"Bearer {KEY}", None]


def test_a_passing_failure_is_tried_again(waited):
    failures = [Reply(status=500, raw=b"oops"), Reply(drop=0)]
    with serving(lambda _, tries: failures[tries] if tries < 2 else Reply("1. a")) as chat:
        assert llm(chat).ask(["p"]) == [Answer("1. a")]
    assert chat.asked["p"] == 3
    assert len(waited) == 2


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (Reply("1. a\n2. b", finish="length"), Answer("1. a\n2. b", cut=True)),
        (Reply(None, finish="content_filter"), Answer("", refused="the endpoint's content_filter")),
        (
            Reply(status=400, raw=b'{"error": {"message": "no", "code": "context_length_exceeded"}}'),
            Answer("", refused="the endpoint's context_length_exceeded"),
        ),
    ],
)
def test_how_an_answer_ended_is_kept(reply, answer):
    with serving(lambda prompt, tries: reply) as chat:
        assert llm(chat).ask(["p"]) == [answer]


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (
            Reply(status=401, raw=b'{"error": {"message": "because"}}'),
            "AuthenticationError: .*because.*; check url",
        ),
        (Reply(status=404), "Error code: 404.*; check url, model"),
        (Reply(status=500, raw=b'{"error": {"message": "no\\u001b[2J luck"}}'), "Error code: 500 - no"),
        (Reply(drop=0), "APIConnectionError: "),
        (Reply(raw=b'{"choices": []}'), "no chat completion .IndexError"),
    ],
)
def test_what_gives_no_answer_is_said(reply, words):
    with serving(lambda prompt, tries: reply) as chat, pytest.raises(DataError, match=words) as caught:
        llm(chat).ask(["p"])
    (problem,) = caught.value.problems
    assert problem.startswith(f"llm 'm' at {chat.url}/chat/completions: ")
    assert problem.endswith("The answers so far are kept: run the same command to resume")
    assert "\x1b" not in problem


@pytest.mark.parametrize("status", [200, 401, 500])
def test_an_endpoint_that_repeats_the_key_does_not_get_it_shown(status, caplog):
    caplog.set_level(logging.DEBUG)
    raw = None if status == 200 else b'{"error": {"message": "bad %s"}}' % KEY.encode()
    with serving(lambda prompt, tries: Reply(f"1. {KEY}", status=status, raw=raw)) as chat:
        one = llm(chat, key_variable="LLM_KEY")
        if status == 200:
            assert one.ask(["p"]) == [Answer("1. ***")]
        else:
            with pytest.raises(DataError, match=r"bad \*\*\*") as caught:
                one.ask(["p"])
            assert KEY not in str(caught.value)
    assert KEY not in str(one.settings) + repr(one)
