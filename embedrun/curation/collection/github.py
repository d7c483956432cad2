"""One GitHub server: its client, rate limits, retries, and the cache of its pages."""

import gzip
import hashlib
import http.client
import json
import re
import ssl
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit

from embedrun.console import duration, size
from embedrun.errors import DataError
from embedrun.files import Plain, publish

_SECONDARY = 60.0  # seconds; what GitHub's documentation asks for where no header names a time
_LONGEST_BACK_OFF = 60.0  # seconds


def is_rate_limit(status: int, headers: Mapping[str, str], body: str) -> bool:
    """Whether a refusal is a rate limit, and so temporary: a 403 may be either."""
    if status == 429:
        return True
    limited = "retry-after" in headers or headers.get("x-ratelimit-remaining") == "0"
    return status == 403 and (limited or "rate limit" in body.lower() or "abuse" in body.lower())


def until_allowed(headers: Mapping[str, str], attempt: int, now: float) -> float:
    """Seconds to wait after a refusal by the rate limit; `now` is local time in seconds since 1970.

    `Retry-After` counts first, then the reset of the hourly quota; without either it is the platform's
    secondary limit, a minute at first and twice as long each time. `attempt` counts refusals of this request
    before, from 0; header names are in lower case.
    """
    asked = _seconds(headers.get("retry-after"))
    if asked is not None:
        return max(asked, 1.0)
    quota = until_quota(headers, now)
    return _SECONDARY * 2**attempt if quota is None else max(quota, 1.0)


