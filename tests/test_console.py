import errno
import io
import os
import pty
import termios
from typing import TextIO

import pytest

from embedrun import console
from embedrun.console import (
    Progress,
    aligned,
    clean,
    fitted,
    lasting,
    room,
    say,
    score_text,
    unprinted,
    wrapped,
)


@pytest.fixture
def pipe():
    """A pipe as standard output or error has it; returns its file and the end that is read."""
    read, write = os.pipe()
    with open(write, "w", encoding="utf-8") as file:
        yield file, read


def test_a_pipe_whose_reader_leaves_is_written_to_in_silence(pipe):
    file, read = pipe
    stream = lasting(file)
    print("one", file=stream, flush=True)
    assert os.read(read, 9) == b"one\n"
    os.close(read)
    for _ in range(2):
        print("two", file=stream, flush=True)
    assert os.write(file.fileno(), b"three") == 5  # what C++ prints, and processes that start now
    stream.close()


def test_a_terminal_that_is_closed_is_written_to_in_silence_by_the_bar_too():
    master, terminal = pty.openpty()
    with open(terminal, "w", encoding="utf-8") as file:
        stream = lasting(file)
        assert stream.isatty()
        with Progress("train", 10, "steps", stream) as bar:
            bar.reach(1)
            os.close(master)
            bar.reach(2)
        print("end", file=stream, flush=True)


@pytest.mark.parametrize("flush", [True, False])
def test_results_that_a_full_disk_does_not_take_end_nothing_and_are_known_at_the_end(monkeypatch, flush):
    with open("/dev/full", "w", encoding="utf-8") as full:
        monkeypatch.setattr(console.sys, "stdout", lasting(full))
        assert unprinted() is None
        for _ in range(2):
            print("a result", flush=flush)
        lost = unprinted()
        assert lost is not None
        assert lost.errno == errno.ENOSPC
        console.sys.stdout.close()


def test_results_that_a_reader_has_left_are_none_to_miss(monkeypatch, pipe):
    file, read = pipe
    monkeypatch.setattr(console.sys, "stdout", lasting(file))
    os.close(read)
    print("a result")
    assert unprinted() is None
    console.sys.stdout.close()


def test_a_stream_that_was_closed_before_the_start_takes_what_is_printed():
    with lasting(None) as stream:
        print("a message", file=stream, flush=True)


def test_what_lasts_has_the_encoding_of_the_stream_and_what_stood_in_its_buffer(pipe):
    file, read = pipe
    file.reconfigure(encoding="latin-1", errors="backslashreplace")
    file.write("first ")
    with lasting(file) as stream:
        stream.write("é 日\n")
    assert os.read(read, 99) == b"first \xe9 \\u65e5\n"
    os.close(read)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("\x1b[31mred\x1b[0m", "\ufffd[31mred\ufffd[0m"),  # CSI
        ("\x1b]0;title\x07", "\ufffd]0;title\ufffd"),  # OSC
        ("\x9b31m", "\ufffd31m"),  # C1
        ("a\rb\x00\x7f", "a\ufffdb\ufffd\ufffd"),
        ("\u202eevil\u2066\u200f\u061c", "\ufffdevil\ufffd\ufffd\ufffd"),  # reorders text
        ("\udcff", "\ufffd"),  # a byte that is no UTF-8, as Python hands it on
        ("tab\tline\nnaïve 日本 😀", "tab\tline\nnaïve 日本 😀"),
    ],
)
def test_clean_replaces_every_control_character_and_nothing_else(text: str, cleaned: str):
    assert clean(text) == cleaned


def test_cleaned_text_can_always_be_written_as_utf8():
    clean("".join(map(chr, range(0x110000)))).encode()


def test_say_writes_clean_text_to_standard_error(capsys):
    say("a\x1bb")
    out, error = capsys.readouterr()
    assert (out, error) == ("", "a\ufffdb\n")


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("sts/avg/spearman", 81.236, "81.24"),
        ("geometry/uniformity", -2.34567, "-2.3457"),
        ("geometry_dev/alignment", 0.1, "0.1000"),
        ("stsb_dev/spearman", None, "-"),
    ],
)
def test_a_score_has_the_digits_of_its_range(key, value, text):
    assert score_text(key, value) == text


