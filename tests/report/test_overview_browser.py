"""The page over many runs in headless Chromium: sort, filter, ticks, reload, width, first paint."""

import json
import time
from pathlib import Path
from urllib.parse import quote

import pytest
from browser import Browser, installed
from finished_runs import finished
from many_runs import DEV, TEST, many

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


@pytest.mark.parametrize("width", [500, 1280])
@pytest.mark.parametrize("dark", [False, True])
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


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize(
    "selector", ["body", ".note", "thead button", "td.number", "td small", ".state", "a", ".y"]
)
def test_text_stands_out_from_its_ground(window, page, dark, selector):
    window.open(page, width=1280, dark=dark)
    click(window, ".fold")
    colours = window.value(
        f"[document.querySelector('{selector}'), document.body].map(one => getComputedStyle(one))"
        ".map((style, place) => place ? style.backgroundColor : style.color)"
    )
    text, ground = (luminance(colour) for colour in colours)
    assert (ground < 0.05) == dark
    assert (max(text, ground) + 0.05) / (min(text, ground) + 0.05) >= 4.5  # WCAG 2.2, criterion 1.4.3


def luminance(colour: str) -> float:
    """Relative luminance of `rgb(r, g, b)`, by WCAG 2.2."""
    shares = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    red, green, blue = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in shares]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


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


def test_what_has_no_score_comes_last_in_either_order(window, page):
    (finished("late", {"seed": 1, "training": {"lr": "0.9"}}) / "results.json").unlink()
    write([Path("outputs")], page)
    window.open(page, width=1280)
    assert column(window, 2) == ["82.00 ± 2.00", "70.00", "60.00", "–"]
    click(window, "[id='by main']")
    assert column(window, 2) == ["60.00", "70.00", "82.00 ± 2.00", "–"]


def test_a_row_that_is_opened_by_the_keyboard_keeps_the_focus(window, page):
    window.open(page, width=1280)
    window.value("document.querySelector('.fold').focus()")
    press(window, "Enter", 13, "\r")
    assert len(column(window, 2)) == 6
    assert window.value("document.activeElement.className") == "fold"


def test_seeds_stand_together_open_on_request_and_apart_on_another(window, page):
    window.open(page, width=1280)
    assert window.value("document.querySelector('tbody td.number small').textContent") == "mean ± sd, n = 3"
    click(window, ".fold")
    assert column(window, 2) == ["82.00 ± 2.00", "84.00", "82.00", "80.00", "70.00", "60.00"]
    click(window, "#seeds")
    assert column(window, 2) == ["84.00", "82.00", "80.00", "70.00", "60.00"]


def test_a_filter_leaves_the_rows_that_hold_all_of_its_words(window, page):
    window.open(page, width=1280)
    for text, scores in (("0.2", ["60.00"]), ("LR=0.3 finished", ["82.00 ± 2.00"]), ("nothing", [])):
        window.value(f"(box => {{ box.value = '{text}'; box.dispatchEvent(new Event('input')) }})"
                     "(document.getElementById('filter'))")  # fmt: skip
        assert column(window, 2) == scores
    assert window.value("document.getElementById('shown').textContent") == "0 of 5 shown"


def test_ticked_runs_have_their_curves_and_seeds_a_band(window, page):
    window.open(page, width=1280)
    assert window.value("document.querySelectorAll('.chart').length") == 2
    lines, bands = ".chart:first-child path.line", ".chart:first-child path.band"
    count = f"[document.querySelectorAll('{lines}').length, document.querySelectorAll('{bands}').length]"
    assert window.value(count) == [3, 1]
    click(window, "tbody tr:nth-child(2) input")
    assert window.value(count) == [2, 1]
    click(window, "#none")
    assert window.value(count) == [0, 0]
    assert window.value("document.getElementById('hint').checkVisibility()")
    click(window, "tbody tr:nth-child(3) input")
    click(window, ".fold")
    # Losses 10 to 6 of seed 1, between levels 0 and 2 more than the largest: a straight line down.
    assert window.value("document.querySelector('.chart path.line').getAttribute('d')").count("L") == 4


