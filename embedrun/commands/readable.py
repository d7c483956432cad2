"""Why splits of data sets cannot be read, before any is."""

from collections.abc import Sequence
from typing import Any

from embedrun.store import Store


def unreadable(splits: Sequence[tuple[Any, str]], store: Store) -> list[str]:
    """Why these splits of data sets cannot be read, without reading them; missing store files in one line."""
    files, others = [], []
    for dataset, split in splits:
        own = dataset.files(split, store) if hasattr(dataset, "files") else []
        files += own
        others += [] if own else dataset.problems(split, store)
    return list(dict.fromkeys([*others, *store.missing(files)]))
