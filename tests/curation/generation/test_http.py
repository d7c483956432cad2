import asyncio
import json
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable

import anyio
import httpx2
import pytest
from chat_server import ChatServer, Reply, serving

from embedrun.curation.generation import http
from embedrun.curation.generation.http import HttpLlm, passes
from embedrun.curation.generation.llm import Answer
from embedrun.errors import DataError

KEY = "sk-canary-0123456789"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def waited(monkeypatch) -> list[float]:
    """The seconds between tries, by the openai package and by us, without waiting."""
    seconds: list[float] = []

    async def sleep(delay: float) -> None:
        seconds.append(delay)

    monkeypatch.setattr(anyio, "sleep", sleep)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    return seconds


def llm(chat: ChatServer, **options) -> HttpLlm:
    """The endpoint as a language model."""
    return HttpLlm(**{"url": chat.url, "model": "m", **options})


def after(*failures: Reply) -> Callable[[str, int], Reply]:
    """These replies first, then an answer."""
    return lambda prompt, tries: failures[tries] if tries < len(failures) else Reply(f"1. re {prompt}")


def test_one_request_holds_the_prompt_and_the_options_and_gives_the_answer():
    with serving(after()) as chat:
        one = llm(chat, key=KEY, max_new_tokens=7, temperature=0.5, seed=3)
        assert one.ask(["p é"]) == [Answer("1. re p é")]
    (body,) = chat.bodies
    assert body == {
        "path": "/v1/chat/completions",
        "model": "m",
        "messages": [{"role": "user", "content": "p é"}],
        "max_tokens": 7,
        "temperature": 0.5,
        "seed": 3,
    }
    (headers,) = chat.headers
    assert {name: value for name, value in headers.items() if name not in ("Host", "Content-Length")} == {
        "Authorization": f"Bearer {KEY}",
        "Content-Type": "application/json",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "User-Agent": "embedrun",
    }


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
        llm(chat, url=f"{chat.url}/chat/completions/", max_new_tokens=None, temperature=None).ask(["p"])
    assert set(chat.bodies[0]) == {"path", "model", "messages"}
    assert chat.bodies[0]["path"] == "/v1/chat/completions"
    assert "Authorization" not in chat.headers[0]


@pytest.mark.parametrize("key", [None, KEY])
def test_what_the_package_reads_from_the_environment_changes_no_request(monkeypatch, key):
    with serving(after()) as other, serving(after()) as chat:
        one = llm(chat, key=key)
        one.ask(["p"])
        for name, value in {
            "OPENAI_BASE_URL": other.url,
            "OPENAI_API_KEY": "sk-of-somebody",
            "OPENAI_ADMIN_KEY": "sk-of-somebody",
            "OPENAI_ORG_ID": "org",
            "OPENAI_PROJECT_ID": "project",
            "OPENAI_CUSTOM_HEADERS": "Authorization: Bearer x\nHost: elsewhere\nX-More: 1",
            "OPENAI_API_TYPE": "azure",
            "AZURE_OPENAI_ENDPOINT": other.url,
        }.items():
            monkeypatch.setenv(name, value)
        one.ask(["p"])
        assert other.bodies == []
    assert chat.headers[0] == chat.headers[1]
    assert chat.bodies[0] == chat.bodies[1]


def test_a_request_goes_through_the_proxy_that_the_environment_names(monkeypatch):
    with serving(after()) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.removeprefix("http://").removesuffix("/v1"))
        one = HttpLlm(url="http://llm.invalid/v1", model="m")
        assert one.ask(["p"]) == [Answer("1. re p")]
        assert proxy.bodies[0]["path"] == "http://llm.invalid/v1/chat/completions"
        monkeypatch.setenv("no_proxy", "llm.invalid")
        with pytest.raises(DataError, match="no connection"):
            HttpLlm(url="http://llm.invalid/v1", model="m", retries=0).ask(["p"])


@pytest.mark.parametrize("proxy", ["socks5://me:secret@127.0.0.1:1", "ftp://me:secret@127.0.0.1:1"])
def test_a_proxy_of_another_kind_is_refused_without_showing_its_password(monkeypatch, proxy):
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(DataError, match="check the url, and the proxy that the environment names") as caught:
        HttpLlm(url="http://llm.invalid/v1", model="m").ask(["p"])
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "failure",
    [
        Reply(status=408),
        Reply(status=409),
        Reply(status=429),
        Reply(status=500, raw=b"oops"),
        Reply(status=503, raw=b'{"error": {"message": "busy"}}'),
        Reply(drop=0),
        Reply(drop=20),
        Reply(drop=70),
        Reply(raw=b""),
        Reply(raw=b"<html>"),
        Reply(raw=b"[]"),
        Reply(raw=b'{"choices": []}'),
        Reply(raw=b'{"choices": [{"message": {"content": 1}}]}'),
        Reply(raw=b"[" * 100_000),
        Reply(raw=b"HTTP/1.1", headers={"Content-Encoding": "gzip"}),
    ],
    ids=lambda reply: str((reply.raw or reply.status)[:30] if reply.raw else reply.drop or reply.status),
)
def test_a_passing_failure_is_tried_again(failure, waited):
    with serving(after(failure, failure)) as chat:
        assert llm(chat).ask(["p"]) == [Answer("1. re p")]
    assert chat.asked["p"] == 3
    assert 0 < waited[0] < waited[1]


