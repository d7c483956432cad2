"""A language model behind an OpenAI-compatible server, with retries."""

import http.client
import json
import random
import re
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NoReturn

from embedrun.console import clean, duration
from embedrun.curation.generation.llm import Answer
from embedrun.errors import DataError

LONGEST = 60.0  # seconds of our own waiting
LONGEST_TOLD = 900.0  # seconds that an endpoint may ask us to wait; a longer wait ends the command
# Request timeout, conflict, too early, too many requests; and what a server or a proxy gets wrong.
_PASSING = (408, 409, 425, 429)


class PassingError(Exception):
    """A transient failure: another attempt may succeed.

    `wait` is how many seconds the endpoint asks to wait.
    """

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


def passes(status: int) -> bool:
    """Whether an HTTP status is transient."""
    return status in _PASSING or status >= 500


def told(header: str | None, now: datetime | None = None) -> float | None:
    """Seconds that a Retry-After header asks to wait: a number, or a date; None if it says neither.

    A date is compared with `now`, by default the clock's time.
    """
    text = (header or "").strip()
    if re.fullmatch(r"\d{1,9}(\.\d*)?", text, re.ASCII):
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (date - (now or datetime.now(UTC))).total_seconds())


def delay(attempt: int, wait: float | None, source: random.Random) -> float:
    """Seconds before the next attempt, after `attempt` + 1 that failed.

    If the endpoint asks for no `wait`: 1, 2, 4, ... seconds, at most `LONGEST`, times a random factor from
    0.5 to 1; else `wait` times a factor from 1 to 1.1, so that requests refused together do not come back
    together.
    """
    if wait is not None:
        return wait * source.uniform(1.0, 1.1)
    return min(LONGEST, 2.0 ** min(attempt, 30)) * source.uniform(0.5, 1.0)


_PATH = "/chat/completions"
_LONGEST_BODY = 16 << 20  # bytes
# Error codes by which an endpoint refuses one prompt and no other.
_REFUSALS = ("content_filter", "content_policy_violation", "context_length_exceeded")
_RESUME = "Run the same command later to resume: the answers so far are kept"


