"""Inputs as nobody should have them, made from a seed; and whether what reads them ends as embedrun may end.

A kind of input is a function that makes one from random numbers and has it read. Reading may succeed, or end
with one of embedrun's own errors; anything else is a fault: another exception, more than `LIMIT` seconds, or
more than `MEMORY` bytes beyond what the process had.
"""

import contextlib
import copy
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from embedrun.errors import EmbedrunError

SEED = os.environ.get("FUZZ_SEED", "1")
TIMES = float(os.environ.get("FUZZ_TIMES", "1"))  # as many inputs of each kind, FUZZ_TIMES=0.1 a tenth
ONLY = os.environ.get("FUZZ_ONLY")  # the number of the one input to make
LIMIT = 2.0  # seconds of the processor an input may take
MEMORY = 2 << 30  # bytes
SHOWN = 3  # inputs of a fault that are named

Read = Callable[[Random], object]


class Endless(BaseException):
    """An input took too long; nothing that catches exceptions catches this."""


def sizes(*, few: int, many: int) -> pytest.MarkDecorator:
    """Run a test with a few inputs by default, and with many by `make fuzz`."""
    count = max(1, int(many * TIMES))
    return pytest.mark.parametrize(
        "count", [pytest.param(few, id="few"), pytest.param(count, id="many", marks=pytest.mark.fuzz)]
    )


@dataclass
class Found:
    """What came of the inputs of one kind."""

    kind: str
    ends: Counter[str] = field(default_factory=Counter)
    faults: dict[str, list[str]] = field(default_factory=dict)  # the numbers of the inputs, and a traceback

    def fault(self, number: int, what: str, trace: str = "") -> None:
        self.ends["faults"] += 1
        own = self.faults.setdefault(what, [])
        if len(own) < SHOWN:
            own.append(f"FUZZ_SEED={SEED} FUZZ_ONLY={number}")
            if len(own) == 1 and trace:
                own.append(trace)

    def check(self) -> None:
        """Print the counts where many were tried, and fail with every fault."""
        count = sum(self.ends.values())
        said = f"{self.kind}: {count:,} inputs, seed {SEED}: {dict(sorted(self.ends.items()))}"
        if (report := os.environ.get("FUZZ_REPORT")) is not None:
            with Path(report).open("a", encoding="utf-8") as file:
                file.write(said + "\n")
        faults = [f"{what}\n    " + "\n    ".join(own) for what, own in self.faults.items()]
        if faults:
            pytest.fail("\n".join([said, *faults]), pytrace=False)


def trial(kind: str, count: int, read: Read) -> None:
    """Have so many inputs of a kind read; fails with every fault."""
    found = Found(kind)
    for number in range(count) if ONLY is None else [int(ONLY)]:
        one(found, number, read)
    found.check()


def one(found: Found, number: int, read: Read) -> None:
    """Make one input, and have it read; again where it took too long, which may be what is imported once."""
    slow, made = "", Random(f"{SEED} {found.kind} {number}")
    for _ in range(2):
        made.seed(f"{SEED} {found.kind} {number}")
        began = time.process_time()
        try:
            with limited():
                read(made)
            end = "read"
        except EmbedrunError as fault:
            end = f"exit {fault.exit_code}"
            if not str(fault).strip() or "Traceback" in str(fault):
                found.fault(number, f"a message without words: {fault!r}")
                return
        except Endless as fault:
            slow, end = _trace(fault), ""
            continue
        except (Exception, SystemExit) as fault:
            found.fault(number, _named(fault), _trace(fault))
            return
        if time.process_time() - began < LIMIT:
            found.ends[end] += 1
            return
    found.fault(number, f"took over {LIMIT:g} s", slow)


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Ends a block that takes longer, or more memory, than an input may."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, before[1]))
    handlers = [signal.signal(number, _stop) for number in (signal.SIGPROF, signal.SIGALRM)]
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    signal.setitimer(signal.ITIMER_REAL, 5 * LIMIT)  # it may wait for other work on this machine
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in zip((signal.SIGPROF, signal.SIGALRM), handlers, strict=True):
            signal.signal(number, handler)
        resource.setrlimit(resource.RLIMIT_AS, before)


def _stop(*_: object) -> None:
    raise Endless


def _named(fault: BaseException) -> str:
    """Type of an exception, and the innermost line of embedrun's that it went through."""
    frames = [one for one in traceback.extract_tb(fault.__traceback__) if "/embedrun/" in one.filename]
    if not frames:
        return type(fault).__name__
    return f"{type(fault).__name__} in {frames[-1].filename.rpartition('/embedrun/')[2]}:{frames[-1].lineno}"


