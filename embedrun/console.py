"""What a person sees: clean text, tables, numbers, sizes, durations, a progress bar."""

import contextlib
import errno
import io
import logging
import os
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TextIO

# C0 (but tab and line feed), DEL, C1, the controls that reorder text, and lone surrogates, which no UTF-8
# file can hold: none of them may reach a terminal, a log or a table from a data set, a model's name or an
# exception.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def clean(text: str) -> str:
    """The text with every control character replaced by U+FFFD."""
    return _CONTROL.sub("\ufffd", text)


_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|KEY$", re.IGNORECASE)  # in the name of a variable
_SHORT = 8  # letters; a shorter value is a word that other texts have too


def masked(text: str) -> str:
    """The text without the keys of the environment, which libraries may quote where they fail."""
    values = {value for name, value in os.environ.items() if _SECRET.search(name) and len(value) >= _SHORT}
    for value in sorted(values, key=len, reverse=True):
        if not os.path.exists(value):  # such as HF_TOKEN_PATH
            text = text.replace(value, "***")
    return text


def say(text: str, stream: TextIO | None = None) -> None:
    """One message to the person, on a stream, else standard error."""
    to = sys.stderr if stream is None else stream
    to.write(f"{clean(masked(text))}\n")  # in one piece, beside those of other threads
    to.flush()


def say_and_log(text: str) -> None:
    """A message to the person that the log of the run has too."""
    say(text)
    logging.getLogger("embedrun").info("%s", text)


class _Output(io.FileIO):
    """A standard stream whose reader may leave."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as fault:
            if fault.errno not in (errno.EPIPE, errno.EIO):  # a closed pipe, a closed terminal
                raise
            return memoryview(data).nbytes


def ignore_broken_pipes() -> None:
    """From now on, a reader of standard output or error that leaves does not end this process."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        stream.flush()
        output = io.BufferedWriter(_Output(stream.fileno(), "w", closefd=False))
        buffered = {"line_buffering": stream.line_buffering, "write_through": stream.write_through}
        setattr(sys, name, io.TextIOWrapper(output, stream.encoding, "backslashreplace", **buffered))


# --- tables and prose


