import socket
import threading
from collections.abc import Callable

import pytest
from chat_server import ChatServer, Reply, serving

from embedrun.curation.generation.http import HttpLlm
from embedrun.curation.generation.llm import Answer
from embedrun.errors import DataError

KEY = "sk-canary-0123456789"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def llm(chat: ChatServer, **options) -> tuple[HttpLlm, list[float]]:
    """The endpoint as a language model, and the seconds that it waited, without waiting."""
    waited: list[float] = []
    return HttpLlm(**{"url": chat.url, "model": "m", "pause": waited.append, **options}), waited


def after(*failures: Reply) -> Callable[[str, int], Reply]:
    """These replies first, then an answer."""
    return lambda prompt, tries: failures[tries] if tries < len(failures) else Reply(f"1. re {prompt}")


def test_one_request_holds_the_prompt_and_the_options_and_gives_the_answer():
    with serving(after()) as chat:
        one, _ = llm(chat, key=KEY, max_new_tokens=7, temperature=0.5, seed=3)
        assert one.ask(["p"]) == [Answer("1. re p")]
    (body,) = chat.bodies
    assert body == {
        "path": "/v1/chat/completions",
        "model": "m",
        "messages": [{"role": "user", "content": "p"}],
        "max_tokens": 7,
        "temperature": 0.5,
        "seed": 3,
    }
    (headers,) = chat.headers
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert headers["Content-Type"] == "application/json"


def test_the_settings_name_the_model_and_not_where_it_is():
    here, there = (HttpLlm(url=f"https://{host}/v1", model="m", key=KEY) for host in "ab")
    assert here.settings == there.settings
    assert here.settings == {
        "kind": "http",
        "model": "m",
        "max_tokens": 512,
        "temperature": 0.0,
        "seed": None,
    }


def test_what_is_left_open_is_not_sent():
    with serving(after()) as chat:
        one, _ = llm(chat, url=f"{chat.url}/chat/completions/", max_new_tokens=None, temperature=None)
        one.ask(["p"])
    assert set(chat.bodies[0]) == {"path", "model", "messages"}
    assert chat.bodies[0]["path"] == "/v1/chat/completions"
    assert "Authorization" not in chat.headers[0]


@pytest.mark.parametrize(
    "failure",
    [
        Reply(status=429),
        Reply(status=500, raw=b"oops"),
        Reply(status=503, raw=b'{"error": {"message": "busy"}}'),
        Reply(drop=0),
        Reply(drop=70),
        Reply(raw=b""),
        Reply(raw=b"<html>"),
        Reply(raw=b"[]"),
        Reply(raw=b'{"choices": []}'),
        Reply(raw=b'{"choices": [{"message": {"content": 1}}]}'),
    ],
    ids=lambda reply: str(reply.raw or reply.status if reply.drop is None else f"drop at {reply.drop}"),
)
def test_a_passing_failure_is_tried_again(failure):
    with serving(after(failure, failure)) as chat:
        one, waited = llm(chat)
        assert one.ask(["p"]) == [Answer("1. re p")]
    assert chat.asked["p"] == 3
    assert 0.5 <= waited[0] <= 1 <= waited[1] <= 2


def test_retry_after_is_waited_out():
    with serving(after(Reply(status=429, headers={"Retry-After": "20"}))) as chat:
        one, waited = llm(chat)
        one.ask(["p"])
    (seconds,) = waited
    assert 20 <= seconds <= 22


def test_an_endpoint_that_asks_for_an_hour_is_left_for_later():
    with serving(after(Reply(status=429, headers={"Retry-After": "3600"}))) as chat:
        one, waited = llm(chat)
        with pytest.raises(
            DataError, match=r"asks to wait 1 h \d+ min\..*Run the same command later to resume"
        ):
            one.ask(["p"])
    assert waited == []
    assert chat.asked["p"] == 1


def test_after_the_last_try_it_gives_up_and_says_why():
    with serving(lambda prompt, tries: Reply(status=500, raw=b'{"error": "no\x1b[2J luck"}')) as chat:
        told: list[str] = []
        one, waited = llm(chat, retries=2, tell=told.append)
        with pytest.raises(DataError) as caught:
            one.ask(["p"])
    assert chat.asked["p"] == 3
    assert len(waited) == len(told) == 2
    (problem,) = caught.value.problems
    assert f"llm 'm' at {chat.url}/chat/completions: gave up after 3 tries: HTTP 500" in problem
    assert "\x1b" not in problem
    assert "Run the same command later to resume" in problem


