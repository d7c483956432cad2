import errno
import io
import os
import pty
from typing import TextIO

import pytest

from embedrun import console
from embedrun.console import (
    Progress,
    aligned,
    clean,
    duration,
    fitted,
    ignore_broken_pipes,
    number,
    numbers,
    room,
    say,
    score,
    score_text,
    short,
    size,
    wrapped,
)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("\x1b[31mred\x1b]0;title\x07", "\ufffd[31mred\ufffd]0;title\ufffd"),  # CSI, OSC
        ("a\rb\x00\x7f\x9b", "a\ufffdb\ufffd\ufffd\ufffd"),  # C0, DEL, C1
        ("\u202eevil\u2066\u200f\u061c", "\ufffdevil\ufffd\ufffd\ufffd"),  # reorders text
        ("\udcff", "\ufffd"),  # a byte that is no UTF-8, as Python hands it on
        ("tab\tline\nnaïve 日本 😀", "tab\tline\nnaïve 日本 😀"),
    ],
)
def test_clean_replaces_every_control_character_and_nothing_else(text: str, cleaned: str):
    assert clean(text) == cleaned


def test_a_message_is_clean_and_in_one_piece():
    pieces: list[str] = []
    stream = io.StringIO()
    stream.write = pieces.append
    say("a\x1bb", stream)
    assert pieces == ["a\ufffdb\n"]  # of two threads, no line stands in another


def test_a_reader_that_leaves_ends_nothing(monkeypatch: pytest.MonkeyPatch):
    read, write = os.pipe()
    with open(write, "w", encoding="ascii") as out, open(os.dup(write), "w", encoding="ascii") as error:
        monkeypatch.setattr("sys.stdout", out)
        monkeypatch.setattr("sys.stderr", error)
        ignore_broken_pipes()
        print("one ±", flush=True)
        assert os.read(read, 99) == b"one \\xb1\n"
        os.close(read)
        print("two", flush=True)
        say("three")
        console.sys.stdout.close()
        console.sys.stderr.close()


def test_a_full_disk_is_a_fault(monkeypatch: pytest.MonkeyPatch):
    with open("/dev/full", "w") as full, open(os.devnull, "w") as error:
        monkeypatch.setattr("sys.stdout", full)
        monkeypatch.setattr("sys.stderr", error)
        ignore_broken_pipes()
        with pytest.raises(OSError, match="No space left") as caught:
            print("a result", flush=True)
        assert caught.value.errno == errno.ENOSPC
        monkeypatch.undo()


ROWS = [
    ["run", "state", "score"],
    ["outputs/quickstart/2026-11-22_12-01-00-8d3d51", "finished", "81.23"],
    ["b", "running, step 5 of 10", "-"],
]


def test_aligned_pads_columns_and_underlines_the_heading():
    assert aligned([["name", "n"], ["a", "10"], ["long name", "5"]], right=[1]) == (
        "name        n\n---------  --\na          10\nlong name   5"
    )
    assert fitted(ROWS, None, right=[2]) == aligned(ROWS, right=[2])


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_table_on_a_terminal_takes_its_width_and_loses_nothing(width: int):
    shown = fitted([*ROWS, ["[b]", "\x1b[31m", "1"]], width, right=[2])
    assert max(map(len, shown.splitlines())) <= width
    assert "[b]" in shown  # text, not markup
    assert "\x1b" not in shown
    first_column = "".join(line.split()[0] for line in shown.splitlines()[1:] if line[0] != " ")
    assert first_column.startswith(ROWS[1][0])


def test_prose_is_broken_between_words_and_a_path_stays_whole():
    path = "/a/folder/with-a-name/that-is-long"
    assert wrapped(f"the run is in {path} now", 20).splitlines() == ["the run is in", f"  {path}", "  now"]
    assert wrapped("one two\nthree", 7) == "one two\nthree"
    assert wrapped("one two three", None) == "one two three"