def test_scores_are_in_units_that_are_named_once():
    keys = ("sts/avg/spearman", "sts/avg/spearman_clean", "sts/avg/pearson", "senteval/mr/accuracy_std")
    assert console.units(keys) == "Spearman × 100, Pearson × 100, accuracy %"
    assert console.units(["mteb/STS22/ndcg_at_10", "flickr30k/recall_at_5"]) == "ndcg_at_10 × 100, recall %"
    assert console.units(["geometry/uniformity"]) == ""


def test_a_difference_has_its_sign():
    assert score_text("sts/avg/spearman", 0.5, sign=True) == "+0.50"


def test_no_score_and_no_difference_is_minus_zero():
    assert score_text("sts/avg/spearman", -0.004) == "0.00"
    assert score_text("sts/avg/spearman", -0.004, sign=True) == "+0.00"
    assert score_text("geometry/alignment", -0.004, sign=True) == "-0.0040"


WIDE = [
    ["run", "state", "loss", "score"],
    ["outputs/quickstart/2026-11-22_12-01-00-8d3d51", "finished", "angle, cosent, mse", "81.23"],
    ["outputs/quickstart/2026-11-22_12-02-00-8d3d52", "running, step 5 of 10, 3 s left", "cosent", "-"],
]


def flexible(width: int | None) -> str:
    return fitted(WIDE, width, right=[3], wrap=[1], cut=[2], drop=[2], below=0)


@pytest.mark.parametrize("width", [40, 50, 60, 80, 100, 120])
def test_no_line_of_a_table_is_longer_than_the_terminal_and_no_word_is_broken(width):
    out = flexible(width)
    assert max(map(len, out.splitlines())) <= max(width, 47)  # a path is never shortened
    words = {word for row in WIDE for cell in row for word in cell.split()}
    said = out.partition("\n\nnot shown")[0].replace("and 2 more", "").replace("and 1 more", "")
    assert {word for word in said.split() if set(word) != {"-"}} - words <= {"angle"}  # of "angle, ..."
    assert all(row[0] in out for row in WIDE)


def test_without_a_terminal_a_table_is_whole():
    assert flexible(None) == aligned(WIDE, right=[3])
    assert flexible(200) == aligned(WIDE, right=[3])


def test_prose_takes_several_lines_beside_the_other_columns():
    rows = [["what", "found"], ["hub", "not asked, so that nothing is downloaded"], ["gpu", "none"]]
    assert fitted(rows, 30, wrap=[1]).splitlines() == [
        "what  found",
        "----  ------------------------",
        "hub   not asked, so that",
        "      nothing is downloaded",
        "gpu   none",
    ]


def test_of_a_list_is_shown_what_fits_and_how_much_more_there_is():
    rows = [["set", "presets"], ["a", "one, two, three, four"], ["b", "five"]]
    assert fitted(rows, 20, cut=[1]).splitlines()[2:] == ["a    one and 3 more", "b    five"]
    assert fitted(rows, 25, cut=[1]).splitlines()[2] == "a    one, two and 2 more"


def test_a_column_that_was_left_out_is_named():
    rows = [["a", "licence", "hub"], ["1", "mostly open", "yes"]]
    assert fitted(rows, 10, drop=[1, 2]).splitlines()[:3] == ["a  hub", "-  ---", "1  yes"]
    note = " ".join(fitted(rows, 10, drop=[1, 2]).split("\n\n")[1].split())
    assert note == "not shown in 10 columns: licence; a wider terminal or a pipe shows all"


def test_a_long_path_has_a_line_of_its_own_below_its_row():
    rows = [["run", "score"], ["outputs/one/two/three", "1.00"]]
    assert fitted(rows, 24, right=[1], below=0).splitlines() == [
        "score", "  run", "-----", " 1.00", "  outputs/one/two/three",
    ]  # fmt: skip


def test_prose_is_broken_between_words_and_a_path_stays_whole():
    path = "/a/folder/with-a-name/that-is-long"
    assert wrapped(f"the run is in {path} now", 20).splitlines() == ["the run is in", f"  {path}", "  now"]
    assert wrapped("one two\nthree", 7) == "one two\nthree"
    assert wrapped("one two three", None) == "one two three"