def until_quota(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds until the quota is filled again, where an answer says that it is used up; else None.

    The time of the reset is on the platform's clock, so it is compared with the `Date` of the same answer.
    """
    reset = _seconds(headers.get("x-ratelimit-reset"))
    if headers.get("x-ratelimit-remaining") != "0" or reset is None:
        return None
    return max(reset - _date(headers, now), 0.0) + 1.0  # both are cut to whole seconds


def back_off(url: str, attempt: int) -> float:
    """Seconds to wait after a failure: 1, 2, 4 and so on to a minute, each up to a quarter longer.

    The quarter keeps many clients apart; it is derived from the URL, so that a run is reproducible.
    """
    digest = hashlib.sha256(f"{url} {attempt}".encode()).digest()
    return min(2.0**attempt, _LONGEST_BACK_OFF) * (1 + digest[0] / 1024)


def _seconds(text: str | None) -> float | None:
    if text is None or not (text := text.strip()).isdecimal():
        return None
    return float(text[:_DIGITS])  # any longer one is a wait that nobody takes


def _date(headers: Mapping[str, str], now: float) -> float:
    try:
        return parsedate_to_datetime(headers["date"]).timestamp()
    except (KeyError, ValueError, TypeError):
        return now


_DIGITS = 12  # of a number of seconds; those of the year 30,000 have as many
_AGAIN = "; what was fetched is kept: run the same command to resume"
_ANSWERS = (200, 304, 404, 410, 451)  # what the caller gets to see
_MOVED = (301, 302, 307, 308)
_MOST_MOVES = 5
_MOST_REFUSALS = 10  # of one request for the rate, in a row
_LONGEST_WAIT = 2 * 3600.0  # seconds; GitHub's quota is filled every hour
_LARGEST = 64 * 2**20  # bytes of one answer
_DROPPED = (OSError, http.client.HTTPException)  # a URLError, a timeout and a fault of TLS are OSErrors
_HEADERS = {
    "Accept": "application/vnd.github+json",
    "Accept-Encoding": "gzip",
    "X-GitHub-Api-Version": "2022-11-28",
    "User-Agent": "embedrun",
}


@dataclass(frozen=True)
class Answer:
    """An answer of the server: status 200, 304, 404, 410 or 451, and the JSON of a 200.

    Header names are in lower case.
    """

    status: int
    headers: dict[str, str]
    items: Any


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Redirects come back as answers: urllib would send the token along to any host."""

    def redirect_request(self, *_: object, **__: object) -> None:
        return None


class Server:
    """One GitHub server, asked one request at a time, as its documentation wants it.

    Args:
        api: root of the REST API, ``https://api.github.com``.
        token: sent to this server alone and written nowhere; None asks without one.
        timeout: seconds until a silent connection counts as dropped.
        retries: of one request after 5xx answers and dropped connections, before it fails.
        sleep: takes seconds; None for `time.sleep`.
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
            DataError: if it is on another, naming the page `source` that links to it.
        """
        if urlsplit(target)[:2] != urlsplit(self.api)[:2]:
            raise DataError(f"{source}: leads to another server, {target}; the token is for {self.api} alone")
        return target

    def ask(self, url: str, etag: str | None = None) -> Answer:
        """The answer, after every wait, retry and redirect on this server.

        `etag` is that of a cached answer; if it still holds, the status is 304.

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
                    raise DataError(f"{url}: refused {refusals} times by the rate limit{_AGAIN}")
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
        """Status, headers and body of one request, made no earlier than the last answer allows."""
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
            raise DataError(f"{url}: the server asks to wait {duration(self._pause)}{_AGAIN}")
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
        raise DataError(f"{url}: over {size(_LARGEST)}, which no page of issues is")
    return body


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as fault:  # half an answer, or a proxy's own page
        raise http.client.HTTPException("an answer that is not JSON") from fault


def _message(body: bytes) -> str:
    """The reason that the server gives for a refusal."""
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


_REMAINS = 3600.0  # seconds


@dataclass(frozen=True)
class Page:
    """One answer, as it is cached.

    Args:
        status: 200, or 404, 410 or 451 for what is not there (any more).
        items: the JSON of the answer; None where nothing is there.
        next: URL of the next page, None on the last one.
        etag: the server's identifier of this state of the answer.
    """

    url: str
    status: int
    items: Any
    next: str | None = None
    etag: str | None = None


class Cache:
    """A folder of answers, which need not exist.

    A page is written beside its place, flushed to the disk and renamed, so that a kill at any moment leaves a
    complete page or none. One that the disk has damaged is found by gzip's checksum and asked for again.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, url: str) -> Path:
        """Where the answer is or would be; 256 folders, since there may be a hundred thousand pages."""
        name = hashlib.sha256(url.encode()).hexdigest()
        return self.folder / name[:2] / f"{name[2:]}.json.gz"

    def read(self, url: str) -> Page | None:
        """The cached answer, or None where there is none or it is damaged."""
        try:
            page = Page(**json.loads(gzip.decompress(self.path(url).read_bytes())))
        except (FileNotFoundError, gzip.BadGzipFile, EOFError, zlib.error, ValueError, TypeError):
            return None
        return page if page.url == url else None

    def clear_remains(self) -> None:
        """Remove half-written files of killed processes: after an hour nobody writes them any more."""
        for remains in self.folder.glob("*/.tmp-*"):
            if time.time() - remains.stat().st_mtime > _REMAINS:
                remains.unlink(missing_ok=True)

    def write(self, page: Page) -> None:
        """Keep an answer."""
        # No time in the header: the same answer is the same bytes.
        publish(self.path(page.url), gzip.compress(json.dumps(asdict(page)).encode(), mtime=0), replace=True)


_PAGE_ITEMS = 100  # the most that GitHub gives
_WINDOW_PAGES = 100  # of one listing before it is begun anew further on
_LINK = re.compile(r"<([^>]*)>([^<]*)")


class Client:
    """Answers of one server, from the cache or from the server itself.

    With `refresh` each cached page is requested once more with its ETag; one that has not changed (304) costs
    no quota.
    """

    def __init__(self, server: Server, cache: Cache, *, refresh: bool = False) -> None:
        self.server = server
        self._cache = cache
        self._refresh = refresh
        self._fresh: set[str] = set()  # answered by the server in this process

    def get(self, path: str, **parameters: str | int) -> Page:
        """One answer.

        Raises:
            DataError: if the server refuses for good, or cannot be reached after all retries.
        """
        return self._page(self._url(path, parameters))

    def pages(self, path: str, **parameters: str | int) -> Iterator[list[Plain]]:
        """A listing, page after page, following the `Link` headers.

        Raises:
            DataError: as `get`; or there is no listing.
        """
        url: str | None = self._url(path, {"per_page": _PAGE_ITEMS, **parameters})
        while url is not None:
            page = self._page(url)
            if page.status != 200 or not isinstance(page.items, list):
                raise DataError(f"{url}: no listing there (HTTP status {page.status})")
            yield page.items
            url = page.next

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

    def _url(self, path: str, parameters: dict[str, str | int]) -> str:
        query = f"?{urlencode(parameters)}" if parameters else ""
        return f"{self.server.api}/{path}{query}"

    def _page(self, url: str) -> Page:
        kept = self._cache.read(url)
        if kept is not None and (not self._refresh or url in self._fresh):
            return kept
        answer = self.server.ask(url, kept.etag if kept else None)
        self._fresh.add(url)
        if kept is not None and answer.status == 304:
            # A last page that was full has a next one by now, and is itself the same.
            following = self._next(url, answer.headers.get("link", "")) or kept.next
            if following != kept.next:
                kept = replace(kept, next=following)
                self._cache.write(kept)
            return kept
        headers = answer.headers
        page = Page(
            url, answer.status, answer.items, self._next(url, headers.get("link", "")), headers.get("etag")
        )
        self._cache.write(page)
        return page

    def _next(self, url: str, link: str) -> str | None:
        for target, attributes in _LINK.findall(link):
            if re.search(r'rel="?next\b', attributes):
                return self.server.own(urljoin(url, target), url)
        return None