class Clock:
    """A clock that the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(console.time, "monotonic", lambda: self.now)


@pytest.fixture(autouse=True)
def _loud(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EMBEDRUN_QUIET", raising=False)


def test_a_file_gets_a_line_every_ten_seconds_and_one_at_the_end(monkeypatch):
    clock, file = Clock(monkeypatch), io.StringIO()
    with Progress("train", 30, "steps", file) as bar:
        for step in range(1, 31):
            clock.now = step * 0.5
            bar.reach(step, f"loss {step}\x1b")
    assert file.getvalue().splitlines() == [
        "train 20/30 steps, 2.0/s, 5.0 s left  loss 20\ufffd",
        "train 30/30 steps, 2.0/s, 0.0 s left  loss 30\ufffd",
    ]


def test_short_work_gets_no_line_and_a_pause_does_not_count(monkeypatch):
    clock, file = Clock(monkeypatch), io.StringIO()
    with Progress("score", 4, "sentences", file, done=2) as bar:
        with bar.paused():
            clock.now = 60
        clock.now = 61
    assert file.getvalue() == ""


def on_a_terminal() -> str:
    """What a terminal gets of a bar."""
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as file:
        assert room(file)
        with Progress("train", 4, "steps", file) as bar:
            bar.reach(4, "loss [bold]1.5\x1b]0;t\x07")
        file.write("-end-")
        file.flush()
        with os.fdopen(master, "rb", buffering=0) as terminal:
            text = b""
            while not text.endswith(b"-end-"):
                text += terminal.read(1 << 16)
    return text.decode().removesuffix("-end-")


def test_a_terminal_gets_a_bar_and_no_control_character_of_the_note(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    text = on_a_terminal()
    assert "━" in text
    assert "4/4" in text
    assert "[bold]1.5\ufffd]0;t\ufffd" in text  # a note is text, not markup
    assert "\x1b]0" not in text
    monkeypatch.setenv("EMBEDRUN_QUIET", "1")
    assert on_a_terminal() == ""


def test_what_is_no_terminal_has_no_width():
    file: TextIO = io.StringIO()
    assert room(file) is None


@pytest.mark.parametrize(
    ("key", "value", "plain", "page"),
    [
        ("sts/avg/spearman", 81.236, "81.24", "81.24"),
        ("sts/avg/spearman", -0.004, "0.00", "0.00"),
        ("geometry/uniformity", -2.34567, "-2.3457", "−2.3457"),
        ("geometry_dev/alignment", 0.1, "0.1000", "0.1000"),
        ("stsb_dev/spearman", None, "-", "–"),
    ],
)
def test_a_score_has_the_digits_of_its_range_and_is_never_minus_zero(key, value, plain, page):
    assert (score_text(key, value), score(key, value)) == (plain, page)


def test_a_difference_has_its_sign():
    assert score_text("sts/avg/spearman", 0.5, sign=True) == score("a", 0.5, sign="+") == "+0.50"
    assert score_text("sts/avg/spearman", -0.004, sign=True) == "+0.00"


def test_scores_are_in_units_that_are_named_once():
    keys = ("sts/avg/spearman", "sts/avg/spearman_clean", "sts/avg/pearson", "senteval/mr/accuracy_std")
    assert console.units(keys) == "Spearman × 100, Pearson × 100, accuracy %"
    assert console.units(["mteb/STS22/ndcg_at_10", "flickr30k/recall_at_5"]) == "ndcg_at_10 × 100, recall %"
    assert console.units(["geometry/uniformity"]) == ""


def test_only_finite_numbers_are_numbers():
    nan, inf = float("nan"), float("inf")
    assert [number(value) for value in (None, True, "3", [1], nan, inf, -inf, 10**400, 1e301)] == [None] * 9
    assert numbers({"a": 1, "b": None, "c": 2.5, "d": "x"}) == {"a": 1.0, "c": 2.5}
    assert numbers(["a"]) == {}


def test_an_axis_has_numbers_in_their_shortest_form():
    values = (0, 0.001, 2e-5, -2e-5, 1.5, -0.25, 1500, 2.5e7)
    assert [short(value) for value in values] == [
        "0", "0.001", "2e-5", "−2e-5", "1.5", "−0.25", "1,500", "2.5e7",
    ]  # fmt: skip


def test_times_are_in_the_units_of_their_size():
    said = [duration(seconds) for seconds in (3.24, 59.4, 59.7, 200, 7500, 172_800, 875_000)]
    assert said == ["3.2 s", "59 s", "1 min 0 s", "3 min 20 s", "2 h 5 min", "2 days 0 h", "10 days 3 h"]


def test_sizes_are_in_the_units_of_memory():
    sizes = [size(count) for count in (0, 999, 12_345, 1.3e6, 1.32e9)]
    assert sizes == ["0 B", "999 B", "12.1 KiB", "1.2 MiB", "1.2 GiB"]