def test_lines_after_the_first_stand_further_in_than_it():
    said = "input has 1 problem:\n  rows.csv: no such file, pass dataset.path=FILE"
    assert wrapped(said, 24).splitlines() == [
        "input has 1 problem:",
        "  rows.csv: no such",
        "    file, pass",
        "    dataset.path=FILE",
    ]


@pytest.mark.parametrize(
    ("said", "whole"),
    [
        (
            "embedrun resume 'outputs/my runs/one' continues from what is done",
            "embedrun resume 'outputs/my runs/one'",
        ),
        ("to pack it: pip install '.[fast]' in the folder of the sources", "pip install '.[fast]'"),
        (
            "nothing is there; embedrun data get NAME --from DIR fills it now",
            "embedrun data get NAME --from DIR",
        ),
        ("no such file: '/home/me/my rows/train.csv'; name another that is", "'/home/me/my rows/train.csv'"),
        (
            "embedrun train -m +experiment=quickstart seed=1,2 runs what is left",
            "embedrun train -m +experiment=quickstart seed=1,2",
        ),
        (
            "names a kind; for your own write dataset=pairs dataset.path=rows.csv (or dataset=texts) now",
            "dataset=pairs dataset.path=rows.csv",
        ),
        (
            "try embedrun export RUN_DIR my-model next and load it from there",
            "embedrun export RUN_DIR my-model",
        ),
    ],
)
@pytest.mark.parametrize("width", [20, 35, 50])
def test_what_is_copied_is_on_one_line(said, whole, width):
    lines = wrapped(said, width).splitlines()
    assert [line for line in lines if whole in line]
    assert " ".join(" ".join(lines).split()) == said
    assert all(len(line) <= width for line in lines if whole not in line)


@pytest.mark.parametrize("width", [80, 120])
def test_a_message_takes_the_width_of_the_terminal_and_is_one_line_in_a_pipe(monkeypatch, pipe, width):
    monkeypatch.delenv("COLUMNS", raising=False)
    said = "warning: " + "a sentence of words that goes on " * 9 + "/a/path"
    master, file = on_a_terminal()
    with file:
        termios.tcsetwinsize(file.fileno(), (24, width))
        say(said, file)
        first, *more = read_to_end(master, file).splitlines()
    assert width - len("sentence ") < len(first) <= width
    assert all(line.startswith("  ") and len(line) <= width for line in more)
    say(said, pipe[0])
    assert os.read(pipe[1], 999).decode() == f"{said}\n"


def test_only_a_terminal_has_a_width(monkeypatch, pipe):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert room(pipe[0]) is None
    master, terminal = pty.openpty()
    with open(terminal, "w", encoding="utf-8") as file:
        assert room(file) == 80  # one that does not say
        termios.tcsetwinsize(file.fileno(), (24, 120))
        assert room(file) == 120
        monkeypatch.setenv("COLUMNS", "100")
        assert room(file) == 100
        monkeypatch.setenv("COLUMNS", "-1")
        assert room(file) == 120
    os.close(master)


def test_aligned_pads_columns_and_underlines_the_heading():
    assert aligned([["name", "n"], ["a", "10"], ["long name", "5"]], right=[1]) == (
        "name        n\n---------  --\na          10\nlong name   5"
    )


