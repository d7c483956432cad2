"""One GitHub server: rate limits and retries for httpx2, below the cache of answers, which is hishel's."""

import contextlib
import errno
import gzip
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import httpx2
from hishel import CacheOptions, Entry, Request, Response, SqliteStorage
from hishel.httpx2 import CacheTransport

from embedrun.console import duration, size
from embedrun.errors import ConfigError, DataError
from embedrun.files import Plain
from embedrun.patience import within

_SECONDARY = 60.0  # seconds; what GitHub's documentation asks for where no header names a time
_LONGEST_BACK_OFF = 60.0  # seconds; 1, 2, 4 and so on before


def is_rate_limit(status: int, headers: Mapping[str, str], body: str) -> bool:
    """Whether a refusal is a rate limit, and so temporary: a 403 may be either."""
    if status == 429:
        return True
    limited = "retry-after" in headers or headers.get("x-ratelimit-remaining") == "0"
    return status == 403 and (limited or "rate limit" in body.lower() or "abuse" in body.lower())


def until_allowed(headers: Mapping[str, str], attempt: int, now: float) -> float:
    """Seconds to wait after a refusal by the rate limit; `now` is local time in seconds since 1970.

    `Retry-After` counts first, then the reset of the hourly quota; without either it is the platform's
    secondary limit, a minute at first and twice as long each time, by `attempt`, from 0.
    """
    asked = _seconds(headers.get("retry-after"))
    if asked is None:
        asked = until_quota(headers, now)
    return _SECONDARY * 2**attempt if asked is None else max(asked, 1.0)


