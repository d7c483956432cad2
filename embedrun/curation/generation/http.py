"""A language model behind an OpenAI-compatible server, asked through the openai package."""

import asyncio
import contextlib
import json
import ssl
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import httpx2
import openai

from embedrun.console import clean, duration, size
from embedrun.curation.generation.llm import Answer
from embedrun.errors import DataError

_LOOK = 0.5  # seconds between two looks at whether to stop
_PATH = "/chat/completions"
_LONGEST_BODY = 16 << 20  # bytes
_PASSING = (408, 409, 429)  # request timeout, conflict, too many requests
# Error codes by which an endpoint refuses one prompt and no other.
_REFUSALS = ("content_filter", "content_policy_violation", "context_length_exceeded")
_NEXT_STEPS = {
    401: "check the key in the variable that key_variable names",
    403: "check what the key may be used for",
    404: "check url and model",
}


def passes(status: int) -> bool:
    """Whether an HTTP status is transient, as the openai package has it."""
    return status in _PASSING or status >= 500


class HttpLlm:
    """Asks an endpoint; a request that fails transiently is retried by the openai package.

    Retried are the statuses 408, 409, 429 and 5xx, a connection that cannot be made or drops, a try that
    takes too long, and a body that is no chat completion; not if the endpoint asks to wait over two minutes.
    Redirects are not followed, because the key would go to the other host. Of the environment, only the
    variables of proxies and certificates count.

    Args:
        url: above `/chat/completions`; passes `url_problem`.
        key: sent as a bearer token and written nowhere; None sends none. Passes `key_problem`.
        max_new_tokens: of an answer; None leaves it, as `temperature` and `seed`, to the endpoint.
        timeout: seconds that one try may take, from the connection to the last byte.
        tell: gets a line for each try that failed transiently.
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
    ) -> None:
        self._base, self._key = url.rstrip("/").removesuffix(_PATH), key
        self._options = {"max_tokens": max_new_tokens, "temperature": temperature, "seed": seed}
        self._retries, self._timeout, self._tell = retries, timeout, tell
        self._stopped = threading.Event()
        self._trusted = ssl.create_default_context()  # read once: every prompt has a client of its own
        self.label, self.parallel = model, parallel
        # Without the address: the same model may be served elsewhere tomorrow.
        self.settings = {"kind": "http", "model": model, **self._options}

    def ask(self, prompts: Sequence[str]) -> list[Answer]:
        """The answers, one request after the other.

        Raises:
            DataError: if the endpoint refuses, or the last try has failed too.
        """
        return [asyncio.run(self._answer(prompt)) for prompt in prompts]

    def stop(self) -> None:
        """Retry nothing any more."""
        self._stopped.set()

    def close(self) -> None:
        """Nothing to free: no connection is kept."""

    async def _answer(self, prompt: str) -> Answer:
        try:
            http = _Http(self._key, self._timeout, self._tell, self._trusted)
            # What is None here is taken from variables such as OPENAI_BASE_URL.
            client = openai.AsyncOpenAI(
                api_key="in the headers of each try",
                base_url=self._base,
                timeout=self._timeout,
                max_retries=self._retries,
                http_client=http,
            )
        except (ImportError, ValueError, httpx2.InvalidURL) as fault:
            # Not its text, which may show the password of a proxy.
            self._fail(f"check the url, and the proxy that the environment names ({type(fault).__name__})")
        async with client:
            task = asyncio.create_task(self._ask(client, http, prompt))
            while not task.done():
                await asyncio.wait([task], timeout=_LOOK)
                if self._stopped.is_set() and not http.asking:
                    task.cancel()  # it waits for its next try
            if task.cancelled():
                self._give_up(http, "it was stopped")
            return task.result()

    async def _ask(self, client: openai.AsyncOpenAI, http: "_Http", prompt: str) -> Answer:
        options = {name: value for name, value in self._options.items() if value is not None}
        try:
            response = await client.chat.completions.with_raw_response.create(
                model=self.label, messages=[{"role": "user", "content": prompt}], extra_body=options
            )
        except openai.APIStatusError as fault:
            return self._refusal(fault, http)
        except openai.APIConnectionError as fault:
            self._give_up(http, self._safe(str(fault.__cause__)))
        except (openai.OpenAIError, UnicodeError) as fault:
            self._fail(self._safe(str(fault)))
        answer = _read(response.content)
        return replace(answer, text=self._without_key(answer.text))

    def _refusal(self, fault: openai.APIStatusError, http: "_Http") -> Answer:
        """The refused answer that an HTTP status other than 200 stands for.

        Raises:
            DataError: if the status says nothing about the prompt.
        """
        status, body = fault.status_code, fault.body  # what stands under `error`, if anything does
        if 300 <= status < 400:
            self._fail(f"HTTP {status}, a redirect; give the address that it leads to as url")
        message = body.get("message") if isinstance(body, dict) else body
        reason = self._safe(f"HTTP {status} {message or fault.response.reason_phrase}")
        if passes(status):
            self._give_up(http, reason + self._safe(_wait(fault.response.headers.get("Retry-After", ""))))
        if fault.code in _REFUSALS:
            return Answer("", refused=f"the endpoint's {fault.code}")
        self._fail(f"{reason}; {_NEXT_STEPS.get(status, 'check the url, the model and its options')}")

    def _give_up(self, http: "_Http", reason: str) -> NoReturn:
        tries = "one try" if http.tries == 1 else f"{http.tries} tries"
        resume = "Run the same command later to resume: the answers so far are kept"
        self._fail(f"gave up after {tries}: {reason}. {resume}")

    def _fail(self, reason: str) -> NoReturn:
        raise DataError(f"llm {self.label!r} at {self._base}{_PATH}: {reason}") from None

    def _without_key(self, text: str) -> str:
        """A text of the endpoint with the key, which it may repeat, removed."""
        return text.replace(self._key, "***") if self._key else text

    def _safe(self, text: str) -> str:
        """A text of the endpoint, as one short line of a message."""
        text = clean(" ".join(self._without_key(text).split()))
        return text if len(text) <= 300 else text[:300] + "..."


class _Http(httpx2.AsyncClient):
    """What the openai package sends the tries of one prompt with.

    A try ends within `seconds`: the package limits each read, so that an endpoint which sends a byte now and
    then would never end.
    """

    def __init__(
        self, key: str | None, seconds: float, tell: Callable[[str], None], trusted: ssl.SSLContext
    ) -> None:
        super().__init__(verify=trusted, follow_redirects=False)
        # These and no others: the package would describe this machine, and add OPENAI_CUSTOM_HEADERS.
        self._sent = {"Content-Type": "application/json", "Accept": "application/json"}
        self._sent |= {"Accept-Encoding": "identity", "User-Agent": "embedrun"}
        if key is not None:
            self._sent["Authorization"] = f"Bearer {key}"
        self._seconds, self._tell = seconds, tell
        self.tries = 0
        self.asking = False  # else it waits for the next try

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """One try.

        Raises:
            httpx2.RequestError: if another try may succeed.
            openai.OpenAIError: if the certificate is not trusted, which is not retried.
        """
        self.tries += 1
        self.asking = True
        more = {"content": request.content, "extensions": request.extensions}
        plain = httpx2.Request(request.method, request.url, headers=self._sent, **more)
        try:
            async with asyncio.timeout(self._seconds):
                response = await self._whole(await super().send(plain, stream=True))
            if response.is_success:
                _read(response.content)
        except (httpx2.RequestError, OSError) as fault:
            reason = self._reason(fault)
            self._tell(f"{reason} at try {self.tries}")
            raise httpx2.RequestError(reason, request=request) from None
        finally:
            self.asking = False
        if passes(response.status_code):
            self._tell(f"HTTP {response.status_code} at try {self.tries}")
        response.request = request  # whose headers tell the package that we want it unparsed
        return response

    async def _whole(self, response: httpx2.Response) -> httpx2.Response:
        """The response with its body, of which no more is held than an answer needs."""
        body = bytearray()
        async with contextlib.aclosing(response):
            async for part in response.aiter_bytes():
                body += part
                if len(body) > _LONGEST_BODY:
                    raise httpx2.DecodingError(f"the response is over {size(_LONGEST_BODY)}")
        headers = {name: value for name, value in response.headers.items() if name == "retry-after"}
        return httpx2.Response(response.status_code, headers=headers, content=bytes(body))

    def _reason(self, fault: Exception) -> str:
        if "CERTIFICATE_VERIFY_FAILED" in str(fault):
            raise openai.OpenAIError(f"its certificate is not trusted here ({fault})")
        if isinstance(fault, TimeoutError | httpx2.TimeoutException):
            return f"no answer in {self._seconds:g} s"
        if isinstance(fault, httpx2.DecodingError):
            return str(fault)
        what = "no connection" if isinstance(fault, httpx2.ConnectError) else "the connection broke"
        return f"{what} ({str(fault) or type(fault).__name__})"


def _wait(header: str) -> str:
    """What a Retry-After header asks for, in words: it has seconds, or a date."""
    asked = duration(float(header[:9])) if header.isdecimal() else f"until {header}"
    return f"; it asks to wait {asked}" if header else ""


def _read(raw: bytes) -> Answer:
    """The answer in the body of a response.

    Raises:
        httpx2.DecodingError: if it is no chat completion.
    """
    try:
        choice = json.loads(raw)["choices"][0]
        text, reason = choice["message"]["content"], choice.get("finish_reason")
        if text is not None and not isinstance(text, str):
            raise TypeError("its content is not text")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as fault:
        kind = type(fault).__name__
        raise httpx2.DecodingError(f"the response is not a chat completion ({kind})") from None
    refused = "the endpoint's content_filter" if reason == "content_filter" else None
    return Answer(text or "", cut=reason == "length", refused=refused)
