from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from github_server import GitHub, running

if TYPE_CHECKING:
    from embedrun.curation.collection.github import Client

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
def told() -> list[str]:
    """What the person was told meanwhile."""
    return []


@pytest.fixture
def again(
    hub: GitHub, slept: list[float], told: list[str], tmp_path: Path
) -> Iterator[Callable[..., "Client"]]:
    """Makes a client, as of one more process over the same cache."""
    pytest.importorskip("hishel.httpx2")
    from embedrun.curation.collection.github import Client, Server

    clients = []

    def make(refresh: bool = False, **changes: Any) -> Client:
        given = {"api": hub.api, "token": TOKEN, "timeout": 5, "retries": 2, **changes}
        server = Server(**given, sleep=slept.append, notice=told.append)
        clients.append(Client(server, tmp_path / "pages", refresh=refresh))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def client(again: Callable[..., "Client"]) -> "Client":
    return again()
