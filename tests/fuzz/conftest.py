import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def fresh(tmp_path: Path) -> Callable[[], Path]:
    """Gives a new folder for every input; that of the input before it is removed."""
    before: list[Path] = []

    def make() -> Path:
        for folder in before:
            shutil.rmtree(folder)
        before[:] = [Path(tempfile.mkdtemp(dir=tmp_path))]
        return before[0]

    return make


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is kept of the inputs goes with the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
