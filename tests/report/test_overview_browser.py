"""The page over many runs in headless Chromium: sort, filter, ticks, reload, width, first paint."""

import json
from pathlib import Path

import pytest
from browser import Browser, installed
from finished_runs import finished
from many_runs import DEV, TEST

from embedrun.report.overview import write

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not installed(), reason="needs chromium and chromedriver"),
]
HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
LABELS = "[...document.querySelectorAll('tbody .name')].map(one => one.firstChild.textContent)"


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs of one seed each, then three seeds of another; scores 70, 60, and 80 to 84."""
    monkeypatch.chdir(tmp_path)
    for place, (lr, seed, score) in enumerate(
        [(HOSTILE, 1, 70.0), ("0.2", 1, 60.0), ("0.3", 1, 80.0), ("0.3", 2, 82.0), ("0.3", 3, 84.0)]
    ):
        scores = {TEST: score, DEV: score + 1}
        path = finished(f"run {place}", {"seed": seed, "training": {"lr": lr}}, scores)
        status = json.loads((path / "status.json").read_text())
        (path / "status.json").write_text(
            json.dumps({**status, "started": f"2026-01-01T00:00:0{place}+00:00"})
        )
        rows = [(step, "train", "loss", seed + 9.0 - step) for step in range(5)]
        rows += [(step, "dev", DEV, score + step / 10) for step in range(5)]
        lines = [json.dumps(dict(zip(("step", "split", "name", "value"), row, strict=True))) for row in rows]
        (path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    (path / "report.html").write_text("<title>own</title>")
    write([Path("outputs")], Path("outputs/index.html"))
    return Path("outputs/index.html")


def column(window: Browser, number: int) -> list[str]:
    return window.value(
        f"[...document.querySelectorAll('tbody tr')].map(one => one.cells[{number}].firstChild.textContent)"
    )


def click(window: Browser, selector: str) -> None:
    window.value(f"document.querySelector({json.dumps(selector)}).click()")


def press(window: Browser, key: str, code: int, text: str = "") -> None:
    for kind in ("keyDown", "keyUp"):
        more = {"text": text} if text and kind == "keyDown" else {}
        event = {"type": kind, "key": key, "windowsVirtualKeyCode": code, **more}
        window.devtools("Input.dispatchKeyEvent", event)


@pytest.mark.parametrize(("width", "dark"), [(500, False), (1280, True)])
def test_the_page_fits_asks_for_nothing_and_runs_its_own_script_alone(window, page, width, dark):
    window.open_quietly(page, width=width, dark=dark)
    assert window.value("document.title") == "outputs: runs"
    assert window.value("document.images.length") == 0
    assert len(window.value(LABELS)) == 3
    box = window.value(
        "(box => [box.scrollWidth, box.clientWidth, box.tabIndex])(document.getElementById('box'))"
    )
    assert box[1] <= width
    assert box[2] == 0
    assert window.value(  # a name and its score side by side, without scrolling
        "document.querySelector('tbody tr').cells[2].getBoundingClientRect().right < innerWidth"
    )


def test_a_heading_sorts_by_mouse_and_by_keyboard_and_says_so(window, page):
    window.open(page, width=1280)
    sorts = "[...document.querySelectorAll('[aria-sort]')].map(one => one.ariaSort)"
    assert column(window, 2) == ["82.00 ± 2.00", "70.00", "60.00"]  # the best comes first
    assert window.value(sorts) == ["descending"]
    window.value("document.getElementById('by main').focus()")
    press(window, "Enter", 13, "\r")
    assert column(window, 2) == ["60.00", "70.00", "82.00 ± 2.00"]
    assert window.value(sorts) == ["ascending"]
    press(window, " ", 32, " ")
    assert column(window, 2) == ["82.00 ± 2.00", "70.00", "60.00"]
    assert window.value("document.activeElement.id") == "by main"
    click(window, "[id='by started']")
    assert column(window, 2) == ["82.00 ± 2.00", "60.00", "70.00"]


def test_the_address_keeps_sort_filter_and_ticks_and_the_page_comes_back_to_them(window, page):
    window.open(page, width=1280)
    click(window, "[id='by main']")
    click(window, ".fold")
    click(window, "tbody tr:last-child input")
    window.value("(box => { box.value = 'lr'; box.dispatchEvent(new Event('input')) })"
                 "(document.getElementById('filter'))")  # fmt: skip
    seen = (
        "[location.hash, document.getElementById('filter').value,"
        " document.querySelector('[aria-sort]').innerText,"
        " [...document.querySelectorAll('tbody tr')].map(one => one.innerText),"
        " [...document.querySelectorAll('tbody input')].map(one => one.checked),"
        " [...document.querySelectorAll('#ticked path')].map(one => one.className.baseVal)]"
    )
    before = window.value(seen)
    assert "%22sort%22%3A%22main%22" in before[0]
    window.value("location.reload()")
    assert window.value(seen) == before