class HttpLlm:
    """Asks an endpoint; a request that fails transiently is retried.

    Retried are the statuses 408, 409, 425, 429 and 5xx, a connection that cannot be made or drops, silence,
    and a body that is no chat completion. Redirects are not followed, because the key would go to the other
    host.

    Args:
        url: above `/chat/completions`; passes `url_problem`.
        model: what the endpoint calls it.
        key: sent as a bearer token and written nowhere; None sends none. Passes `key_problem`.
        max_new_tokens: of an answer; None leaves it to the endpoint.
        temperature: None leaves it to the endpoint.
        seed: sent with each request; None sends none.
        parallel: requests at a time.
        retries: further attempts of a request.
        timeout: seconds without a response from the endpoint.
        tell: gets a line for each failure that is retried.
        pause: takes seconds to wait; by default interruptible by `stop`.
    """

    together = 1

    def __init__(
        self,
        *,
        url: str,
        model: str,
        key: str | None = None,
        max_new_tokens: int | None = 512,
        temperature: float | None = 0.0,
        seed: int | None = None,
        parallel: int = 4,
        retries: int = 6,
        timeout: float = 120.0,
        tell: Callable[[str], None] = lambda line: None,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        self._url, self._key = url.rstrip("/").removesuffix(_PATH) + _PATH, key
        self._options = {"max_tokens": max_new_tokens, "temperature": temperature, "seed": seed}
        self._retries, self._timeout, self._tell = retries, timeout, tell
        self._stopped = threading.Event()
        self._pause = pause or self._stopped.wait
        self._opener = urllib.request.build_opener(_NoRedirect)
        self.label, self.parallel = model, parallel
        # Without the address: the same model may be served elsewhere tomorrow.
        self.settings = {"kind": "http", "model": model, **self._options}

    def ask(self, prompts: Sequence[str]) -> list[Answer]:
        """The answers, one request after the other.

        Raises:
            DataError: if the endpoint refuses, or the last attempt has failed too.
        """
        return [self._answer(prompt) for prompt in prompts]

    def stop(self) -> None:
        """Retry nothing any more."""
        self._stopped.set()

    def close(self) -> None:
        """Nothing to free: no connection is kept."""

    def _answer(self, prompt: str) -> Answer:
        source = random.Random(prompt)  # the waiting of a request is the same in every run
        attempt = 0
        while True:
            try:
                return self._request(prompt)
            except PassingError as fault:
                reason, wait = str(fault), delay(attempt, fault.wait, source)
            if wait > LONGEST_TOLD:
                self._fail(f"{reason}; it asks to wait {duration(wait)}. {_RESUME}")
            attempt += 1
            if attempt <= self._retries and not self._stopped.is_set():
                self._tell(f"{reason}; next try in {duration(wait)}")
                self._pause(wait)
            if attempt > self._retries or self._stopped.is_set():
                tries = f"{attempt} tries" if attempt > 1 else "one try"
                self._fail(f"gave up after {tries}: {reason}. {_RESUME}")

    def _request(self, prompt: str) -> Answer:
        options = {name: value for name, value in self._options.items() if value is not None}
        body = {"model": self.label, "messages": [{"role": "user", "content": prompt}], **options}
        headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "embedrun"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        request = urllib.request.Request(self._url, json.dumps(body).encode(), headers, method="POST")
        try:
            with self._opener.open(request, timeout=self._timeout) as response:
                return self._read(response.read(_LONGEST_BODY))
        except urllib.error.HTTPError as fault:
            with fault:
                return self._refusal(fault)
        except urllib.error.URLError as fault:
            if isinstance(fault.reason, ssl.SSLCertVerificationError):
                self._fail(f"its certificate is not trusted here ({fault.reason.verify_message})")
            raise PassingError(self._safe(f"no connection ({fault.reason})")) from None
        except TimeoutError:
            raise PassingError(f"no answer in {self._timeout:g} s") from None
        except (OSError, http.client.HTTPException) as fault:
            raise PassingError(self._safe(f"the connection broke ({type(fault).__name__})")) from None

    def _refusal(self, fault: urllib.error.HTTPError) -> Answer:
        """The refused answer that an HTTP status other than 200 stands for.

        Raises:
            PassingError: if another attempt may succeed.
            DataError: if none will.
        """
        try:
            raw = fault.read(_LONGEST_BODY).decode("utf-8", "replace")
        except (OSError, http.client.HTTPException):
            raw = ""
        message, code = _error(raw)
        reason = self._safe(f"HTTP {fault.code} {message or fault.reason}")
        if passes(fault.code):
            raise PassingError(reason, told(fault.headers.get("Retry-After")))
        if code in _REFUSALS:
            return Answer("", refused=f"the endpoint's {code}")
        next_step = {
            401: "check the key in the variable that key_variable names",
            403: "check what the key may be used for",
            404: "check url and model",
        }.get(fault.code, "check the url, the model and its options")
        if 300 <= fault.code < 400:
            reason, next_step = f"HTTP {fault.code}, a redirect", "give the address that it leads to as url"
        self._fail(f"{reason}; {next_step}")

    def _fail(self, reason: str) -> NoReturn:
        raise DataError(f"llm {self.label!r} at {self._url}: {reason}") from None

    def _read(self, raw: bytes) -> Answer:
        """The answer in the body of a response; PassingError if it is no chat completion."""
        try:
            choice = json.loads(raw)["choices"][0]
            text, reason = choice["message"]["content"], choice.get("finish_reason")
            if text is not None and not isinstance(text, str):
                raise TypeError("its content is not text")
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as fault:
            raise PassingError(f"the response is not a chat completion ({type(fault).__name__})") from None
        refused = "the endpoint's content_filter" if reason == "content_filter" else None
        return Answer(self._without_key(text or ""), cut=reason == "length", refused=refused)

    def _without_key(self, text: str) -> str:
        """A text of the endpoint with the key, which it may repeat, removed."""
        return text.replace(self._key, "***") if self._key else text

    def _safe(self, text: str) -> str:
        """A text of the endpoint, as one short line of a message."""
        text = clean(" ".join(self._without_key(text).split()))
        return text if len(text) <= 300 else text[:300] + "..."


def _error(raw: str) -> tuple[str, str | None]:
    """Message and code of an error body, as OpenAI and compatible servers write it."""
    try:
        error = json.loads(raw)
    except (ValueError, RecursionError):
        return raw, None
    error = error.get("error", error) if isinstance(error, dict) else error
    if not isinstance(error, dict):
        return str(error), None
    return str(error.get("message", "")), str(error.get("code"))


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: object, fp: object, code: object, msg: object, headers: object, newurl: object
    ) -> None:
        """Follow none; the status comes back as an HTTPError."""
