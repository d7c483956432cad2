"""`make packages`: the wheel in empty environments, with the tested and the lowest versions."""

import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from script_module import script

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs/reliability.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def packages() -> ModuleType:
    return script("packages")


def test_the_lowest_versions_are_those_that_were_run(packages):
    (line,) = re.findall(r"^The lowest versions: (.*(?:\n.+)*)", PAGE, re.M)
    ran = re.findall(r"([\w-]+) ([\d.]*\d)", line)
    assert [f"{name}=={version}" for name, version in ran] == packages.lowest(PROJECT["project"])


def test_what_the_sdist_holds_is_there_under_these_names():
    # A name that matches nothing packs nothing, and says nothing.
    held = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert [name for name in held if not (ROOT / name.lstrip("/")).exists()] == []