def _trace(fault: BaseException) -> str:
    return "".join(traceback.format_exception(fault, limit=-12))[-2500:].replace("\n", "\n    ")


def in_children(kind: str, count: int, read: Read, *, together: int = 200) -> None:
    """As `trial`, in forked processes: one that dies is a fault, too, of the input that it read."""
    found = Found(kind)
    numbers = list(range(count) if ONLY is None else [int(ONLY)])
    while numbers:
        done = _in_child(found, numbers[:together], read)
        del numbers[:done]
    found.check()


def _in_child(found: Found, numbers: list[int], read: Read) -> int:
    """How many inputs were read until the process ended."""
    source, sink = os.pipe()
    sys.stdout.flush()
    if (child := os.fork()) == 0:
        os.close(source)
        _read_all(Found(found.kind), numbers, read, sink)
    os.close(sink)
    done = 0
    with open(source, encoding="utf-8") as stream:
        for line in stream:
            ends, faults = json.loads(line)
            done += 1
            found.ends.update({end: count for end, count in ends.items() if end != "faults"})
            for what, (name, *trace) in faults.items():
                found.fault(int(name.rpartition("=")[2]), what, *trace)
    _, status = os.waitpid(child, 0)
    if done < len(numbers):
        found.fault(numbers[done], f"the process ended with {os.waitstatus_to_exitcode(status)}")
        done += 1
    return done


def _read_all(found: Found, numbers: list[int], read: Read, sink: int) -> None:
    with contextlib.suppress(BaseException), open(sink, "w", encoding="utf-8") as stream:
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 2)  # where C++ says why it gives up
        for number in numbers:
            part = Found(found.kind)
            one(part, number, read)
            stream.write(json.dumps([part.ends, part.faults]) + "\n")
            stream.flush()
    os._exit(0)


# --- values

DEEP = 150
STRANGE: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**64), 10**400, 1e308, -1e308, 5e-324, 0.1, -0.0),
    *(float("nan"), float("inf"), float("-inf"), "", " ", "a", "nan", "1e400", "-1", "0x10", "true", "null"),
    *("\ud800", "a\0b", "\x1b[31m", "\u202e", "\ufeff", "é" * 50, "x" * 300, "9" * 5000, "a\nb", "../x"),
    *("/dev/zero", "~nobody/x", "file:///etc/passwd", "${oc.env:HOME}", "${x}", "run:latest", "run:", "%s"),
    *("2026-01-01T00:00:00+00:00", "2026-13-45", "9999-12-31T23:59:59-14:00", "0000-00-00", "<b>", "\\", '"'),
    *([], {}, [None], [[]], {"": None}, {"a": []}, [1, None], [{}], {"_target_": "os.system"}, ["a"] * 99),
)  # fmt: skip
_TOKENS = (
    *("{", "}", "[", "]", ",", ":", '"', "'", "\\", "\0", "\n", "\r", "\t", " ", "\ufeff", "\x1b", "é", "#"),
    *("null", "NaN", "-Infinity", "1e999", "-", "0", "9" * 400, "9" * 5000, "\\ud800", "\\u0000", "\u2028"),
    *("[" * 300, '{"a":' * 300, "true", "1.0E+", ".5", "0x1", "```", "</think>", "1. ", "- ", "(1) ", "* "),
)  # fmt: skip
_YAML = (
    *("&a ", "*a", "*b", "<<: *a\n", "<<: {}\n", "!!python/object/apply:os.system [x]", "!!binary x", "~"),
    *("!!int x", "!!timestamp x", "2026-13-45", "0001-01-01T00:00:00+23:59", "1:1:1", "? ", "- ", "---\n"),
    *("...\n", "%YAML 9", "!!set {a, b}", "!!omap [a: 1]", "!!pairs [a: 1]", "!!bool maybe", "!!float x"),
    *("!!null x", "!x ", "| ", ">-\n", ".inf", ".nan", "-.inf", "0o9", "0b2", "0x", "1_0", "yes", "@", "`"),
    *("[a, b", "{a: b", "\t", "[" * 200, "{a: " * 200, "? " * 200, "- " * 500, "9" * 5000, "1:" * 80),
    *("${a}", "${oc.env:HOME}", "${hydra:x}", "???"),
)  # fmt: skip


def value(random: Random, data: Any, *, more: int = 3) -> Any:
    """A copy of plain data with one to `more` places changed."""
    made = copy.deepcopy(data)
    for _ in range(random.randint(1, more)):
        made = _changed(random, made)
    return made


