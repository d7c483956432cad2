from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from github_server import GitHub, running

from embedrun.curation.collection.github import Cache, Client, Server

TOKEN = "ghp_canary0123456789"


@pytest.fixture
def hub() -> Iterator[GitHub]:
    """A GitHub with pages of two items."""
    with running() as hub:
        yield hub


@pytest.fixture
def slept() -> list[float]:
    """The seconds that were waited, if there had been a clock."""
    return []


@pytest.fixture
def server(hub: GitHub, slept: list[float]) -> Server:
    return Server(api=hub.api, token=TOKEN, timeout=5, retries=2, sleep=slept.append)


@pytest.fixture
def client(server: Server, tmp_path: Path) -> Client:
    return Client(server, Cache(tmp_path / "pages"))


@pytest.fixture
def again(hub: GitHub, slept: list[float], tmp_path: Path) -> Callable[..., Client]:
    """A client of a later process, over the same cache."""

    def make(refresh: bool = False) -> Client:
        later = Server(api=hub.api, token=TOKEN, timeout=5, retries=2, sleep=slept.append)
        return Client(later, Cache(tmp_path / "pages"), refresh=refresh)

    return make
