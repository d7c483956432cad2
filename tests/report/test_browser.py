"""The report pages in headless Chromium: width, requests, sorting, and what hostile text does."""

import json
from pathlib import Path

import pytest
from browser import Browser, browser, installed
from finished_runs import finished
from many_runs import TEST

from embedrun.report.overview import write
from embedrun.report.page import render

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not installed(), reason="needs chromium and chromedriver"),
]
HOSTILE = (
    "</title></script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
)


@pytest.fixture(scope="module")
def window():
    with browser() as opened:
        yield opened


@pytest.fixture
def overview(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs of one seed each, then three seeds of another; scores 70, 60, and 80 to 84."""
    monkeypatch.chdir(tmp_path)
    for place, (lr, seed, score) in enumerate(
        [(HOSTILE, 1, 70.0), ("0.2", 1, 60.0), ("0.3", 1, 80.0), ("0.3", 2, 82.0), ("0.3", 3, 84.0)]
    ):
        finished(f"run {place}", {"seed": seed, "training": {"lr": lr}}, {TEST: score})
    write([Path("outputs")], Path("outputs/index.html"))
    return Path("outputs/index.html")


@pytest.mark.parametrize(("width", "dark"), [(360, False), (1280, True)])
def test_the_page_of_a_run_fits_asks_for_nothing_and_runs_its_own_script_alone(
    window: Browser, rich, tmp_path, width, dark
):
    page = tmp_path / "report.html"
    page.write_text(render(rich(HOSTILE + "W" * 120)), encoding="utf-8")
    window.open_quietly(page, width=width, dark=dark)
    assert window.value("document.querySelectorAll('.chart svg').length") == 6
    assert window.value("document.title").endswith(": run report")
    assert window.value("[...document.images].every(one => one.complete && one.naturalWidth > 0)")


def scores(window: Browser) -> list[str]:
    cells = "[...document.querySelectorAll('tbody tr')].map(one => one.cells[2].firstChild.textContent)"
    return window.value(cells)


def click(window: Browser, selector: str) -> None:
    window.value(f"document.querySelector({json.dumps(selector)}).click()")


def test_the_page_over_runs_sorts_filters_and_comes_back_to_what_was_chosen(window: Browser, overview: Path):
    window.open_quietly(overview, width=500, dark=False)
    assert window.value("document.title") == "outputs: runs"
    assert scores(window) == ["82.00 ± 2.00", "70.00", "60.00"]  # the best comes first
    click(window, "[id='by main']")
    assert scores(window) == ["60.00", "70.00", "82.00 ± 2.00"]
    click(window, ".fold")
    assert sorted(scores(window)) == ["60.00", "70.00", "80.00", "82.00", "82.00 ± 2.00", "84.00"]
    window.value("(box => { box.value = 'lr=0.3'; box.dispatchEvent(new Event('input')) })"
                 "(document.getElementById('filter'))")  # fmt: skip
    before = scores(window)
    assert "70.00" not in before
    window.value("location.reload()")
    assert scores(window) == before
