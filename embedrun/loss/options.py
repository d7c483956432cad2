"""Refuse an option of a loss term that no formula can use, when the term is made."""

from typing import Any, get_args


def require_positive(term: str, option: str, value: float) -> None:
    """Raise ValueError, naming the term and the option, unless ``value`` is above 0."""
    # Not `value <= 0`: NaN must be refused too.
    if not value > 0:
        raise ValueError(f"{term}: {option} must be > 0, got {value}")


def require_choice(term: str, option: str, value: Any, choices: Any) -> None:
    """Raise ValueError, naming the accepted values, unless ``value`` is one of a ``Literal``'s."""
    if value not in get_args(choices):
        accepted = ", ".join(get_args(choices))
        raise ValueError(f"{term}: {option} must be one of {accepted}; got {value!r}")
