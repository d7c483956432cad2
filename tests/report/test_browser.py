"""The page in headless Chromium: width, requests, dark mode, print, and what hostile text does."""

import pytest
from browser import installed

from embedrun.report import render

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not installed(), reason="needs chromium and chromedriver"),
]
HOSTILE = (
    "</title></style><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
    + "W" * 120
)


@pytest.fixture
def page(rich, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(render(rich(HOSTILE)), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_fits_asks_for_nothing_and_runs_its_own_script_alone(window, page, width, dark):
    window.open_quietly(page, width=width, dark=dark)
    assert window.value("innerWidth") == width
    assert window.value("document.querySelectorAll('.chart svg').length") == 6
    assert window.value("document.title").endswith(": run report")
    assert window.value("[...document.images].every(one => one.complete && one.naturalWidth > 0)")


def test_tables_scroll_inside_their_own_box_on_a_phone(window, page):
    window.open(page, width=360)
    boxes = window.value(
        "[...document.querySelectorAll('.scroll')].map(one => [one.scrollWidth, one.clientWidth])"
    )
    assert any(inside > outside for inside, outside in boxes)
    assert all(outside < 360 for _, outside in boxes)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("selector", ["body", ".note", ".key", "th", "dt", ".state", ".y"])
def test_text_stands_out_from_its_ground(window, page, dark, selector):
    window.open(page, width=1280, dark=dark)
    colours = window.value(
        f"[document.querySelector('{selector}'), document.body].map(one => getComputedStyle(one))"
        ".map((style, place) => place ? style.backgroundColor : style.color)"
    )
    text, ground = (luminance(colour) for colour in colours)
    assert (ground < 0.05) == dark
    lighter, darker = max(text, ground), min(text, ground)
    assert (lighter + 0.05) / (darker + 0.05) >= 4.5  # WCAG 2.2, success criterion 1.4.3


def luminance(colour: str) -> float:
    """Relative luminance of `rgb(r, g, b)`, by WCAG 2.2."""
    shares = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    red, green, blue = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in shares]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_in_print_folded_parts_are_open_and_nothing_is_dark(window, page):
    folded = (
        "[...document.querySelectorAll('details:not([open]) > :nth-child(2)')]"
        ".map(one => one.checkVisibility())"
    )
    window.open(page, width=700, dark=True)
    assert set(window.value(folded)) == {False}
    window.open(page, width=700, dark=True, media="print")
    assert set(window.value(folded)) == {True}
    assert window.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert window.value("document.documentElement.scrollWidth") == 700
