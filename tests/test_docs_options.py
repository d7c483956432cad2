"""docs/options.md is what `make docs` makes of the options."""

from pathlib import Path
from types import ModuleType

import pytest
from script_module import script

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/options.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    return script("options")


def test_the_page_is_current(generator):
    assert generator.page() == PAGE, "docs/options.md is not what the options say; make docs"