@pytest.mark.parametrize("again", [False, True])
def test_the_band_is_the_deviation_over_seeds_each_of_which_counts_once(window, page, again):
    if again:  # seed 3 is run a second time and killed, which is in no mean of the table either
        path = finished("again", {"seed": 3, "training": {"lr": "0.3"}})
        (path / "results.json").unlink()
        rows = [{"step": step, "split": "dev", "name": DEV, "value": 10.0} for step in range(5)]
        (path / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
        write([Path("outputs")], page)
    window.open(page, width=1280)
    click(window, "#none")
    click(window, "tbody tr:nth-child(1) input")
    # At step 0 the dev scores are 80, 82 and 84, at step 4 they are 80.4, 82.4 and 84.4: 82 ± 2 to 82.4 ± 2.
    levels = window.value(
        "[...document.querySelectorAll('.chart:last-child .y')].map(one => +one.textContent)"
    )
    path = window.value("document.querySelector('.chart:last-child .band').getAttribute('d')")
    low, high = levels[0], levels[-1]
    heights = [float(part.split()[1].rstrip("Z")) for part in path.replace("M", "L").split("L") if part]
    values = [low + (100 - height) * (high - low) / 100 for height in heights]
    assert values == pytest.approx([84.0, 84.1, 84.2, 84.3, 84.4, 80.4, 80.3, 80.2, 80.1, 80.0], abs=0.01)


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


def test_a_watched_page_loads_itself_again_but_while_somebody_types(window, page):
    write([Path("outputs")], page, reload=0.5)
    window.open(page, width=1280)
    window.value("document.getElementById('filter').focus()")
    finished("late", {"seed": 1, "training": {"lr": "0.9"}}, {TEST: 99.0})
    write([Path("outputs")], page)
    time.sleep(1.5)
    assert "99.00" not in column(window, 2)
    window.value("document.getElementById('filter').blur()")
    deadline = time.monotonic() + 20
    while "99.00" not in column(window, 2) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert column(window, 2) == ["99.00", "82.00 ± 2.00", "70.00", "60.00"]
    assert "loaded again" not in window.value("document.getElementById('written').textContent")


def test_a_page_that_nobody_rewrites_any_more_says_so_and_stays(window, page):
    text = page.read_text(encoding="utf-8").replace('"reload":null', '"reload":0.2')
    page.write_text(text.replace('"written":"20', '"written":"19'), encoding="utf-8")
    window.open(page, width=1280)
    assert window.value("document.getElementById('written').textContent").endswith("no longer rewritten")


def test_a_run_with_a_page_is_a_link_to_it_and_another_says_that_it_has_none(window, page):
    window.open(page, width=1280)
    click(window, ".fold")
    assert window.value("document.querySelectorAll('tbody a').length") == 1
    assert window.value("document.body.innerText").count("no page of its own yet") == 4
    click(window, "tbody a")
    assert window.value("document.title") == "own"


def test_in_print_nothing_is_dark_and_controls_are_left_out(window, page):
    window.open(page, width=700, dark=True, media="print")
    assert window.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not window.value("document.getElementById('filter').checkVisibility()")
    assert window.value("document.getElementById('table').checkVisibility()")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page over 500 runs with full curves."""
    folder = tmp_path_factory.mktemp("large")
    many(folder, 500)
    write([folder], folder / "index.html")
    return folder / "index.html"


@pytest.mark.parametrize("width", [500, 1280])
@pytest.mark.parametrize("seeds", ["together", "apart"])
def test_five_hundred_runs_are_small_and_painted_within_a_second(window, large, width, seeds):
    assert large.stat().st_size < 5_000_000
    painted = "performance.getEntriesByName('first-contentful-paint').map(one => one.startTime)"
    soonest = []
    for attempt in range(4):  # the machine may have other work
        view = quote(json.dumps({"seeds": seeds == "together", "attempt": attempt}))
        window.open(large, width=width, fragment=view)
        time.sleep(0.5)
        assert len(column(window, 0)) == (12 if seeds == "together" else 500)
        soonest += window.value(painted)
    assert 0 < min(soonest) < 1_000  # ms
    assert window.value("document.documentElement.scrollWidth") == width
