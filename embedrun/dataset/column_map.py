"""The options that every data set of a user's own files has: its column map, and what a faulty row means."""

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from embedrun.config.check import nearest

OnBadRow = Literal["refuse", "skip"]


def check_columns(
    owner: str, option: str, columns: Mapping[str, str], required: Sequence[str], targets: Sequence[str] = ()
) -> None:
    """Refuse a column map that cannot be meant.

    Args:
        owner: the class, for the message.
        option: of the map.
        columns: our name to the file's name.
        required: names that must be there.
        targets: names of which at least one must be there.

    Raises:
        ValueError: for an unknown or absent name, no target, or a column that is used twice.
    """
    known = (*required, *targets)
    one_of = f" and {' or '.join(targets)}" if targets else ""
    for name in columns:
        if name not in known:
            hint = nearest(str(name), known)
            raise ValueError(f"{owner}: {option} has no key {name!r}{hint} (keys: {', '.join(known)})")
    for name in required:
        if name not in columns:
            raise ValueError(f"{owner}: {option} lacks {name!r}; it needs {', '.join(required)}{one_of}")
    if targets and not any(name in columns for name in targets):
        neither = " nor ".join(targets)
        raise ValueError(f"{owner}: {option} names neither {neither}; a loss needs at least one of them")
    if len(set(columns.values())) < len(columns):
        raise ValueError(f"{owner}: {option} uses one column of the file twice: {dict(columns)}")


def check_on_bad_row(owner: str, value: str) -> None:
    """Refuse anything but `refuse` and `skip`.

    Raises:
        ValueError: if it is neither.
    """
    if value not in get_args(OnBadRow):
        raise ValueError(f"{owner}: on_bad_row must be refuse or skip, got {value!r}")
