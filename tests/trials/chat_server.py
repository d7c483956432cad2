"""A small server on this machine that speaks chat completions, well or badly, as a test tells it to."""

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_DRIP = 0.05  # seconds between two bytes


@dataclass(frozen=True)
class Reply:
    """What the server does with one request.

    Args:
        text: of the answer.
        status: of the response.
        headers: added.
        raw: body instead of a chat completion.
        drop: close the connection after so many bytes of the response.
        drip: send so many bytes of the response at once, and the others one by one.
        finish: `finish_reason`.
    """

    text: str | None = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    drop: int | None = None
    drip: int | None = None
    finish: str = "stop"


class ChatServer:
    """Its address, and what it was asked.

    Args:
        url: for `llms`.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.lock = threading.Lock()
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.asked: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()


@contextmanager
def serving(reply: Callable[[str, int], Reply]) -> Iterator[ChatServer]:
    """Serve until the block ends.

    Args:
        reply: to a prompt and the number of its tries before this one.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            prompt = body["messages"][0]["content"]
            with chat.lock:
                chat.bodies.append({"path": self.path, **body})
                chat.headers.append(dict(self.headers))
                said = reply(prompt, chat.asked[prompt])
                chat.asked[prompt] += 1
                whole = said.raw is None and said.drop is None and said.drip is None
                chat.answered[prompt] += said.status == 200 and whole
            with suppress(ConnectionError):  # the other side may be killed meanwhile
                self._send(said)

        def do_GET(self) -> None:
            self.do_POST()  # where a redirect was followed

        def _send(self, said: Reply) -> None:
            choice = {"message": {"role": "assistant", "content": said.text}, "finish_reason": said.finish}
            content = json.dumps({"choices": [choice]}).encode() if said.raw is None else said.raw
            head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(content)}\r\n\r\n".encode()
            if said.drip is not None:
                self.wfile.write((head + content)[: said.drip])
                for byte in (head + content)[said.drip :]:
                    time.sleep(_DRIP)
                    self.wfile.write(bytes([byte]))
                return
            if said.drop is not None:
                if said.drop:
                    self.wfile.write((head + content)[: said.drop])
                    self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            self.send_response(said.status)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Content-Type", "application/json")
            for name, value in said.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *arguments: object) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    chat = ChatServer(f"http://127.0.0.1:{server.server_address[1]}/v1")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield chat
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