@pytest.mark.parametrize("asked", ["20", "120"])
def test_retry_after_is_waited_out_up_to_two_minutes(waited, asked):
    told: list[str] = []
    with serving(after(Reply(status=429, headers={"Retry-After": asked}))) as chat:
        assert llm(chat, tell=told.append).ask(["p"]) == [Answer("1. re p")]
    assert waited == [float(asked)]
    assert told == ["HTTP 429 at try 1"]


@pytest.mark.parametrize("asked", ["soon", "-5", "nan", "inf"])
def test_a_retry_after_that_says_no_time_changes_no_wait(waited, asked):
    with serving(after(Reply(status=429, headers={"Retry-After": asked}))) as chat:
        assert llm(chat).ask(["p"]) == [Answer("1. re p")]
    (seconds,) = waited
    assert 0 < seconds <= 1


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("121", "2 min 1 s"),
        ("3600", "1 h 0 min"),
        ("9" * 400, "11,574 days 1 h"),  # of its first nine digits
        ("Wed, 01 May 2999 12:00:30 GMT", "until Wed, 01 May 2999 12:00:30 GMT"),
    ],
)
def test_an_endpoint_that_asks_for_a_longer_wait_is_left_for_later(waited, asked, said):
    with (
        serving(after(Reply(status=429, headers={"Retry-After": asked}))) as chat,
        pytest.raises(DataError, match=rf"asks to wait {said}\. Run the same command later to resume"),
    ):
        llm(chat).ask(["p"])
    assert waited == []
    assert chat.asked["p"] == 1


def test_after_the_last_try_it_gives_up_and_says_why(waited):
    with serving(lambda prompt, tries: Reply(status=500, raw=b'{"error": "no\x1b[2J luck"}')) as chat:
        told: list[str] = []
        with pytest.raises(DataError) as caught:
            llm(chat, retries=2, tell=told.append).ask(["p"])
    assert chat.asked["p"] == 3
    assert len(waited) == 2
    assert told == [f"HTTP 500 at try {number}" for number in (1, 2, 3)]
    (problem,) = caught.value.problems
    assert f"llm 'm' at {chat.url}/chat/completions: gave up after 3 tries: HTTP 500" in problem
    assert "\x1b" not in problem
    assert "Run the same command later to resume" in problem


@pytest.mark.parametrize(
    ("status", "step"),
    [(400, "the model and its options"), (401, "key_variable"), (404, "check url and model")],
)
def test_a_refusal_that_cannot_pass_is_not_tried_again(waited, status, step):
    said = Reply(status=status, raw=b'{"error": {"message": "because"}}')
    with serving(after(said)) as chat, pytest.raises(DataError, match=f"HTTP {status} because; .*{step}"):
        llm(chat).ask(["p"])
    assert (chat.asked["p"], waited) == (1, [])


@pytest.mark.parametrize(
    "raw", [b"", b"null", b"[]", b"{}", b'{"error": null}', b'{"error": {"message": 7}}']
)
def test_a_refusal_without_words_of_its_own_shows_those_of_its_status(raw):
    said = r"HTTP 404 (Not Found|7); check url and model"
    with serving(after(Reply(status=404, raw=raw))) as chat, pytest.raises(DataError, match=said):
        llm(chat).ask(["p"])


@pytest.mark.parametrize("code", ["content_filter", "context_length_exceeded"])
def test_a_prompt_that_is_refused_for_what_it_says_is_an_answer(code):
    raw = f'{{"error": {{"message": "no", "code": "{code}"}}}}'.encode()
    with serving(after(Reply(status=400, raw=raw))) as chat:
        assert llm(chat).ask(["p"]) == [Answer("", refused=f"the endpoint's {code}")]


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
        assert llm(chat).ask(["p"]) == [answer]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_with_the_key(status):
    with serving(after()) as other:
        moved = Reply(status=status, headers={"Location": f"{other.url}/chat/completions"})
        with serving(lambda prompt, tries: moved) as chat, pytest.raises(DataError, match="a redirect; give"):
            llm(chat, key=KEY).ask(["p"])
        assert other.bodies == []
        assert chat.asked["p"] == 1


