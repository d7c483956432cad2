"""Pages and listings of a GitHub server, kept on the disk; nothing is fetched twice."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode, urljoin

from embedrun.dataset.collection.cache import Cache, Page
from embedrun.dataset.collection.transport import Server
from embedrun.errors import DataError

_PAGE_ITEMS = 100  # the most that GitHub gives
_WINDOW_PAGES = 100  # of one listing before it is begun anew further on
_LINK = re.compile(r"<([^>]*)>([^<]*)")


class Client:
    """Answers of one server, from the cache or from the server itself.

    With `refresh` each kept page is asked for once more under its ETag; one that has not changed (304) costs
    no quota.

    Args:
        server: that is asked.
        cache: where answers are kept.
        refresh: whether kept pages are asked for again.
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

    def pages(self, path: str, **parameters: str | int) -> Iterator[list[dict[str, Any]]]:
        """A listing, page after page, as the `Link` headers lead.

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

    def updated(self, path: str, since: str | None = None) -> Iterator[list[dict[str, Any]]]:
        """A long listing in the order of `updated_at`; an item may come twice.

        GitHub ends listings of comments after 40,000 items. So after 10,000 a new one is begun at the time
        of the last item.

        Args:
            path: of the listing.
            since: time in ISO 8601 from which on items are listed; None for all.

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
