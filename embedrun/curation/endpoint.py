"""Addresses of servers, and keys that stand in variables: no message repeats a secret."""

import re
from ipaddress import ip_address
from urllib.parse import urlsplit

_PRINTED = re.compile(r"[!-~]+")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*", re.ASCII)  # keys have small letters, and must not be repeated


def url_problem(url: str, like: str) -> str | None:
    """Why an address cannot be that of an endpoint, or None; `like` is an example of one."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port  # either may raise
    except ValueError:  # whose text may repeat a password
        return f"not an address; expected {like}"
    if not (parts.scheme in ("http", "https") and host and _PRINTED.fullmatch(url)):
        return f"expected {like}"
    if any((parts.username, parts.password, parts.query, parts.fragment)):
        return "must hold no user, password, ? or #, since it is written down; a key comes from a variable"
    return None


def is_in_the_clear(url: str) -> bool:
    """Whether what is sent to an address can be read on the way."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        here = ip_address(host).is_loopback
    except ValueError:
        here = host == "localhost"
    return parts.scheme == "http" and not here


def variable_problem(name: str) -> str | None:
    """Why this is not the name of a variable with a key, or None; it may be the key itself."""
    if _VARIABLE.fullmatch(name):
        return None
    return (
        "expected the name of an environment variable (capitals, digits and _), not the key itself; export "
        "the key and name its variable"
    )
