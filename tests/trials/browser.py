"""Headless Chromium through chromedriver, by the WebDriver protocol over plain HTTP on this machine."""

import contextlib
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", 
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
    "--no-first-run",
)  # fmt: skip
_ANSWER_SECONDS = 60
_OPENER = build_opener(ProxyHandler({}))  # whatever proxy the machine names, this goes to itself


def installed() -> bool:
    """Whether Chromium and its driver are on this machine."""
    return None not in (shutil.which("chromium"), shutil.which("chromedriver"))


class Browser:
    """One browser window.

    Args:
        session: address of the WebDriver session.
    """

    def __init__(self, session: str) -> None:
        self._session = session

    def open(self, path: Path, *, width: int, dark: bool = False) -> None:
        """Show a file in a window of that many CSS pixels."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.devtools("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.devtools("Emulation.setEmulatedMedia", {"features": [scheme]})
        _ask("POST", f"{self._session}/url", {"url": path.resolve().as_uri()})

    def open_quietly(self, path: Path, *, width: int, dark: bool) -> None:
        """The same of a page that must fit the width, ask for nothing, and give no cause for complaint."""
        self.log()
        self.open(path, width=width, dark=dark)
        assert self.value("document.documentElement.scrollWidth") == width
        resources = "performance.getEntriesByType('resource').filter(one => !one.name.startsWith('data:'))"
        assert self.value(resources) == []
        assert self.log() == []

    def value(self, expression: str) -> Any:
        """What a JavaScript expression gives."""
        script = {"script": f"return {expression}", "args": []}
        return _ask("POST", f"{self._session}/execute/sync", script)

    def log(self) -> list[dict[str, Any]]:
        """What the browser complained of since the last call, as a blocked script or request."""
        return _ask("POST", f"{self._session}/se/log", {"type": "browser"})

    def devtools(self, command: str, parameters: dict[str, Any]) -> Any:
        """Send a command of the DevTools protocol."""
        return _ask("POST", f"{self._session}/goog/cdp/execute", {"cmd": command, "params": parameters})


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """A browser with a profile of its own; both processes have ended after the block."""
    with (
        tempfile.TemporaryDirectory() as profile,
        subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as driver,
    ):
        try:
            address = f"http://127.0.0.1:{_port(driver)}/session"
            options = {
                "args": [*_FLAGS, f"--user-data-dir={profile}"],
                "binary": shutil.which("chromium"),
            }
            wanted = {
                "browserName": "chrome",
                "goog:chromeOptions": options,
                "goog:loggingPrefs": {"browser": "ALL"},
            }
            made = _ask("POST", address, {"capabilities": {"alwaysMatch": wanted}})
            session = f"{address}/{made['sessionId']}"
            try:
                yield Browser(session)
            finally:
                _ask("DELETE", session)
        finally:
            driver.terminate()


def _port(driver: subprocess.Popen[str]) -> int:
    assert driver.stdout is not None
    for line in driver.stdout:
        if found := re.search(r"started successfully on port (\d+)", line):
            return int(found[1])
    raise RuntimeError("chromedriver has not started")


def _ask(method: str, address: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = Request(address, data, {"Content-Type": "application/json"}, method=method)
    with _OPENER.open(request, timeout=_ANSWER_SECONDS) as answer:
        return json.load(answer)["value"]
