"""Requests to one GitHub server: quotas, retries, moves, and a token that goes nowhere else."""

import http.client
import json
import ssl
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

from embedrun.dataset.collection.limits import back_off, is_rate_limit, until_allowed, until_quota
from embedrun.errors import DataError

_AGAIN = "; what was fetched is kept, and the same command goes on from here"
_ANSWERS = (200, 304, 404, 410, 451)  # what the caller gets to see
_MOVED = (301, 302, 307, 308)
_MOST_MOVES = 5
_MOST_REFUSALS = 10  # of one request for the rate, in a row
_LONGEST_WAIT = 2 * 3600.0  # seconds; GitHub's quota is filled every hour
_LARGEST = 64 << 20  # bytes of one answer
_DROPPED = (OSError, http.client.HTTPException)  # a URLError, a timeout and a fault of TLS are OSErrors
_HEADERS = {
    "Accept": "application/vnd.github+json",
    "Accept-Encoding": "gzip",
    "X-GitHub-Api-Version": "2022-11-28",
    "User-Agent": "embedrun",
}


@dataclass(frozen=True)
class Answer:
    """An answer of the server.

    Args:
        status: of HTTP: 200, 304, 404, 410 or 451.
        headers: names in lower case.
        items: the JSON of a 200, else None.
    """

    status: int
    headers: dict[str, str]
    items: Any


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Redirects come back as answers: urllib would send the token along to any host."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class Server:
    """One GitHub server, asked one request at a time, as its documentation wants it.

    Args:
        api: root of the REST API, ``https://api.github.com``.
        token: sent to this server alone and written nowhere; None asks without one.
        timeout: seconds until a silent connection counts as dropped.
        retries: of one request after 5xx answers and dropped connections, before it is given up.
        sleep: waits so many seconds; None for `time.sleep`.
        notice: told of a wait for the rate limit, in seconds.
    """

    def __init__(
        self,
        *,
        api: str,
        token: str | None,
        timeout: float,
        retries: int,
        sleep: Callable[[float], None] | None = None,
        notice: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        self.api = api.rstrip("/")
        self.requests = 0  # sent by this process
        self._token = token
        self._timeout = timeout
        self._retries = retries
        self._sleep = sleep or time.sleep
        self._notice = notice
        self._pause = 0.0  # seconds to wait before the next request
        self._opener = urllib.request.build_opener(_NoRedirect)

    def own(self, target: str, source: str) -> str:
        """The URL `target`, if it is on this server.

        Raises:
            DataError: if it is on another, naming the page `source` that leads there.
        """
        if urlsplit(target)[:2] != urlsplit(self.api)[:2]:
            raise DataError(f"{source}: leads to another server, {target}; the token is for {self.api} alone")
        return target

    def ask(self, url: str, etag: str | None = None) -> Answer:
        """The answer, after every wait, retry and move.

        Args:
            url: on this server.
            etag: of a kept answer; if it still holds, the status is 304.

        Raises:
            DataError: if the server refuses for good, or cannot be reached after all retries.
        """
        place, failures, refusals, moves = url, 0, 0, 0
        while True:
            try:
                status, headers, body = self._send(place, etag)
                if status in _ANSWERS:
                    return Answer(status, headers, _parsed(body) if status == 200 else None)
            except _DROPPED as fault:
                self._fail(url, failures, _reason(fault), fault)
                failures += 1
                continue
            said = _message(body)
            if status in _MOVED and moves < _MOST_MOVES and "location" in headers:
                place, moves = self.own(urljoin(place, headers["location"]), url), moves + 1
            elif is_rate_limit(status, headers, said):
                if refusals >= _MOST_REFUSALS:
                    raise DataError(f"{url}: refused {refusals} times for the request rate{_AGAIN}")
                self._pause = until_allowed(headers, refusals, time.time())
                refusals += 1
            elif status >= 500:
                self._fail(url, failures, f"HTTP status {status}", None)
                failures += 1
            else:
                raise DataError(_refusal(url, status, said))

    def _fail(self, url: str, failures: int, reason: str, fault: BaseException | None) -> None:
        """Wait before the next attempt, or give up."""
        if failures >= self._retries or isinstance(
            getattr(fault, "reason", None), ssl.SSLCertVerificationError
        ):
            times = "once" if failures == 0 else f"{failures + 1} times in a row"
            raise DataError(f"{url}: {reason}, {times}{_AGAIN}") from fault
        self._sleep(back_off(url, failures))

    def _send(self, url: str, etag: str | None) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of one request, made no sooner than the last answer allows."""
        self._wait(url)
        headers = dict(_HEADERS)
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        if etag is not None:
            headers["If-None-Match"] = etag
        self.requests += 1
        try:
            reply = self._opener.open(urllib.request.Request(url, headers=headers), timeout=self._timeout)
        except urllib.error.HTTPError as fault:  # every status from 300 on
            reply = fault
        with reply:
            got = {str(name).lower(): str(value) for name, value in reply.headers.items()}
            body = _whole(reply.read(_LARGEST + 1), got, url)
        status = reply.status or 0
        if status in (200, 304):
            self._pause = until_quota(got, time.time()) or 0.0
        return status, got, body

    def _wait(self, url: str) -> None:
        if self._pause > _LONGEST_WAIT:
            raise DataError(f"{url}: the server asks to wait {self._pause / 3600:.1f} hours{_AGAIN}")
        if self._pause > 0:
            self._notice(self._pause)
            self._sleep(self._pause)
        self._pause = 0.0


def _whole(body: bytes, headers: dict[str, str], url: str) -> bytes:
    """The body unpacked; one that was cut short counts as a dropped connection."""
    expected = headers.get("content-length", "")
    if expected.isdecimal() and len(body) < int(expected) <= _LARGEST:
        raise http.client.IncompleteRead(body, int(expected) - len(body))
    if headers.get("content-encoding", "").lower() == "gzip" and body:
        unpack = zlib.decompressobj(wbits=31)
        try:
            body = unpack.decompress(body, _LARGEST + 1)
        except zlib.error as fault:
            raise http.client.HTTPException(f"a damaged answer, {fault}") from fault
        if not unpack.eof and len(body) <= _LARGEST:
            raise http.client.HTTPException("a packed answer that was cut short")
    if len(body) > _LARGEST:
        raise DataError(f"{url}: over {_LARGEST >> 20} MiB, which no page of issues is")
    return body


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as fault:  # half an answer, or a proxy's own page
        raise http.client.HTTPException("an answer that is not JSON") from fault


def _message(body: bytes) -> str:
    """What the server says of a refusal."""
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""


def _reason(fault: BaseException) -> str:
    inner = getattr(fault, "reason", None) or fault
    return f"no whole answer ({type(inner).__name__}: {inner})"


def _refusal(url: str, status: int, said: str) -> str:
    why = f"HTTP status {status}" + (f" ({said})" if said else "")
    hints = {
        401: "; the token is not valid: make another one, or unset its variable",
        403: "; the token lacks the right to read this",
    }
    return f"{url}: {why}{hints.get(status, '')}{_AGAIN}"
