"""README is the way in: short, and true. What holds of every page is in tests/test_docs.py."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", README, re.DOTALL | re.MULTILINE)
    assert found, title
    return found[1]


def numbers(text: str) -> set[str]:
    return set(re.findall(r"\d+\.\d+", text))


def test_the_map_has_every_room_and_no_other():
    rooms = {path.parent.relative_to(ROOT / "embedrun").parts[0] for path in ROOT.glob("embedrun/*/**/*.py")}
    named = set(re.findall(r"(\w+)/(?=[\s,;]|$)", section("The map").split("```")[1]))
    assert {name for name in named if name not in ("conf", "embedrun")} == rooms


def test_its_numbers_are_those_of_the_pages_of_evidence():
    picture = re.search(r'alt="([^"]*)"', README)
    assert picture
    shown = numbers(section("Why embedrun")) | numbers(picture[1])
    pages = ("results.md", "study-sick.md", "performance.md")
    told = [(ROOT / "docs" / page).read_text(encoding="utf-8") for page in pages]
    assert shown - {"6.2"} <= numbers("".join(told))


def test_it_fits_the_time_that_a_visitor_has():
    assert len(README.splitlines()) <= 120


def test_every_page_is_linked():
    pages = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/**/*.md")}
    assert pages <= set(re.findall(r"\]\(([^)#]+)", README))