class Clock:
    """A clock that the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(console.time, "monotonic", lambda: self.now)


@pytest.fixture(autouse=True)
def _loud(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EMBEDRUN_QUIET", raising=False)


def test_a_file_gets_a_line_every_ten_seconds(monkeypatch):
    clock, file = Clock(monkeypatch), io.StringIO()
    with Progress("train", 40, "steps", file) as bar:
        for step in range(1, 41):
            clock.now = step * 0.5
            bar.reach(step, f"loss {step}")
    assert file.getvalue().splitlines() == [
        "train 20/40 steps, 2.0/s, 0:10 left  loss 20",
        "train 40/40 steps, 2.0/s, took 20 s  loss 40",
    ]


def test_work_that_ends_between_two_lines_gets_a_last_one(monkeypatch):
    clock, file = Clock(monkeypatch), io.StringIO()
    with Progress("train", 30, "steps", file) as bar:
        for step in range(1, 31):
            clock.now = step * 0.5
            bar.reach(step)
    assert [line.split(",")[0] for line in file.getvalue().splitlines()] == [
        "train 20/30 steps",
        "train 30/30 steps",
    ]


def test_a_file_gets_no_escape_byte_and_short_work_no_line(monkeypatch):
    clock, file = Clock(monkeypatch), io.StringIO()
    with Progress("score", 2, "sentences", file) as bar:
        bar.reach(2, "\x1b[31m")
    assert file.getvalue() == ""
    with Progress("score", 2, "sentences", file) as bar:
        clock.now = 11
        bar.reach(1, "\x1b[31m")
    assert "\ufffd[31m" in file.getvalue()
    assert "\x1b" not in file.getvalue()


END = "-end-"


def on_a_terminal() -> tuple[int, TextIO]:
    master, slave = pty.openpty()
    return master, os.fdopen(slave, "w")


def read_to_end(master: int, file: TextIO) -> str:
    """All that the terminal got; one read may give a part of it only."""
    file.write(END)
    file.flush()
    with os.fdopen(master, "rb", buffering=0) as terminal:
        text = b""
        while not text.endswith(END.encode()):
            text += terminal.read(1 << 16)
    return text.decode().removesuffix(END)


@pytest.mark.parametrize("no_color", [False, True])
def test_a_terminal_gets_a_bar_and_no_control_character_of_the_note(monkeypatch, no_color: bool):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    master, file = on_a_terminal()
    with file:
        with Progress("train", 4, "steps", file) as bar:
            bar.reach(4, "loss [bold]1.5\x1b]0;t\x07")
        text = read_to_end(master, file)
    assert "━" in text
    assert "4/4" in text
    assert "[bold]1.5\ufffd]0;t\ufffd" in text  # a note is text, not markup
    assert "\x1b]0" not in text
    assert ("\x1b[38;" in text) is not no_color


def test_quiet_shows_nothing_even_on_a_terminal(monkeypatch):
    monkeypatch.setenv("EMBEDRUN_QUIET", "1")
    clock = Clock(monkeypatch)
    master, file = on_a_terminal()
    with file:
        with Progress("train", 4, "steps", file) as bar:
            clock.now = 60
            bar.reach(2)
        assert read_to_end(master, file) == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no model 'https://user:pass@host/m' here", "no model 'https://***@host/m' here"),
        ("https://token@host", "https://***@host"),
        ("[{url: 'http://:pa/ss@host:80/v1'}]", "[{url: 'http://***@host:80/v1'}]"),
        ("ssh://git@host/a and ftp://a:b@c", "ssh://***@host/a and ftp://***@c"),
        ("https://joe:1234/..@host", "https://***@host"),
        ("https://first.last:123456/x@host", "https://***@host"),  # no port has six digits
    ],
)
def test_users_and_passwords_in_addresses_are_found_and_never_said(text, shown, capsys):
    say(text)
    assert capsys.readouterr().err == f"{shown}\n"


@pytest.mark.parametrize(
    "text",
    [
        "https://host.org:8080/a@b",
        "http://localhost:8080/a@b",
        "http://[::1]:80/a@b",
        "https://host/@user",
        "hf://datasets/O/N@main",
        "a@b.c, https://d.e",
        "x:y@z",
    ],
)
def test_an_at_that_is_of_no_user_stays(text, capsys):
    say(text)
    assert capsys.readouterr().err == f"{text}\n"


def test_a_letter_that_the_stream_cannot_have_ends_nothing():
    read, write = os.pipe()
    with open(write, "w", encoding="ascii") as file:
        print("80 ± 1 in b\udcff", file=lasting(file), flush=True)
        assert os.read(read, 99) == rb"80 \xb1 1 in b\udcff" + b"\n"
    os.close(read)


def test_a_message_and_its_end_are_written_in_one_piece():
    pieces: list[str] = []
    stream = io.StringIO()
    stream.write = pieces.append
    say("one", stream)
    assert pieces == ["one\n"]  # of two threads, no line stands in another