def _changed(random: Random, data: Any) -> Any:
    places = list(_places(data))
    if not places or random.random() < 0.03:
        return copy.deepcopy(random.choice(STRANGE))
    holder, key = random.choice(places)
    how = random.random()
    if how < 0.6:
        holder[key] = copy.deepcopy(random.choice(STRANGE))
    elif how < 0.75:
        del holder[key]
    elif how < 0.85:
        holder[key] = [holder[key]] if random.random() < 0.5 else {str(key): holder[key]}
    elif how < 0.95:
        other, where = random.choice(places)
        with contextlib.suppress(LookupError):
            holder[key] = copy.deepcopy(other[where])
    elif how < 0.98 and isinstance(holder, dict):
        holder[random.choice(("", "a.b", "_target_", "\ud800", "x" * 300, "name"))] = holder.pop(key)
    else:
        nested: Any = holder[key]
        for _ in range(random.choice((60, DEEP, 400))):
            nested = [nested] if random.random() < 0.5 else {"a": nested}
        holder[key] = nested
    return data


def _places(data: Any) -> Iterator[tuple[Any, Any]]:
    stack = [data]
    while stack:
        here = stack.pop()
        keys = here if isinstance(here, dict) else range(len(here)) if isinstance(here, list) else ()
        for key in keys:
            yield here, key
            stack.append(here[key])


def text(random: Random, given: str, *, words: tuple[str, ...] = _TOKENS, more: int = 4) -> str:
    """A text with one to `more` places changed."""
    for _ in range(random.randint(1, more)):
        at = random.randint(0, len(given))
        end = min(len(given), at + random.choice((0, 1, 1, 3, 20)))
        how = random.random()
        if how < 0.55:
            given = given[:at] + random.choice(words) + given[end:]
        elif how < 0.75:
            given = given[:at] + given[end:]
        elif how < 0.9:
            given = given[:end] + given[at:]
        elif how < 0.95:
            given = given[:at]
        else:
            given = given[:at] + random.choice((" ", "a", "9", "[", "é", "\n", '"')) * 3000 + given[end:]
    return given


def data(random: Random, given: bytes, *, more: int = 4) -> bytes:
    """Bytes with one to `more` places changed."""
    made = bytearray(given)
    for _ in range(random.randint(1, more)):
        at = random.randint(0, max(0, len(made) - 1))
        how = random.random()
        if how < 0.5 and made:
            made[at] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256), made[at] ^ 1))
        elif how < 0.65:
            made[at:at] = random.randbytes(random.choice((1, 2, 4, 16)))
        elif how < 0.8:
            del made[at : at + random.choice((1, 2, 8, 100))]
        elif how < 0.9:
            end = at + random.choice((1, 8, 64))
            made[at:at] = made[at:end]
        elif how < 0.95:
            del made[at:]
        else:
            made[at : at + 8] = random.choice((b"\0" * 8, b"\xff" * 8, b"\x80" * 8))
    return bytes(made)


def json_text(random: Random, given: Any) -> str:
    """JSON of plain data that was changed, or whose text was, or both; also names that stand there twice."""
    how = random.random()
    changed = value(random, given) if how < 0.75 else given
    made = json.dumps(changed, ensure_ascii=random.random() < 0.5, indent=random.choice((None, None, 2)))
    if how > 0.6:
        made = text(random, made)
    if random.random() < 0.05 and made.startswith("{") and (keys := list(_keys(given))):
        made = f'{{"{random.choice(keys)}": {json.dumps(random.choice(STRANGE))},{made[1:]}'
    return made


def _keys(given: Any) -> Iterator[str]:
    return (key for key in given if isinstance(key, str)) if isinstance(given, dict) else iter(())


def yaml_text(random: Random, given: Any) -> str:
    """YAML likewise."""
    how = random.random()
    changed = value(random, given) if how < 0.6 else given
    try:
        made = yaml.safe_dump(changed, sort_keys=False, allow_unicode=random.random() < 0.5)
    except (yaml.YAMLError, RecursionError):
        made = json.dumps(changed)
    return text(random, made, words=(*_TOKENS, *_YAML)) if how > 0.5 else made


def write(random: Random, path: Path, made: str | bytes) -> None:
    """Write a file; rarely it is a folder, missing, empty, or no UTF-8."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = made if isinstance(made, bytes) else made.encode("utf-8", "surrogatepass")
    how = random.random()
    if how < 0.005:
        path.mkdir()
    elif how < 0.01:
        return
    elif how < 0.02:
        path.symlink_to(path.name)
    else:
        path.write_bytes(data(random, content) if how < 0.05 else content)


def replace(path: Path, content: bytes) -> None:
    """Other bytes in a file; what the old ones were mapped as stays."""
    path.unlink()
    path.write_bytes(content)
