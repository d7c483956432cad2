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


@pytest.mark.parametrize(("width", "dark"), [(360, False), (1280, True)])
def test_the_page_fits_asks_for_nothing_and_runs_its_own_script_alone(window, page, width, dark):
    window.open_quietly(page, width=width, dark=dark)
    assert window.value("innerWidth") == width
    assert window.value("document.querySelectorAll('.chart svg').length") == 6
    assert window.value("document.title").endswith(": run report")
    assert window.value("[...document.images].every(one => one.complete && one.naturalWidth > 0)")
