"""One thing that `embedrun doctor` looked at."""

from typing import Literal, NamedTuple


class Finding(NamedTuple):
    """What was found.

    Args:
        what: was looked at.
        state: `ok`; `note` where a feature is missing; `fault` where the quickstart cannot run.
        found: in words.
    """

    what: str
    state: Literal["ok", "note", "fault"]
    found: str