def aligned(rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """Rows of cells, all of one length, as text columns; the first row is the heading.

    Columns numbered in `right` are aligned at the right.
    """
    cells = [[clean(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        padded = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(padded).rstrip())
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def fitted(rows: Sequence[Sequence[str]], width: int | None, *, right: Sequence[int] = ()) -> str:
    """`aligned`, for a terminal of `width` letters: cells that are too wide take several lines."""
    if width is None:
        return aligned(rows, right=right)
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="underline")
    for column, heading in enumerate(rows[0]):
        table.add_column(
            Text(clean(heading)), justify="right" if column in right else "left", overflow="fold"
        )
    for row in rows[1:]:
        table.add_row(*(Text(clean(cell)) for cell in row))
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as capture:
        console.print(table)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def room(stream: TextIO | None = None) -> int | None:
    """Letters in a line of the terminal that a stream, else standard output, goes to; None if it is none."""
    to: TextIO = sys.stdout if stream is None else stream
    return shutil.get_terminal_size().columns if to.isatty() else None


def wrapped(text: str, width: int | None, indent: str = "  ") -> str:
    """Prose in lines of at most `width` letters, the further ones indented; None: as it is."""
    if width is None:
        return text
    return "\n".join(
        textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        for line in text.split("\n")
    )


# --- progress

_PLAIN_LINE_SECONDS = 10.0


class Progress:
    """Progress of one long piece of work: a bar with rate and time left, or plain lines.

    A terminal gets one bar that is redrawn. Anything else gets a line every ten seconds and one at the end,
    without control characters. `NO_COLOR` is honoured; `EMBEDRUN_QUIET=1` shows nothing. A `brief` bar of a
    terminal disappears at its end; units that were `done` before do not count as speed.
    """

    def __init__(
        self,
        label: str,
        total: int,
        unit: str,
        file: TextIO | None = None,
        *,
        brief: bool = False,
        done: int = 0,
    ) -> None:
        self._label, self._total, self._unit, self._brief = label, total, unit, brief
        self._file = file or sys.stderr
        self._done = self._before = done
        self._note = ""
        self._started = self._printed = time.monotonic()
        self._quiet = os.environ.get("EMBEDRUN_QUIET") == "1"
        self._bar = None if self._quiet or not self._file.isatty() else self._open_bar()

    def _open_bar(self) -> Any:  # rich is imported only here
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(elapsed_when_finished=True),
            TextColumn("{task.fields[note]}", markup=False),
            console=Console(file=self._file),
            transient=self._brief,
        )
        bar.start()
        self._task = bar.add_task(self._label, total=self._total, completed=self._before, rate="", note="")
        return bar

    def reach(self, done: int, note: str = "") -> None:
        """Show `done` units as done; `note` stands at the end of the bar."""
        self._done, self._note = done, clean(note) or self._note
        if self._bar is not None:
            rate = f"{self._rate():.1f} {self._unit}/s"
            self._bar.update(self._task, completed=done, rate=rate, note=self._note)
        elif time.monotonic() - self._printed >= _PLAIN_LINE_SECONDS:
            self._line()

    def _rate(self) -> float:
        return (self._done - self._before) / max(time.monotonic() - self._started, 1e-9)

    def _line(self) -> None:
        if not self._quiet:
            rate = self._rate()
            left = duration((self._total - self._done) / rate) if rate else "?"
            text = f"{self._label} {self._done}/{self._total} {self._unit}, {rate:.1f}/s, {left} left"
            say(f"{text}  {self._note}".rstrip(), self._file)
        self._printed = time.monotonic()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Make room for another bar; the time inside is not counted."""
        started = time.monotonic()
        if self._bar is not None:
            self._bar.live.transient = True  # the bar comes back below, so it leaves no line here
            self._bar.stop()
        try:
            yield
        finally:
            self._started += time.monotonic() - started
            if self._bar is not None:
                self._bar.live.transient = self._brief
                self._bar.start()

    def close(self) -> None:
        """End the bar, or print the last line if the work took long enough to have any."""
        if self._bar is not None:
            self._bar.stop()
        elif time.monotonic() - self._started >= _PLAIN_LINE_SECONDS:
            self._line()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# --- numbers

_LARGEST = 1e300  # beyond it, differences of two numbers would not be finite
_MINUS = "\N{MINUS SIGN}"


def number(value: object) -> float | None:
    """The value as a finite number; None where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < _LARGEST else None


def numbers(values: object) -> dict[str, float]:
    """The finite numbers among the values of a mapping, by key; nothing of any other object."""
    pairs = values.items() if isinstance(values, Mapping) else ()
    return {str(key): finite for key, value in pairs if (finite := number(value)) is not None}


def decimals(key: str) -> int:
    """Of a score as it is printed: 2 where it is × 100, as correlations and accuracies are; 4 in geometry."""
    return 4 if key.startswith(("geometry/", "geometry_dev/")) else 2


def units(keys: Iterable[str]) -> str:
    """In what the scores of these keys are: `Spearman × 100, accuracy %`; those of geometry have no unit."""
    names = []
    for key in keys:
        metric = key.rpartition("/")[2].partition("@")[0].removesuffix("_clean").removesuffix("_std")
        if metric in ("spearman", "pearson"):
            names.append(f"{metric.capitalize()} × 100")
        elif shares := [word for word in ("accuracy", "recall", "precision") if word in metric]:
            names.append(f"{shares[0]} %")
        elif decimals(key) == 2:
            names.append(f"{metric} × 100")
    return ", ".join(dict.fromkeys(names))


def score_text(key: str, value: float | None, *, sign: bool = False) -> str:
    """A score, or with `sign` a difference of scores, in plain text, never `-0.00`; `-` for none."""
    return "-" if value is None else f"{value:{'+' if sign else ''}z.{decimals(key)}f}"


def spread_text(key: str, mean: float | None, sd: float | None) -> str:
    """A score's mean over seeds with its standard deviation, if there is one; `-` for none."""
    return score_text(key, mean) + ("" if sd is None else f" ± {score_text(key, sd)}")


def score(key: str, value: float | None, *, sign: str = "") -> str:
    """A score or, with the sign ``+``, a difference of scores, as a page has it; a dash for none."""
    return "–" if value is None else score_text(key, value, sign=bool(sign)).replace("-", _MINUS)


def before_training(pooling: object = None) -> str:
    """The heading of the scores before the first step: with the pooling, without which they mean little."""
    return f"before training ({pooling})" if pooling else "before training"


def short(value: float) -> str:
    """A number in at most four digits, as an axis has it: `0.001`, `2e-5`, `1,500`."""
    size = abs(value)
    if size >= 1e6 or 0 < size < 1e-3:
        mantissa, _, exponent = f"{size:.3g}".partition("e")
        text = f"{mantissa}e{int(exponent)}" if exponent else mantissa
    else:
        text = f"{size:,.0f}" if size >= 1000 else f"{size:.4g}"
    return text if value >= 0 else _MINUS + text


def duration(seconds: float) -> str:
    """`8.4 s`, `3 min 20 s`, `2 h 5 min`, `10 days 3 h`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24:,} days {hours % 24} h"
    if hours:
        return f"{hours} h {minutes} min"
    if minutes:
        return f"{minutes} min {rest} s"
    return f"{seconds:.1f} s" if seconds < 10 else f"{rest} s"


def size(count: float) -> str:
    """Bytes in the units of memory, as torch and the tools of a device print them: `512 B`, `1.3 GiB`."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
