"""When a request that failed is tried again."""

import random
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST = 60.0  # seconds of our own waiting
LONGEST_TOLD = 900.0  # seconds that an endpoint may ask us to wait; a longer wait ends the command
# Request timeout, conflict, too early, too many requests; and what a server or a proxy gets wrong.
_PASSING = (408, 409, 425, 429)


class PassingError(Exception):
    """A failure that another try may not have.

    Args:
        reason: for the person.
        wait: seconds that the endpoint asks to wait, or None.
    """

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


def passes(status: int) -> bool:
    """Whether an HTTP status may go away by itself."""
    return status in _PASSING or status >= 500


def told(header: str | None, now: datetime | None = None) -> float | None:
    """Seconds that a Retry-After header asks to wait: a number, or a date; None if it says neither.

    Args:
        header: its value.
        now: for a date; the clock's time by default.
    """
    text = (header or "").strip()
    if re.fullmatch(r"\d{1,9}(\.\d*)?", text, re.ASCII):
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (date - (now or datetime.now(UTC))).total_seconds())


def delay(attempt: int, wait: float | None, source: random.Random) -> float:
    """Seconds before the next try.

    Without word from the endpoint 1, 2, 4, ... seconds, at most `LONGEST`, times a random factor from 0.5 to
    1; else what it asks for times a factor from 1 to 1.1, so that requests refused together do not come back
    together.

    Args:
        attempt: tries that have failed, less one.
        wait: what the endpoint asks for, or None.
        source: of the random factor.
    """
    if wait is not None:
        return wait * source.uniform(1.0, 1.1)
    return min(LONGEST, 2.0 ** min(attempt, 30)) * source.uniform(0.5, 1.0)
