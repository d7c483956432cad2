from collections.abc import Callable
from pathlib import Path

import pytest

from embedrun.table import Table, load


@pytest.fixture
def made(tmp_path: Path) -> Callable[[str], Table]:
    """The table of a YAML text, under the name angle/small."""

    def table(text: str) -> Table:
        file = tmp_path / "table" / "angle" / "small.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return load("angle/small", tmp_path)

    return table
