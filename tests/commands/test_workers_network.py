import socket

import pytest

from embedrun.config import GpuConfig
from embedrun.training.workers.start import address, host, interface


@pytest.mark.parametrize(
    ("rendezvous", "name"),
    [
        (None, "localhost"),
        ("node1:29500", "node1"),
        ("10.0.0.7:29500", "10.0.0.7"),
        ("[fe80::1]:29500", "fe80::1"),
    ],
)
def test_machines_meet_at_the_host_of_the_rendezvous(rendezvous: str | None, name: str):
    assert host(GpuConfig(rendezvous=rendezvous)) == name


def test_the_way_to_this_machine_is_the_loopback():
    assert address("localhost") == "127.0.0.1"
    assert interface("127.0.0.1") == "lo"


def test_no_way_is_none(monkeypatch: pytest.MonkeyPatch):
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert address("nowhere") is None
    assert interface("192.0.2.1") is None  # an address that no machine has
