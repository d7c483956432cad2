"""What installs embedrun: `./setup`, the extras, and what texts and messages tell people to type."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from embedrun.commands.doctor import EXTRAS
from embedrun.errors import install_extra

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
NEEDED = PROJECT["project"]["optional-dependencies"]


def setup(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`./setup` of a folder in which Python and pip only write down their arguments."""
    (folder / "setup").write_bytes((ROOT / "setup").read_bytes())
    python = folder / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\necho "$@" >> {folder}/said\n')
    python.chmod(0o755)
    command = ["bash", str(folder / "setup"), *arguments]
    return subprocess.run(
        command, env={"PATH": "/usr/bin:/bin", "PYTHON": str(python)}, capture_output=True, text=True
    )


@pytest.mark.parametrize(("arguments", "more"), [((), set()), (("--dev",), {"dev", "docs"})])
def test_setup_installs_what_the_tests_need_and_the_linters_on_request(tmp_path, arguments, more):
    ended = setup(tmp_path, *arguments)
    assert ended.returncode == 0, ended.stderr
    (line,) = (line for line in (tmp_path / "said").read_text().splitlines() if "pip install" in line)
    found = re.search(r"-c constraints\.txt -e \.\[([\w,]+)\]$", line)
    assert found is not None
    # qlora needs a CUDA device; what mine is, is in test.
    assert set(found[1].split(",")) == set(NEEDED) - {"oracle", "dev", "docs", "qlora", "mine"} | more
    assert set(NEEDED["mine"]) <= set(NEEDED["test"])


def test_a_missing_extra_is_installed_from_the_sources():
    assert install_extra("hpo") == "pip install '.[hpo]' in the folder of embedrun's sources"
    asked = {
        name
        for path in (ROOT / "embedrun").rglob("*.py")
        for name in re.findall(r"install_extra\('(\w+)'\)", path.read_text(encoding="utf-8"))
    }
    assert asked <= set(NEEDED)
    assert len(asked) == 8


def test_the_page_on_installation_has_every_extra():
    text = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", text, re.M) == list(EXTRAS)
    assert set(EXTRAS) == set(NEEDED) - {"test", "oracle", "dev", "docs"}
