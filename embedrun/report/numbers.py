"""Numbers of files that are read without trust, and how the page writes them."""

import math
from collections.abc import Mapping
from typing import Any

_SHARES = ("geometry/", "geometry_dev/")  # whose scores are not times 100
_LARGEST = 1e300  # beyond it, differences of two numbers would not be finite
_MINUS = "\N{MINUS SIGN}"


def number(value: Any) -> float | None:
    """The value as a finite number; None where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) and abs(found) < _LARGEST else None


def numbers(values: Any) -> dict[str, float]:
    """What is a finite number among the values of a mapping, by key; of anything else nothing."""
    pairs = values.items() if isinstance(values, Mapping) else ()
    return {str(key): found for key, value in pairs if (found := number(value)) is not None}


def score(key: str, value: float | None, *, sign: str = "") -> str:
    """A score or, with the sign ``+``, a difference of scores; a dash for none.

    Args:
        key: of the score, which says its unit.
        value: × 100 unless it belongs to the geometry.
        sign: as in a format specification.
    """
    if value is None:
        return "–"
    digits = 4 if key.startswith(_SHARES) else 2
    return _written(f"{value:{sign}.{digits}f}" if abs(value) < 1e9 else f"{value:{sign}.3g}")


def short(value: float) -> str:
    """A number in at most four digits, as an axis has it: `0.001`, `2e-5`, `1,500`."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1e6 or size < 1e-3:
        mantissa, _, exponent = f"{value:.3g}".partition("e")
        return _written(f"{mantissa}e{int(exponent)}" if exponent else mantissa)
    return _written(f"{value:,.0f}" if size >= 1000 else f"{value:.4g}")


def duration(seconds: float) -> str:
    """`8.4 s`, `3 min 20 s`, `2 h 5 min`, with blanks at which no line ends."""
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        text = f"{seconds:.1f} s" if seconds < 10 else f"{rest} s"
    elif minutes < 60:
        text = f"{minutes} min {rest} s"
    else:
        text = f"{minutes // 60:,} h {minutes % 60} min"
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def size(count: float) -> str:
    """Bytes in decimal units: `512 B`, `12.3 kB`, `1.3 GB`."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def _written(text: str) -> str:
    return text.replace("-", _MINUS) if "e" not in text else _MINUS * text.startswith("-") + text.lstrip("-")
