"""What a person sees: clean text, aligned tables, numbers, sizes, durations, a progress bar."""

import contextlib
import errno
import io
import logging
import math
import os
import re
import stat
import sys
import textwrap
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO, cast

# C0 (but tab and line feed), DEL, C1, the controls that reorder text, and lone surrogates, which no UTF-8
# file can hold: none of them may reach a terminal, a log or a table from a data set, a model's name or an
# exception.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_PLAIN_LINE_SECONDS = 10.0


def clean(text: str) -> str:
    """The text with every control character replaced by U+FFFD."""
    return _CONTROL.sub("\ufffd", text)


NOT_UTF8 = "its name has bytes that are not UTF-8, under which no weights can be written"


def is_utf8(text: str) -> bool:
    """Whether a text can be written as UTF-8; Python has a name that is none as half surrogate pairs."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# What stands before the host of an address. A password may hold a slash that was not written as %2F. Up to
# five digits and a slash are a port where a host is before them: one with a point in its name, or this one.
_USER = re.compile(
    r"(?<=://)(?:[^\s/?#@'\"]*|(?!\[)[^\s/?#@:'\"]*:(?!\d{0,5}/)[^\s@'\"]*"
    r"|(?!localhost:)[^\s/?#@:.'\"]+:\d*/[^\s@'\"]*)@"
)


def masked(text: str) -> str:
    """The text without the user and password of any address in it, and without keys of the environment.

    Others may quote these where they fail.
    """
    for value in _secrets():
        text = text.replace(value, "***")
    return _USER.sub("***@", text) if "://" in text else text


_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|KEY$", re.IGNORECASE)  # in the name of a variable
_SHORT = 8  # letters; what has fewer is a word that other texts have, too


def _secrets() -> list[str]:
    """The values of this process's variables that are keys by their names, the longest first; no paths."""
    found = {value for name, value in os.environ.items() if _SECRET.search(name) and len(value) >= _SHORT}
    return sorted((value for value in found if not os.path.exists(value)), key=len, reverse=True)


def say(text: str, stream: TextIO | None = None) -> None:
    """One message to the person, on a stream, else standard error; on a terminal in lines that fit it.

    A pipe and a file get it as it is, for `grep`.
    """
    to = sys.stderr if stream is None else stream
    to.write(f"{wrapped(clean(masked(text)), room(to))}\n")  # in one piece, beside those of other threads
    to.flush()


def say_and_log(text: str) -> None:
    """A message to the person that the log of the run has, too."""
    say(text)
    logging.getLogger("embedrun").info("%s", text)


class _Lasting(io.FileIO):
    """Standard output or error, which goes silent at the first write that fails.

    `fault` is why, unless the reader has left: a full disk, mostly.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream.fileno(), "w", closefd=False)
        self.name = stream.name
        self.fault: OSError | None = None

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as fault:
            self.fault = None if self._is_left(fault) else fault
            # For what other languages write there, too, and for processes that start from now on.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return memoryview(data).nbytes

    def _is_left(self, fault: OSError) -> bool:
        gone = fault.errno == errno.EIO and stat.S_ISCHR(os.fstat(self.fileno()).st_mode)  # a terminal
        return gone or isinstance(fault, ConnectionError)


def lasting(stream: TextIO | None) -> TextIO:
    """The same stream, except that it goes silent at the first write that fails; see `_Lasting`."""
    if stream is None:  # closed before Python started
        return open(os.devnull, "w", encoding="utf-8")
    text = cast(io.TextIOWrapper, stream)
    text.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_Lasting(stream)),
        encoding=text.encoding,
        # A name that is not UTF-8, or a letter that the terminal's encoding lacks, ends nothing.
        errors="backslashreplace" if text.errors == "strict" else text.errors,
        newline="\n",
        line_buffering=text.line_buffering or text.write_through,
    )


def outlast_readers() -> None:
    """From now on, neither a message nor a result that cannot be printed ends what this process does."""
    sys.stdout, sys.stderr = lasting(sys.stdout), lasting(sys.stderr)


def unprinted() -> OSError | None:
    """Why standard output has not taken all results; None if it has, or the reader has left."""
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw.fault if isinstance(raw, _Lasting) else None


def decimals(key: str) -> int:
    """Of a score as it is printed: 2 where it is × 100, as correlations and accuracies are; 4 in geometry."""
    return 4 if key.startswith(("geometry/", "geometry_dev/")) else 2


def units(keys: Iterable[str]) -> str:
    """In what the scores of these keys are: `Spearman × 100, accuracy %`; those of geometry have no unit."""
    found = []
    for key in keys:
        metric = key.rpartition("/")[2].removesuffix("_clean").removesuffix("_std")
        if metric in ("spearman", "pearson"):
            found.append(f"{metric.capitalize()} × 100")
        elif shares := [word for word in ("accuracy", "recall") if word in metric]:
            found.append(f"{shares[0]} %")
        elif decimals(key) == 2:
            found.append(f"{metric} × 100")
    return ", ".join(dict.fromkeys(found))


def score_text(key: str, value: float | None, *, sign: bool = False) -> str:
    """A score, or with `sign` a difference of scores, in plain text, never `-0.00`; `-` for none."""
    return "-" if value is None else f"{value:{'+' if sign else ''}z.{decimals(key)}f}"


def spread_text(key: str, mean: float | None, sd: float | None) -> str:
    """A score's mean over seeds with its standard deviation, if there is one; `-` for none."""
    return score_text(key, mean) + ("" if sd is None else f" ± {score_text(key, sd)}")


