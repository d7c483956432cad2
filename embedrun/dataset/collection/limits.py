"""How long to wait before the next request: rate limits, and back-off after a failure."""

import hashlib
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

_SECONDARY = 60.0  # seconds; what GitHub's documentation asks for where no header names a time
_LONGEST_BACK_OFF = 60.0  # seconds


def is_rate_limit(status: int, headers: Mapping[str, str], body: str) -> bool:
    """Whether a refusal means later rather than never: a 403 may be either."""
    if status == 429:
        return True
    limited = "retry-after" in headers or headers.get("x-ratelimit-remaining") == "0"
    return status == 403 and (limited or "rate limit" in body.lower() or "abuse" in body.lower())


def until_allowed(headers: Mapping[str, str], attempt: int, now: float) -> float:
    """Seconds to wait after a refusal for the rate.

    `Retry-After` counts first, then the reset of the hourly quota; without either it is the platform's
    secondary limit, a minute at first and twice as long each time.

    Args:
        headers: of the answer, names in lower case.
        attempt: refusals of this request before, from 0.
        now: local time, seconds since 1970.
    """
    asked = _seconds(headers.get("retry-after"))
    if asked is not None:
        return max(asked, 1.0)
    quota = until_quota(headers, now)
    return _SECONDARY * 2**attempt if quota is None else max(quota, 1.0)


def until_quota(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds until the quota is filled again, where an answer says that it is used up; else None.

    The time of the reset is on the platform's clock, so it is compared with the `Date` of the same answer.
    """
    reset = _seconds(headers.get("x-ratelimit-reset"))
    if headers.get("x-ratelimit-remaining") != "0" or reset is None:
        return None
    return max(reset - _date(headers, now), 0.0) + 1.0  # both are cut to whole seconds


def back_off(url: str, attempt: int) -> float:
    """Seconds to wait after a failure: 1, 2, 4 and so on to a minute, each up to a quarter longer.

    The quarter keeps many clients apart; it comes from the URL, so that a run repeats itself.
    """
    digest = hashlib.sha256(f"{url} {attempt}".encode()).digest()
    return min(2.0**attempt, _LONGEST_BACK_OFF) * (1 + digest[0] / 1024)


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.strip().isdecimal() else None


def _date(headers: Mapping[str, str], now: float) -> float:
    try:
        return parsedate_to_datetime(headers["date"]).timestamp()
    except (KeyError, ValueError, TypeError):
        return now
