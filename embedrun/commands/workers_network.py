"""By which address and interface this machine reaches the place where several meet."""

import contextlib
import fcntl
import socket
import struct

from embedrun.config import GpuConfig

_SIOCGIFADDR = 0x8915  # Linux: the address of a network interface


def host(gpu: GpuConfig) -> str:
    """The machine of `gpu.rendezvous`; this one where there is no other."""
    return (gpu.rendezvous or "localhost:0").rpartition(":")[0].strip("[]")


def address(host: str) -> str | None:
    """The address of this machine on its way to another, or to itself; None where there is no way."""
    try:
        found = socket.getaddrinfo(host, 1, type=socket.SOCK_DGRAM)
    except OSError:
        return None
    for family, kind, protocol, _, where in sorted(found, key=lambda one: one[0] != socket.AF_INET):
        # To connect a datagram socket sends nothing; it only picks the way.
        with contextlib.suppress(OSError), socket.socket(family, kind, protocol) as probe:
            probe.connect(where)
            return probe.getsockname()[0]
    return None


def interface(address: str) -> str | None:
    """The name of the network interface with this IPv4 address, or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                found = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", name.encode()))
                if socket.inet_ntoa(found[20:24]) == address:
                    return name
    return None
