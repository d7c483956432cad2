import errno
import io
import os
import pty

import pytest

from embedrun import console
from embedrun.console import (
    Progress,
    clean,
    ignore_broken_pipes,
    number,
    numbers,
    room,
    score,
    score_text,
)


def test_clean_replaces_every_control_character_and_nothing_else():
    for text, cleaned in [
        ("\x1b[31mred\x1b]0;title\x07", "\ufffd[31mred\ufffd]0;title\ufffd"),  # CSI, OSC
        ("a\rb\x00\x7f\x9b", "a\ufffdb\ufffd\ufffd\ufffd"),  # C0, DEL, C1
        ("\u202eevil\u2066\u200f\u061c", "\ufffdevil\ufffd\ufffd\ufffd"),  # reorders text
        ("\udcff", "\ufffd"),  # a byte that is no UTF-8, as Python hands it on
        ("tab\tline\nnaïve 日本 😀", "tab\tline\nnaïve 日本 😀"),
    ]:
        assert clean(text) == cleaned


def test_a_full_disk_is_a_fault(monkeypatch: pytest.MonkeyPatch):
    with open("/dev/full", "w") as full, open(os.devnull, "w") as error:
        monkeypatch.setattr("sys.stdout", full)
        monkeypatch.setattr("sys.stderr", error)
        ignore_broken_pipes()
        with pytest.raises(OSError, match="No space left") as caught:
            print("a result", flush=True)
        assert caught.value.errno == errno.ENOSPC
        monkeypatch.undo()


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


def test_a_score_has_the_digits_of_its_range_and_is_never_minus_zero():
    for key, value, plain, page in [
        ("sts/avg/spearman", 81.236, "81.24", "81.24"),
        ("sts/avg/spearman", -0.004, "0.00", "0.00"),
        ("geometry/uniformity", -2.34567, "-2.3457", "−2.3457"),
        ("geometry_dev/alignment", 0.1, "0.1000", "0.1000"),
        ("stsb_dev/spearman", None, "-", "–"),
    ]:
        assert (score_text(key, value), score(key, value)) == (plain, page)


def test_only_finite_numbers_are_numbers():
    nan, inf = float("nan"), float("inf")
    assert [number(value) for value in (None, True, "3", [1], nan, inf, -inf, 10**400, 1e301)] == [None] * 9
    assert numbers({"a": 1, "b": None, "c": 2.5, "d": "x"}) == {"a": 1.0, "c": 2.5}
    assert numbers(["a"]) == {}