def aligned(rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """Rows of cells, all of one length, as text columns; the first row is the heading.

    Columns numbered in `right` are aligned at the right.
    """
    cells = [[clean(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    lines = []
    for row in cells:
        padded = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(padded).rstrip())
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def room(stream: TextIO | None = None) -> int | None:
    """Letters in a line of the terminal that a stream, else standard output, goes to; None where it is none.

    What is not read on a terminal is whole, for whoever reads it next.
    """
    to: TextIO = sys.stdout if stream is None else stream
    if not to.isatty():
        return None
    with contextlib.suppress(ValueError, OSError):
        asked = max(0, int(os.environ.get("COLUMNS", "0")))
        return asked or os.get_terminal_size(to.fileno()).columns or _USUAL
    return _USUAL


# What is copied: a command with its arguments, options, and quoted text with a path or an option in it.
_ARGUMENT = r"'[^'\n]*'|[-+<\[{.]\S*|\S*[=/]\S*|\w+[-.]\S*\w|[A-Z_]+\b|\d\S*"
_COPIED = re.compile(
    rf"(?:\b(?:embedrun (?:data )?|wandb |pip )[a-z]+\b(?!:)|\btensorboard)(?: (?:{_ARGUMENT}))*"
    r"|\+?[\w.]+=\S+(?: \+?[\w.]+=\S+)+"
    r"|(?<!\w)'[^'\n]*[/=][^'\n]*'"
)
_KEPT = "\x00"  # stands for a blank at which no line ends; `clean` text has none


def wrapped(text: str, width: int | None, indent: str = "  ") -> str:
    """Prose in lines of at most `width` letters, broken between words alone.

    A long path, URL or command stays whole. Lines but the first of each are indented by as much more; those
    that fit and, with a width of None, all are left as they are.
    """
    return "\n".join(
        part
        for line in text.split("\n")
        for part in ([line] if width is None or len(line) <= width else _broken(_kept(line), width, indent))
    )


def _broken(text: str, width: int, indent: str = "") -> list[str]:
    own = text[: len(text) - len(text.lstrip())]
    lines = textwrap.wrap(
        text, width, subsequent_indent=own + indent, break_long_words=False, break_on_hyphens=False
    )
    return [line.replace(_KEPT, " ") for line in lines] or [""]


def _kept(text: str) -> str:
    """Text in which what is copied is one word."""
    return _COPIED.sub(lambda found: found[0].replace(" ", _KEPT), text)


_USUAL = 80  # letters of a terminal that does not say
_GAP = 2
_LEAST = 24  # letters of prose beside other columns; in fewer it is hard to read


def fitted(
    rows: Sequence[Sequence[str]],
    width: int | None,
    *,
    right: Sequence[int] = (),
    wrap: Sequence[int] = (),
    cut: Sequence[int] = (),
    drop: Sequence[int] = (),
    below: int | None = None,
    first: int = 0,
) -> str:
    """`aligned`, in lines of at most `width` letters, as `room` gives them; None: whole.

    A column that is too wide is shortened, moved or left out as the caller allows, in this order. Nothing is
    broken inside a word, and a path that is longer than a line stays whole.

    Args:
        wrap: columns of prose, which may take several lines.
        cut: columns of lists, `a, b, c`, of which may be shown `a and 2 more`.
        below: a column that may have lines of its own below each row, as paths and prose.
        drop: columns that may be left out, the first one first; which they are is said below the table.
        first: how many of these go before anything has lines of its own.
    """
    cells = [[clean(cell) for cell in row] for row in rows]
    whole = aligned(cells, right=right)
    if width is None or max(map(len, whole.split("\n"))) <= width:
        return whole
    flexible = _Flexible(cells, width, wrap, cut)
    every = range(len(cells[0]))
    layouts: list[tuple[set[int], int | None]] = [
        (set(every) - {*drop[:count]}, None) for count in range(first + 1)
    ]
    layouts += [(set(every) - {below, *drop[:count]}, below) for count in range(len(drop) + 1)]
    best = next((one for one in layouts if flexible.fits(one[0])), None)
    if best is None:
        flexible.prose = 1
    shown, under = best or layouts[-1]
    widths = flexible.widths(shown)
    lines = []
    for row in cells:
        lines += _row(
            {column: flexible.cell(row[column], column, widths[column]) for column in widths}, widths, right
        )
        lines += [] if under is None or not row[under] else _broken(f"  {row[under]}", width)
        if row is cells[0]:
            lines.append((" " * _GAP).join("-" * size for size in widths.values()))
    left_out = [cells[0][column] for column in every if column not in shown and column != under]
    if left_out:
        note = f"not shown in {width} columns: {', '.join(left_out)}; a wider terminal or a pipe shows all"
        lines += ["", *_broken(note, width)]
    return "\n".join(lines)


def _row(cells: Mapping[int, list[str]], widths: Mapping[int, int], right: Sequence[int]) -> list[str]:
    """The lines of one row, whose cells are lines."""
    height = max(map(len, cells.values()))
    filled = {column: [*own, *[""] * (height - len(own))] for column, own in cells.items()}
    return [
        (" " * _GAP)
        .join(
            own[line].rjust(widths[column]) if column in right else own[line].ljust(widths[column])
            for column, own in filled.items()
        )
        .rstrip()
        for line in range(height)
    ]


@dataclass
class _Flexible:
    """Columns of a table, of which some may be narrower than their cells are."""

    cells: Sequence[Sequence[str]]
    width: int
    wrap: Sequence[int]
    cut: Sequence[int]
    prose: int = _LEAST  # letters that a column of it takes at the least, or its longest word

    def fits(self, shown: Collection[int]) -> bool:
        """Whether these columns fit at their narrowest."""
        return sum(self._least(column) + _GAP for column in shown) - _GAP <= self.width

    def widths(self, shown: Collection[int]) -> dict[int, int]:
        """The width of each column that is shown, by its number; what is left goes to those that need it."""
        found = {column: self._least(column) for column in sorted(shown)}
        spare = self.width - sum(size + _GAP for size in found.values()) + _GAP
        needy = sorted((column for column in found if self._whole(column) > found[column]), key=self._whole)
        for place, column in enumerate(needy):
            more = max(0, min(self._whole(column) - found[column], spare // (len(needy) - place)))
            found[column] += more
            spare -= more
        return found

    def cell(self, text: str, column: int, width: int) -> list[str]:
        """The lines of a cell."""
        if len(text) <= width:
            return [text]
        if column in self.cut:
            words = text.split(", ")
            ends = (f" and {len(words) - count} more" for count in range(len(words)))
            tried = [", ".join(words[:count]) + end for count, end in enumerate(ends) if count]
            return [[one for one in tried if len(one) <= width][-1]]
        return _broken(text, width)

    def _whole(self, column: int) -> int:
        return max(len(row[column]) for row in self.cells)

    def _least(self, column: int) -> int:
        whole = self._whole(column)
        texts = [row[column] for row in self.cells]
        if column in self.wrap:
            return min(whole, max(self.prose, *(len(word) for text in texts for word in text.split())))
        if column in self.cut:
            words = [text.split(", ") for text in texts]
            return max(
                min(len(text), len(own[0]) + len(f" and {len(own) - 1} more"))
                for text, own in zip(texts, words, strict=True)
            )
        return whole


def _clock(seconds: float) -> str:
    """Time left as a bar shows it, `1:48`, which keeps its width while it runs down."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Progress:
    """Progress of one long piece of work: a bar with rate and time left, in the end taken, or plain lines.

    A terminal gets one bar that is redrawn. Anything else gets a line every ten seconds and one at the end,
    without control characters. `NO_COLOR` is honoured; `EMBEDRUN_QUIET=1` shows nothing.

    Args:
        label: what is going on, ``"train"``.
        total: in units; `unit` is their name, ``"steps"``.
        file: where to write; None for standard error.
        brief: the bar of a terminal disappears at its end.
        done: units that were done before; they do not count as speed.
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
        self._label, self._total, self._unit = label, total, unit
        self._file = file or sys.stderr
        self._brief = brief
        self._done = self._shown = self._before = done
        self._note = ""
        self._started = self._printed = time.monotonic()
        self._quiet = os.environ.get("EMBEDRUN_QUIET") == "1"
        self._bar = None if self._quiet or not self._file.isatty() else self._open_bar()

    def _open_bar(self) -> Any:  # rich is imported only here
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn
        from rich.text import Text

        left = self._left

        class Left(ProgressColumn):
            def render(self, task: Any) -> Text:
                return Text(left())

        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            Left(),
            TextColumn("{task.fields[note]}", markup=False),
            console=Console(file=self._file),
            transient=self._brief,
        )
        bar.start()
        self._task = bar.add_task(self._label, total=self._total, completed=self._before, rate="", note="")
        return bar

    def _rate(self) -> float:
        return (self._done - self._before) / max(time.monotonic() - self._started, 1e-9)

    def _left(self) -> str:
        """Time left; at the end, time taken."""
        if self._done >= self._total:
            return f"took {duration(time.monotonic() - self._started)}"
        rate = self._rate()
        return f"{_clock((self._total - self._done) / rate)} left" if rate else "?:?? left"

    def reach(self, done: int, note: str = "") -> None:
        """Show `done` units as done; `note` stands at the end of the bar."""
        self._done = done
        self._note = clean(note) or self._note
        if self._bar is not None:
            rate = f"{self._rate():.1f} {self._unit}/s"
            self._bar.update(self._task, completed=self._done, rate=rate, note=self._note)
        elif time.monotonic() - self._printed >= _PLAIN_LINE_SECONDS:
            self._line()

    def _line(self) -> None:
        if self._quiet:
            return
        self._printed, self._shown = time.monotonic(), self._done
        text = f"{self._label} {self._done}/{self._total} {self._unit}, {self._rate():.1f}/s, {self._left()}"
        print(f"{text}  {self._note}".rstrip(), file=self._file, flush=True)

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
        elif time.monotonic() - self._started >= _PLAIN_LINE_SECONDS and self._shown < self._done:
            self._line()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_LARGEST = 1e300  # beyond it, differences of two numbers would not be finite
_MINUS = "\N{MINUS SIGN}"


def number(value: object) -> float | None:
    """The value as a finite number; None where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) and abs(found) < _LARGEST else None


def numbers(values: object) -> dict[str, float]:
    """The finite numbers among the values of a mapping, by key; nothing of any other object."""
    pairs = values.items() if isinstance(values, Mapping) else ()
    return {str(key): found for key, value in pairs if (found := number(value)) is not None}


def score(key: str, value: float | None, *, sign: str = "") -> str:
    """A score or, with the sign ``+``, a difference of scores, as a page has it; a dash for none."""
    if value is None:
        return "–"
    return _written(f"{value:{sign}z.{decimals(key)}f}" if abs(value) < 1e9 else f"{value:{sign}.3g}")


def before_training(pooling: object = None) -> str:
    """The heading of the scores before the first step: with the pooling, without which they mean little."""
    return f"before training ({pooling})" if pooling else "before training"


def short(value: float) -> str:
    """A number in at most four digits, as an axis has it: `0.001`, `2e-5`, `1,500`."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1e6 or size < 1e-3:
        mantissa, _, exponent = f"{value:.3g}".partition("e")
        return _written(f"{mantissa}e{int(exponent)}" if exponent else mantissa)
    return _written(f"{value:,.0f}" if size >= 1000 else f"{value:.4g}")


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


def _written(text: str) -> str:
    return text.replace("-", _MINUS) if "e" not in text else _MINUS * text.startswith("-") + text.lstrip("-")