@pytest.mark.parametrize("status", [200, 401, 500])
@pytest.mark.usefixtures("waited")
def test_an_endpoint_that_repeats_the_key_does_not_get_it_shown(status, caplog):
    caplog.set_level(logging.DEBUG)
    told: list[str] = []
    said = Reply(f"1. {KEY}", status=status, raw=None if status == 200 else f"bad {KEY}".encode())
    with serving(lambda prompt, tries: said) as chat:
        one = llm(chat, key=KEY, retries=1, tell=told.append)
        if status == 200:
            assert one.ask(["p"]) == [Answer("1. ***")]
        else:
            with pytest.raises(DataError, match=r"bad \*\*\*") as caught:
                one.ask(["p"])
            assert KEY not in str(caught.value) + "".join(told)
    assert KEY not in str(one.settings) + repr(one)
    assert "openai" in {record.name.partition(".")[0] for record in caplog.records}
    assert KEY not in caplog.text


def test_silence_ends_with_the_timeout():
    quiet = socket.create_server(("127.0.0.1", 0))
    with quiet:
        one = HttpLlm(url=f"http://127.0.0.1:{quiet.getsockname()[1]}/v1", model="m", retries=0, timeout=0.05)
        with pytest.raises(DataError, match=r"gave up after one try: no answer in 0\.05 s"):
            one.ask(["p"])


@pytest.mark.parametrize("begun", [0, 60], ids=["headers", "body"])
def test_an_endpoint_that_sends_a_byte_now_and_then_ends_with_the_timeout(begun):
    with serving(lambda prompt, tries: Reply("1. a", drip=begun)) as chat:  # over 3 s
        start = time.monotonic()
        with pytest.raises(DataError, match=r"gave up after one try: no answer in 0\.5 s"):
            llm(chat, retries=0, timeout=0.5).ask(["p"])
        assert 0.5 <= time.monotonic() - start < 3


def test_nobody_there_is_a_passing_failure(waited):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(DataError, match="gave up after 4 tries: no connection"):
        HttpLlm(url=f"http://127.0.0.1:{port}/v1", model="m", retries=3).ask(["p"])
    assert len(waited) == 3


def test_a_certificate_that_is_not_trusted_is_not_tried_again(monkeypatch, waited):
    async def refused(self, request):
        raise httpx2.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed") from ssl.SSLError()

    monkeypatch.setattr(httpx2.AsyncHTTPTransport, "handle_async_request", refused)
    with pytest.raises(DataError, match=r"its certificate is not trusted here \(.*self-signed"):
        HttpLlm(url="https://127.0.0.1/v1", model="m").ask(["p"])
    assert waited == []


def test_stopping_ends_the_waiting_and_the_trying():
    with serving(lambda prompt, tries: Reply(status=429, headers={"Retry-After": "100"})) as chat:
        waiting = threading.Event()
        one = llm(chat, retries=50, tell=lambda line: waiting.set())
        ended: list[DataError] = []

        def work() -> None:
            try:
                one.ask(["p"])
            except DataError as fault:
                ended.append(fault)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        assert waiting.wait(5)
        one.stop()
        thread.join(5)
    assert len(ended) == 1
    assert "gave up after one try" in str(ended[0])
    assert chat.asked["p"] == 1


def test_stopping_waits_for_the_answer_that_is_under_way():
    with serving(lambda prompt, tries: Reply("1. a", drip=105)) as chat:  # over 1 s
        one = llm(chat)
        threading.Timer(0.2, one.stop).start()
        start = time.monotonic()
        assert one.ask(["p"]) == [Answer("1. a")]
        assert time.monotonic() - start > 0.7  # one look at least found it stopped


def test_the_waits_between_tries_double_up_to_eight_seconds_less_a_quarter_at_most(waited):
    with serving(after(*[Reply(status=503)] * 7)) as chat:
        llm(chat, retries=7).ask(["p"])
    for seconds, whole in zip(waited, [0.5, 1, 2, 4, 8, 8, 8], strict=True):
        assert whole * 0.75 <= seconds <= whole


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_these_statuses_pass(status):
    assert passes(status)


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 413, 422, 425])
def test_these_do_not(status):
    assert not passes(status)


def test_a_response_that_never_ends_is_read_up_to_a_limit(monkeypatch, waited):
    monkeypatch.setattr(http, "_LONGEST_BODY", 1000)
    ends = json.dumps({"choices": [{"message": {"content": "a" * 2000}}]}).encode()
    with serving(after(Reply(raw=ends, drip=1500))) as chat:  # the rest takes 25 s and more
        start = time.monotonic()
        assert llm(chat).ask(["p"]) == [Answer("1. re p")]
        assert time.monotonic() - start < 10
    assert chat.asked["p"] == 2
