"""The nearest spelling of a mistyped word."""

import difflib
from collections.abc import Iterable


def nearest(word: str, choices: Iterable[str]) -> str:
    """`"; did you mean 'x'?"` for the closest of the choices, or an empty string."""
    found = difflib.get_close_matches(word, list(choices), n=1, cutoff=0.6)
    return f"; did you mean '{found[0]}'?" if found else ""
