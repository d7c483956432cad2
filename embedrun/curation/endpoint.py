"""Addresses of servers, and keys that stand in variables: no message repeats a secret."""

import re
from urllib.parse import urlsplit

_PRINTED = re.compile(r"[!-~]+")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*", re.ASCII)  # keys have small letters, and must not be repeated


def url_problem(url: str) -> str | None:
    """Why an address cannot be that of an endpoint, or None."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port  # either may raise
    except ValueError:  # whose text may repeat a password
        return "not an address; expected one like https://HOST/v1"
    if not (parts.scheme in ("http", "https") and host and _PRINTED.fullmatch(url)):
        return "expected an address like https://HOST/v1 or http://HOST:PORT/v1"
    if any((parts.username, parts.password, parts.query, parts.fragment)):
        return "must hold no user, password, ? or #, since it is written down; a key comes from a variable"
    return None


def is_in_the_clear(url: str) -> bool:
    """Whether what is sent to an address can be read on the way."""
    parts = urlsplit(url)
    return parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1")


def variable_problem(name: str) -> str | None:
    """Why this is not the name of a variable with a key, or None; it may be the key itself."""
    if _VARIABLE.fullmatch(name):
        return None
    return "expected the name of an environment variable (capitals, digits and _), not the key itself"
