import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from embedrun.store import Store

Write = Callable[..., Path]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "data")


@pytest.fixture
def write(store: Store) -> Write:
    """Write rows into the store, as TSV from lists of fields or as JSON Lines from objects."""

    def put(relative: str, rows: list) -> Path:
        path = store.root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = ["\t".join(row) if isinstance(row, list) else json.dumps(row) for row in rows]
        path.write_bytes(gzip.compress("".join(line + "\n" for line in lines).encode()))
        return path

    return put