@pytest.mark.parametrize(
    ("status", "step"),
    [(400, "the model and its options"), (401, "key_variable"), (404, "check url and model")],
)
def test_a_refusal_that_cannot_pass_is_not_tried_again(status, step):
    with serving(after(Reply(status=status, raw=b'{"error": {"message": "because"}}'))) as chat:
        one, waited = llm(chat)
        with pytest.raises(DataError, match=f"HTTP {status} because; .*{step}"):
            one.ask(["p"])
    assert (chat.asked["p"], waited) == (1, [])


@pytest.mark.parametrize("code", ["content_filter", "context_length_exceeded"])
def test_a_prompt_that_is_refused_for_what_it_says_is_an_answer(code):
    raw = f'{{"error": {{"message": "no", "code": "{code}"}}}}'.encode()
    with serving(after(Reply(status=400, raw=raw))) as chat:
        one, _ = llm(chat)
        assert one.ask(["p"]) == [Answer("", refused=f"the endpoint's {code}")]


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (Reply("1. a\n2. b", finish="length"), Answer("1. a\n2. b", cut=True)),
        (Reply(None), Answer("")),
        (Reply(None, finish="content_filter"), Answer("", refused="the endpoint's content_filter")),
    ],
)
def test_how_an_answer_ended_is_kept(reply, answer):
    with serving(lambda prompt, tries: reply) as chat:
        assert llm(chat)[0].ask(["p"]) == [answer]


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed_with_the_key(status):
    with serving(after()) as other:
        moved = Reply(status=status, headers={"Location": f"{other.url}/chat/completions"})
        with serving(lambda prompt, tries: moved) as chat, pytest.raises(DataError, match="a redirect; give"):
            llm(chat, key=KEY)[0].ask(["p"])
        assert other.bodies == []


@pytest.mark.parametrize("status", [200, 401, 500])
def test_an_endpoint_that_repeats_the_key_does_not_get_it_shown(status):
    told: list[str] = []
    said = Reply(f"1. {KEY}", status=status, raw=None if status == 200 else f"bad {KEY}".encode())
    with serving(lambda prompt, tries: said) as chat:
        one, _ = llm(chat, key=KEY, retries=1, tell=told.append)
        if status == 200:
            assert one.ask(["p"]) == [Answer("1. ***")]
        else:
            with pytest.raises(DataError, match=r"bad \*\*\*") as caught:
                one.ask(["p"])
            assert KEY not in str(caught.value) + "".join(told)
    assert KEY not in str(one.settings) + repr(one)


def test_silence_ends_with_the_timeout():
    quiet = socket.create_server(("127.0.0.1", 0))
    with quiet:
        one = HttpLlm(url=f"http://127.0.0.1:{quiet.getsockname()[1]}/v1", model="m", retries=0, timeout=0.05)
        with pytest.raises(DataError, match=r"gave up after one try: no answer in 0\.05 s"):
            one.ask(["p"])


def test_nobody_there_is_a_passing_failure():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    waited: list[float] = []
    one = HttpLlm(url=f"http://127.0.0.1:{port}/v1", model="m", retries=3, pause=waited.append)
    with pytest.raises(DataError, match="gave up after 4 tries: no connection"):
        one.ask(["p"])
    assert len(waited) == 3


def test_stopping_ends_the_waiting_and_the_trying():
    with serving(lambda prompt, tries: Reply(status=500)) as chat:
        waiting = threading.Event()
        one = HttpLlm(url=chat.url, model="m", retries=50, tell=lambda line: waiting.set())
        ended: list[DataError] = []

        def work() -> None:
            try:
                one.ask(["p"])
            except DataError as fault:
                ended.append(fault)

        thread = threading.Thread(target=work)
        thread.start()
        assert waiting.wait(5)
        one.stop()
        thread.join(5)
    assert len(ended) == 1
    assert chat.asked["p"] <= 2