def until_quota(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds until the quota is filled again, where an answer says that it is used up; else None.

    The time of the reset is on the platform's clock, so it is compared with the `Date` of the same answer.
    """
    reset = _seconds(headers.get("x-ratelimit-reset"))
    if headers.get("x-ratelimit-remaining") != "0" or reset is None:
        return None
    return max(reset - _date(headers, now), 0.0) + 1.0  # both are cut to whole seconds


def _seconds(text: str | None) -> float | None:
    if text is None or not (text := text.strip()).isdecimal():
        return None
    return float(text[:_DIGITS])  # any longer one is a wait that nobody takes


def _date(headers: Mapping[str, str], now: float) -> float:
    try:
        return parsedate_to_datetime(headers["date"]).timestamp()
    except (KeyError, ValueError, TypeError, OverflowError):
        return now


_DIGITS = 12  # of a number of seconds; those of the year 30,000 have as many
_AGAIN = "; what was fetched is kept: run the same command to resume"
_ANSWERS = (200, 304, 404, 410, 451)  # what the cache gets to see
_HINTS = {
    401: "; the token is not valid: make another one, or unset its variable",
    403: "; the token lacks the right to read this",
}
_LONGEST_BODY = 64 << 20  # bytes; a page of 100 issues at their longest has a tenth of it
_OF_BODY = ("content-encoding", "content-length", "transfer-encoding")  # of one that is not unpacked yet
_MOST_MOVES = 5
_MOST_REFUSALS = 10  # of one request for the rate, in a row
_LONGEST_WAIT = 2 * 3600.0  # seconds; GitHub's quota is filled every hour
_HEADERS = {
    "Accept": "application/vnd.github+json",
    "Accept-Encoding": "gzip",
    "X-GitHub-Api-Version": "2022-11-28",
    "User-Agent": "embedrun",
}
# GitHub says a minute. Here a page is fresh until the user asks to refresh it, so that an interrupted
# collection goes on with the pages that it has begun with.
_FRESH = f"max-age={100 * 365 * 86400}"  # seconds


class Server(httpx2.BaseTransport):
    """One GitHub server, asked one request at a time, as its documentation wants it.

    It stands below the cache. So the token is in no request that the cache sees, and what the cache sees is
    whole: the JSON of a 200, an empty 304, or the status alone of a 404, 410 or 451.

    Args:
        token: sent to this server alone and written nowhere; None asks without one.
        timeout: seconds that one try of a request may take, from the connection to the last byte.
        retries: of one request after 5xx answers and dropped connections.
        notice: told of a wait for the rate limit, in words.

    Raises:
        ConfigError: if the environment names a proxy or certificates that cannot be used.
    """

    def __init__(
        self,
        *,
        api: str,
        token: str | None,
        timeout: float,
        retries: int,
        sleep: Callable[[float], None] | None = None,
        notice: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.api = api.rstrip("/")
        self.requests = 0  # sent by this process
        self.notice = notice
        self._retries, self._timeout = retries, timeout
        self._sleep = sleep or time.sleep
        self._pause = 0.0  # seconds to wait before the next request
        headers = None if token is None else {"Authorization": f"Bearer {token}"}
        try:
            self._client = httpx2.Client(headers=headers, timeout=timeout)
        except (ImportError, OSError, ValueError, httpx2.InvalidURL) as fault:
            raise ConfigError(
                # Not its text, which may show the password of a proxy.
                "api: no client can be made with the proxies and certificates of the environment "
                f"({type(fault).__name__}); change or unset HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE or "
                "SSL_CERT_DIR"
            ) from fault

    def own(self, link: str, source: str) -> str:
        """The URL behind a link of the page `source`, if it is on this server.

        Raises:
            DataError: if it is on another, or is none.
        """
        try:
            target = httpx2.URL(source).join(link)
        except httpx2.InvalidURL as fault:
            raise DataError(f"{source}: leads to {link!r}, which is no address ({fault})") from fault
        if target.origin != httpx2.URL(self.api).origin or target.userinfo:
            raise DataError(f"{source}: leads to another server, {target}; the token is for {self.api} alone")
        return str(target)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """The answer, after every wait, retry and redirect on this server.

        Raises:
            DataError: if the server refuses for good, or cannot be reached after all retries.
        """
        url, failures, refusals, moves = str(request.url), 0, 0, 0
        asked = self._client.build_request("GET", request.url, headers=request.headers)
        while True:
            try:
                reply = self._send(asked)
                if reply.status_code in _ANSWERS:
                    return _kept(reply)
                fault = f"HTTP status {reply.status_code}"
            except httpx2.RequestError as broken:
                reply, fault = None, f"no whole answer ({type(broken).__name__}: {broken})"
            if reply is None or reply.status_code >= 500:
                if failures >= self._retries or "CERTIFICATE_VERIFY_FAILED" in fault:
                    times = "once" if failures == 0 else f"{failures + 1} times in a row"
                    raise DataError(f"{url}: {fault}, {times}{_AGAIN}")
                self._sleep(min(2.0**failures, _LONGEST_BACK_OFF))
                failures += 1
                continue
            said = _message(reply)
            if reply.next_request is not None and moves < _MOST_MOVES:
                self.own(str(reply.next_request.url), url)
                asked, moves = reply.next_request, moves + 1
            elif is_rate_limit(reply.status_code, reply.headers, said):
                if refusals >= _MOST_REFUSALS:
                    raise DataError(f"{url}: refused {refusals} times by the rate limit{_AGAIN}")
                self._pause = until_allowed(reply.headers, refusals, time.time())
                refusals += 1
            else:
                why = f" ({said})" if said else ""
                raise DataError(f"{url}: {fault}{why}{_HINTS.get(reply.status_code, '')}{_AGAIN}")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _send(self, request: httpx2.Request) -> httpx2.Response:
        """The reply to one request, made no earlier than the last one allows."""
        if self._pause > _LONGEST_WAIT:
            raise DataError(f"{request.url}: the server asks to wait {duration(self._pause)}{_AGAIN}")
        if self._pause > 0:
            self.notice(f"rate limit reached; resuming in {duration(self._pause)}")
            self._sleep(self._pause)
        self._pause = 0.0
        self.requests += 1
        try:
            reply = within(self._timeout, lambda: self._whole(request))
        except TimeoutError as fault:
            raise httpx2.ReadTimeout(str(fault), request=request) from None
        if reply.status_code in (200, 304):
            self._pause = until_quota(reply.headers, time.time()) or 0.0
        return reply

    def _whole(self, request: httpx2.Request) -> httpx2.Response:
        """The reply with its body, unpacked; no more of it is held than a page has."""
        until, body = time.monotonic() + self._timeout, bytearray()
        reply = self._client.send(request, stream=True)
        with contextlib.closing(reply):
            for piece in reply.iter_bytes():
                body += piece
                if len(body) > _LONGEST_BODY:
                    raise httpx2.DecodingError(f"it is over {size(_LONGEST_BODY)}", request=request)
                if time.monotonic() > until:
                    raise httpx2.ReadTimeout("it does not end", request=request)
        headers = [(name, value) for name, value in reply.headers.items() if name not in _OF_BODY]
        whole = httpx2.Response(reply.status_code, headers=headers, content=bytes(body), request=request)
        whole.next_request = reply.next_request
        return whole


def _kept(reply: httpx2.Response) -> httpx2.Response:
    """What the cache gets to see; packed by us, so that a checksum finds what the disk damages."""
    headers = {name: reply.headers[name] for name in ("ETag", "Link") if name in reply.headers}
    headers["Cache-Control"] = _FRESH
    if reply.status_code == 304:
        return httpx2.Response(304, headers=headers)
    if reply.status_code == 200:
        _parsed(reply)  # half an answer or a proxy's own page is none
    headers["Content-Encoding"] = "gzip"
    body = reply.content if reply.status_code == 200 else b"null"
    packed = httpx2.ByteStream(gzip.compress(body, mtime=0))
    return httpx2.Response(reply.status_code, headers=headers, stream=packed)


def _parsed(reply: httpx2.Response) -> Any:
    try:
        return reply.json()
    except (ValueError, RecursionError) as fault:
        raise httpx2.DecodingError("an answer that is not JSON") from fault


def _message(reply: httpx2.Response) -> str:
    """The reason that the server gives for a refusal."""
    try:
        return str(reply.json()["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""


class _Storage(SqliteStorage):
    """Keeps one answer for a key: of two with one time, hishel would take either."""

    def create_entry(self, request: Request, response: Response, key: str, **lifetime: Any) -> Entry:
        self.forget(key)
        return super().create_entry(request, response, key, **lifetime)

    def forget(self, key: str) -> None:
        for entry in self.get_entries(key):
            self.remove_entry(entry.id)


class _Faults(logging.Handler):
    """Raises the faults of the cache: hishel prints their tracebacks and goes on without keeping anything."""

    def emit(self, record: logging.LogRecord) -> None:
        fault = record.exc_info[1] if record.exc_info else None
        if isinstance(fault, sqlite3.Error):
            raise fault


logging.getLogger("hishel").addHandler(_Faults())

FILE = "pages.db"
_PAGE_ITEMS = 100  # the most that GitHub gives
_WINDOW_PAGES = 100  # of one listing before it is begun anew further on
_MOST_DAMAGES = 3  # of one page, or of the whole cache at it
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


@dataclass(frozen=True)
class Page:
    """One answer."""

    url: str
    status: int  # 200, or 404, 410 or 451 for what is not there (any more)
    items: Any  # its JSON; None where nothing is there
    next: str | None = None  # URL of the next page


class Client:
    """Answers of one server, from the cache in `folder`, which need not exist, or from the server itself.

    With `refresh` each cached page is requested once more with its ETag; one that has not changed (304) costs
    no quota.

    Raises:
        DataError: if the cache cannot be written; one that is damaged is made anew, with a notice.
    """

    def __init__(self, server: Server, folder: Path, *, refresh: bool = False) -> None:
        self.server = server
        self._path = folder / FILE
        self._refresh = refresh
        self._fresh: set[str] = set()  # answered by the server in this process
        folder.mkdir(parents=True, exist_ok=True)
        self._open()

    def get(self, path: str, **parameters: str | int) -> Page:
        """One answer.

        Raises:
            DataError: if the server refuses for good, or cannot be reached after all retries.
        """
        return self._page(path, parameters or None)

    def pages(self, path: str, **parameters: str | int) -> Iterator[list[Plain]]:
        """A listing, page after page, following the `Link` headers.

        Raises:
            DataError: as `get`; or there is no listing.
        """
        page = self.get(path, per_page=_PAGE_ITEMS, **parameters)
        while True:
            if page.status != 200 or not isinstance(page.items, list):
                raise DataError(f"{page.url}: no listing there (HTTP status {page.status})")
            yield page.items
            if page.next is None:
                return
            page = self._page(page.next)

    def updated(self, path: str, since: str | None = None) -> Iterator[list[Plain]]:
        """A long listing in the order of `updated_at`, from `since` on (ISO 8601); an item may come twice.

        GitHub ends listings of comments after 40,000 items. So after 10,000 a new one is begun at the time of
        the last item.

        Raises:
            DataError: as `pages`.
        """
        order = {"sort": "updated", "direction": "asc"}
        while True:
            reached = since or ""
            for number, items in enumerate(
                self.pages(path, **order, **({"since": since} if since else {})), 1
            ):
                yield items
                reached = max([reached, *(item["updated_at"] for item in items)])
                # Where all items of the window have one time, only its own links lead on.
                if number >= _WINDOW_PAGES and reached > (since or ""):
                    break
            else:
                return
            since = reached

    def close(self) -> None:
        """Close the connections and the cache."""
        self._http.close()

    def _open(self) -> None:
        try:
            # With a connection of its own, hishel would put a .gitignore into the user's folder.
            connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as fault:
            self._renew(fault)
        else:
            # Without max_size=None, it would drop the oldest pages beyond one GiB.
            self._storage = _Storage(connection=connection, max_size=None)
            cached = CacheTransport(self.server, self._storage, rfc=CacheOptions(shared=False))
            self._http = httpx2.Client(base_url=self.server.api, headers=_HEADERS, transport=cached)

    def _page(self, url: str, parameters: Mapping[str, str | int] | None = None) -> Page:
        request = self._http.build_request("GET", url, params=parameters)
        url = str(request.url)
        request.extensions["caching"] = {"key": url}
        if self._refresh and url not in self._fresh:
            request.headers["Cache-Control"] = "no-cache"
        for _ in range(_MOST_DAMAGES):
            try:
                reply = self._http.send(request)
                items = _parsed(reply)
                break
            except httpx2.DecodingError:  # damaged on the disk: the server's own are never kept
                self._storage.forget(url)
            except (sqlite3.Error, RuntimeError) as fault:  # the latter for tables of another hishel
                self._renew(fault)
        else:
            raise DataError(f"{self._path}: damaged again and again; name another folder with cache=DIR")
        self._fresh.add(url)
        link = reply.links.get("next")
        return Page(url, reply.status_code, items, self.server.own(link["url"], url) if link else None)

    def _renew(self, fault: sqlite3.Error | RuntimeError) -> None:
        """Begin a damaged cache anew.

        Raises:
            DataError: if it is something else that keeps the cache from being used.
        """
        code = getattr(fault, "sqlite_errorcode", 0) & 0xFF  # of an extended code, the primary one
        if code == sqlite3.SQLITE_FULL:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path)) from fault
        if code not in _DAMAGED:
            raise DataError(
                f"{self._path}: no pages can be kept there ({fault}); name another folder with cache=DIR"
            ) from fault
        self._storage.close()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)
        self.server.notice(f"{self._path} is damaged ({fault}); begun anew, what it held is asked for again")
        self._open()
