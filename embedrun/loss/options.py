"""Refuse what no formula can use: an option when a term is made, rows when they are read."""

from typing import Any, get_args

from torch import Tensor


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


def require_scale(term: str, value: float) -> None:
    """Raise ValueError unless ``value`` is at least 1: a scale multiplies; a small one is a temperature."""
    if not value >= 1:
        hint = f"; a temperature of {value} is scale={1 / value:g}" if value > 0 else ""
        raise ValueError(f"{term}: scale multiplies the similarity and must be >= 1, got {value}{hint}")


def require_shape(term: str, name: str, values: Tensor, *shape: int | None) -> None:
    """Raise ValueError unless a tensor has this shape, None being any length; broadcasting would hide it."""
    if values.ndim != len(shape) or any(
        wanted not in (None, length) for length, wanted in zip(values.shape, shape, strict=True)
    ):
        accepted = ", ".join("any" if length is None else str(length) for length in shape)
        accepted += "," * (len(shape) == 1)
        raise ValueError(f"{term}: {name} must have shape ({accepted}), got {tuple(values.shape)}")


def nothing_to_order(rows: int, score: Tensor | None) -> str | None:
    """Why no two rows of a batch can differ in their scores, or None.

    Args:
        rows: of a batch.
        score: of all training rows, ``(rows,)``, or None where they are not known yet.
    """
    if rows < 2:
        return "a batch of one row has nothing to compare; raise training.batch_size"
    if score is not None and len(score.unique()) < 2:
        return "all scores of the training rows are equal"
    return None
