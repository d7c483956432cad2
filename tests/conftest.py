"""Rules for every test: no network, few interpreters, nothing skipped unseen, a cache of its own."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

# Before anything imports torch or the hub's client, which read these once.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import pytest
from hypothesis import settings

# The same examples in every run, and no folder of earlier ones.
settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.load_profile("repeatable")
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:  # nohup: heard in tests of it, and never fatal
    signal.signal(signal.SIGHUP, lambda *_: None)
_LOOPBACK = ("127.", "::1", "localhost", "::ffff:127.")

Interpreter = Callable[..., subprocess.CompletedProcess[str]]


def _stays_here(host: object) -> bool:
    name = host.decode() if isinstance(host, bytes) else host
    return name is None or (isinstance(name, str) and name.startswith(_LOOPBACK))


class NetworkRefusedError(OSError):
    """A test reached for the network without the marker `network`."""


@pytest.fixture(autouse=True)
def _no_network(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only loopback addresses and Unix sockets; a test marked `network` is free."""
    if request.node.get_closest_marker("network"):
        monkeypatch.delenv("HF_HUB_OFFLINE")
        return
    look_up = socket.getaddrinfo

    def guarded(name: str) -> Callable:
        original = getattr(socket.socket, name)

        def connect(self: socket.socket, address: object) -> object:
            if self.family != socket.AF_UNIX and not (isinstance(address, tuple) and _stays_here(address[0])):
                raise NetworkRefusedError(f"a test may not reach {address!r}; mark it `network`")
            return original(self, address)

        return connect

    def resolve(host: object, *rest: object, **more: object) -> object:
        if not _stays_here(host):
            raise NetworkRefusedError(f"a test may not look up {host!r}; mark it `network`")
        return look_up(host, *rest, **more)  # type: ignore[arg-type]

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, guarded(name))
    monkeypatch.setattr(socket, "getaddrinfo", resolve)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's cache folder, and with it the default data store, is an empty one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture
def counted() -> None:
    """Says that this test starts interpreters; few may, see test_interpreters.py."""


@pytest.fixture
def interpreter(counted: None, tmp_path: Path) -> Interpreter:
    """Run `python -m embedrun ...`, or with `code=...` that program, in the test's own folder."""

    def run(*arguments: str, code: str | None = None) -> subprocess.CompletedProcess[str]:
        what = ["-m", "embedrun", *arguments] if code is None else ["-c", code, *arguments]
        root = Path(__file__).resolve().parent.parent
        path = os.pathsep.join(part for part in (str(root), os.environ.get("PYTHONPATH")) if part)
        return subprocess.run(
            [sys.executable, *what],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on real data need the folder with it."""
    if "EMBEDRUN_DATA" in os.environ:
        return
    unset = pytest.mark.skip(reason="EMBEDRUN_DATA is not set")
    for item in items:
        if item.get_closest_marker("realdata"):
            item.add_marker(unset)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Where the data is there and the machine is to test all, a skipped test on it is a failure."""
    report = yield
    must_run = os.environ.get("CI") == "true" and "EMBEDRUN_DATA" in os.environ
    if report.skipped and must_run and item.get_closest_marker("realdata"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped although EMBEDRUN_DATA is set: {report.longrepr}"
    return report
