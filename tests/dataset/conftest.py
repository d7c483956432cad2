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
    """Write rows into the store, as TSV from lists of fields, as JSON Lines from objects, or as they are."""

    def put(relative: str, rows: list) -> Path:
        path = store.root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        raw = "".join(f"{_line(row)}\n" for row in rows).encode()
        path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
        return path

    return put


def _line(row: list[str] | dict | str) -> str:
    if isinstance(row, str):
        return row
    return "\t".join(row) if isinstance(row, list) else json.dumps(row)
