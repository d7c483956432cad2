"""A small GitHub on the loopback interface, in the format of the REST API, with its limits and its faults."""

import json
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


def issue(number: int, title: str, body: str | None = "", **more: Any) -> dict[str, Any]:
    """An issue as GitHub lists it, closed unless it is said otherwise."""
    created = f"2024-01-01T{number // 60:02}:{number % 60:02}:00Z"
    return {
        "number": number,
        "title": title,
        "body": body,
        "state": "closed",
        "state_reason": "completed",
        "labels": [],
        "html_url": f"https://github.com/o/r/issues/{number}",
        "created_at": created,
        "updated_at": created,
        **more,
    }


def pull(number: int, title: str) -> dict[str, Any]:
    """A pull request as GitHub lists it among the issues."""
    return issue(number, title, html_url=f"https://github.com/o/r/pull/{number}")


@dataclass
class GitHub:
    """Repositories, and what goes wrong.

    Args:
        page: items of one page, whatever the client asks for.
        faults: by the count of the request, from 1: `500`, `drop`, `quota`, `401`, `garbage` (no JSON), or of
            a good answer, `stall` (half, and silence).
    """

    page: int = 2
    faults: dict[int, str] = field(default_factory=dict)
    repositories: dict[str, dict[str, Any]] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)  # path: location
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)  # path with query, headers
    answered: Counter[str] = field(default_factory=Counter)  # whole answers with status 200, by path
    api: str = ""

    def add(self, name: str, issues: list[dict[str, Any]], comments: list[tuple[int, str]] = (), **timelines):
        """A repository; comments are (issue, body) in the order they were written."""
        for item in issues:
            item.setdefault("repository_url", f"{self.api}/repos/{name}")
            item.setdefault("url", f"{self.api}/repos/{name}/issues/{item['number']}")
        self.repositories[name.lower()] = {
            "name": name,
            "issues": issues,
            "comments": [
                {
                    "id": count,
                    "url": f"{self.api}/repos/{name}/issues/comments/{count}",
                    "issue_url": f"{self.api}/repos/{name}/issues/{number}",
                    "body": body,
                    "created_at": f"2024-02-01T00:00:{count:02}Z",
                    "updated_at": f"2024-02-01T00:00:{count:02}Z",
                }
                for count, (number, body) in enumerate(comments, 1)
            ],
            "timelines": {int(key.lstrip("n")): events for key, events in timelines.items()},
        }

    def answer(self, path: str, query: dict[str, str]) -> tuple[int, Any]:
        """Status and JSON, whole; `page` is cut out of it afterwards."""
        parts = path.strip("/").split("/")
        if parts[0] != "repos" or (own := self.repositories.get("/".join(parts[1:3]).lower())) is None:
            return 404, {"message": "Not Found"}
        rest = parts[3:]
        if not rest:
            url = f"{self.api}/repos/{own['name']}"
            return 200, {"full_name": own["name"], "url": url, "has_issues": own.get("has_issues", True)}
        if rest == ["issues"]:
            key, down = f"{query['sort']}_at", query["direction"] == "desc"
            listed = [item for item in own["issues"] if item["updated_at"] >= query.get("since", "")]
            return 200, sorted(listed, key=lambda item: item[key], reverse=down)
        if rest == ["issues", "comments"]:
            since = query.get("since", "")
            found = [item for item in own["comments"] if item["updated_at"] >= since]
            return 200, sorted(found, key=lambda item: item["updated_at"])
        number = int(rest[1])
        if rest[2:] == ["timeline"]:
            return 200, own["timelines"].get(number, [])
        found = [item for item in own["issues"] + own.get("unlisted", []) if item["number"] == number]
        return (200, found[0]) if found else (404, {"message": "Not Found"})


_ANSWERS: dict[str, tuple[int, Any, dict[str, str]]] = {
    "500": (500, {"message": "Server Error"}, {}),
    "quota": (403, {"message": "API rate limit exceeded for 127.0.0.1."}, {"X-RateLimit-Remaining": "0"}),
    "401": (401, {"message": "Bad credentials"}, {}),
    "garbage": (200, b"<html>One moment</html>", {}),
}


class _Handler(BaseHTTPRequestHandler):
    server: Any
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # on a connection that is kept, each answer would wait for 40 ms

    def log_message(self, *_: Any) -> None:
        return

    def do_GET(self) -> None:
        hub: GitHub = self.server.hub
        hub.requests.append((self.path, {key.lower(): value for key, value in self.headers.items()}))
        fault = hub.faults.pop(len(hub.requests), None)
        if fault not in (None, "stall"):
            self._fail(fault)
            return
        parts = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        if parts.path in hub.moved:
            self._send(301, {"message": "Moved Permanently"}, {"Location": hub.moved[parts.path]})
            return
        status, items = hub.answer(parts.path, query)
        headers = {}
        if isinstance(items, list):
            number = int(query.get("page", 1))
            if number * hub.page < len(items):
                rest = "&".join(f"{key}={value}" for key, value in query.items() if key != "page")
                own = f"{hub.api}{parts.path}?{rest}"
                headers["Link"] = f'<{own}&page={number + 1}>; rel="next", <{own}&page=9>; rel="last"'
            items = items[(number - 1) * hub.page : number * hub.page]
        if status == 200 and fault is None:
            hub.answered[self.path] += 1
        self._send(status, items, headers, fault)

    def _fail(self, fault: str) -> None:
        if fault in _ANSWERS:
            status, data, headers = _ANSWERS[fault]
            reset = {"X-RateLimit-Reset": str(int(time.time()) + 3000)} if fault == "quota" else {}
            self._send(status, data, headers | reset)
        else:
            self.close_connection = True  # without a word: a drop

    def _send(self, status: int, data: Any, headers: dict[str, str], fault: str | None = None) -> None:
        body = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if fault else body)
        if fault == "stall":
            self.connection.recv(1)  # until the other side gives up


@contextmanager
def running(**options: Any):
    """A server that is there for the block."""
    hub = GitHub(**options)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.hub = hub  # type: ignore[attr-defined]
    hub.api = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
