"""docs/options.md is what `make docs` makes of the options."""

from dataclasses import fields
from pathlib import Path
from types import ModuleType

import pytest
from script_module import script

from embedrun.config.options import TrainingConfig

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/options.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    return script("options")


def test_the_page_is_current(generator):
    assert generator.page() == PAGE, "docs/options.md is not what the options say; make docs"


def test_every_option_of_training_is_there():
    for item in fields(TrainingConfig):
        assert f"| `training.{item.name}` |" in PAGE
