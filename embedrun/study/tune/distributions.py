"""The search space of a study, as distributions in overrides: `training.lr=loguniform(1e-6,1e-4)`."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from embedrun.config.check import nearest
from embedrun.config.decides import decides

if TYPE_CHECKING:
    from optuna.trial import Trial

FORMS = {
    "loguniform": "loguniform(a,b)",
    "uniform": "uniform(a,b)",
    "int": "int(a,b) or int(a,b,step)",
    "logint": "logint(a,b)",
    "choice": "choice(x,y,...)",
}
# Functions of Hydra's own grammar; `int` with one argument is one of them.
_HYDRA = (
    "int", "float", "str", "bool", "json_str", "extend_list",
    "range", "interval", "sort", "shuffle", "tag", "glob",
)  # fmt: skip
_DIGITS = 6  # significant digits of a proposed number: enough, and the command line stays readable
_FIXED = {
    "training.select_by": "decides which score is searched for",
    "training.select_lowest": "decides which score is the better one",
}


@dataclass(frozen=True)
class Searched:
    """One option and its distribution.

    Args:
        name: of the option, without plus signs.
        sign: the plus signs before it.
        text: the distribution in canonical form, so that equal distributions have equal texts.
        high: largest value, reached from `low` in whole steps.
        log: whether numbers are drawn uniformly on a logarithmic scale.
        step: between integers.
        options: of a choice, as written in an override.
    """

    name: str
    sign: str
    text: str
    kind: Literal["float", "int", "choice"]
    low: float = 0
    high: float = 0
    log: bool = False
    step: int = 1
    options: tuple[str, ...] = ()

    def override(self, value: object) -> str:
        """The override that gives the option a value."""
        return f"{self.sign}{self.name}={value if self.kind == 'choice' else repr(value)}"

    def ends(self) -> Sequence[object]:
        """The values to check before the search: both ends of the range, or every option of a choice."""
        return list(self.options) if self.kind == "choice" else [self.low, self.high]

    def every(self) -> Sequence[object] | None:
        """All values; None for floats."""
        if self.kind == "choice":
            return self.options
        return range(int(self.low), int(self.high) + 1, self.step) if self.kind == "int" else None

    def rounded(self, value: Any) -> Any:
        """A proposed value as it is used: a float rounded to 6 significant digits, within the range."""
        if self.kind != "float":
            return value
        return min(max(float(f"{value:.{_DIGITS}g}"), self.low), self.high)

    def suggest(self, trial: "Trial") -> Any:
        """The value that optuna proposes for a trial, or has stored for it."""
        if self.kind == "choice":
            return trial.suggest_categorical(self.name, self.options)
        if self.kind == "int":
            step = {} if self.log else {"step": self.step}
            return trial.suggest_int(self.name, int(self.low), int(self.high), log=self.log, **step)
        return trial.suggest_float(self.name, self.low, self.high, log=self.log)


@dataclass(frozen=True)
class Split:
    """Options with a distribution, all other overrides as they were typed, and what is wrong with any."""

    searched: list[Searched] = field(default_factory=list)
    fixed: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def split(overrides: Sequence[str]) -> Split:
    """Separate the options to search from plain overrides; Hydra's own sweeps are refused as problems."""
    found = Split()
    for override in overrides:
        key, _, value = override.partition("=")
        name = key.lstrip("+")
        call = re.fullmatch(r"\s*(\w+)\((.*)\)\s*", value, re.DOTALL)
        arguments = _arguments(call[2]) if call else []
        if call and call[1] in FORMS and not (call[1] == "int" and len(arguments) == 1):
            try:
                found.searched.append(_searched(name, key[: len(key) - len(name)], call[1], arguments))
            except ValueError as fault:
                found.problems.append(f"{name}: {call[0].strip()}: {fault}")
        elif problem := _problem(name, override, call[1] if call else None):
            found.problems.append(problem)
        else:
            found.fixed.append(override)
    found.problems.extend(_together(found))
    return found


def _searched(name: str, sign: str, word: str, arguments: list[str]) -> Searched:
    """One option; raises `ValueError` if its distribution is invalid, or the option cannot be searched."""
    if reason := _FIXED.get(name) or _kind(name):
        raise ValueError(f"this option {reason}, and cannot be searched")
    if word == "choice":
        return _choice(name, sign, arguments)
    whole = word in ("int", "logint")
    if len(arguments) not in ((2, 3) if word == "int" else (2,)):
        raise ValueError(f"write {FORMS[word]}")
    low, high, *rest = [_number(text, whole=whole) for text in arguments]
    if low >= high:
        raise ValueError(f"the first end must be below the second, got {arguments[0]} and {arguments[1]}")
    if word in ("loguniform", "logint") and low <= 0:
        raise ValueError(f"a logarithm needs ends above 0, got {arguments[0]}")
    text = f"{word}({low!r},{high!r})"
    if word == "uniform" or word == "loguniform":
        return Searched(name, sign, text, "float", low, high, log=word == "loguniform")
    step = int(rest[0]) if rest else 1
    if not 0 < step <= high - low:
        raise ValueError(f"the step must be from 1 to {high - low}, got {step}")
    text = text if step == 1 else f"{word}({low!r},{high!r},{step})"
    high -= (high - low) % step
    return Searched(name, sign, text, "int", low, high, log=word == "logint", step=step)


def _kind(name: str) -> str | None:
    """Why options of this kind cannot be searched, or None."""
    if re.match(r"hydra[./]", name):
        return "is Hydra's own"
    return "changes no score" if decides(name) == "nothing" else None


def _choice(name: str, sign: str, arguments: list[str]) -> Searched:
    if len(arguments) < 2 or "" in arguments:
        raise ValueError(f"write {FORMS['choice']} with two values or more")
    if twice := [text for text in dict.fromkeys(arguments) if arguments.count(text) > 1]:
        raise ValueError(f"{twice[0]} is given twice")
    return Searched(name, sign, f"choice({','.join(arguments)})", "choice", options=tuple(arguments))


def _number(text: str, *, whole: bool) -> int | float:
    if whole:
        if not re.fullmatch(r"[+-]?\d{1,15}", text):
            raise ValueError(f"expected a whole number, got {text or 'nothing'}")
        return int(text)
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"expected a number, got {text or 'nothing'}") from None
    if not math.isfinite(number):
        raise ValueError(f"expected a finite number, got {text}")
    return number


def _arguments(text: str) -> list[str]:
    """The parts between commas, except those in brackets, in quotes, or after a \\."""
    parts, depth, quote, is_escaped = [""], 0, "", False
    for letter in text:
        if is_escaped or letter == "\\":  # as in Hydra's grammar
            is_escaped = not is_escaped
        elif quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append("")
            continue
        parts[-1] += letter
    return [part.strip() for part in parts]


def _problem(name: str, override: str, word: str | None) -> str | None:
    """Why an override is not a plain one, or None."""
    if word is not None and word not in _HYDRA:
        return (
            f"{name}: no distribution {word!r}{nearest(word, FORMS)} (there are: {', '.join(FORMS.values())})"
        )
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import IntervalSweep, RangeSweep
    from hydra.errors import HydraException

    try:
        parsed = OverridesParser.create().parse_override(override)
    except HydraException:
        return None  # composing reports what is wrong with it
    if not parsed.is_sweep_override():
        return None
    value = parsed.value()
    if isinstance(value, IntervalSweep):
        ends = f"({value.start:g},{value.end:g})"
        way = f"write '{name}=uniform{ends}'"
        way += f", or loguniform{ends} to search by orders of magnitude" if (value.start or 0) > 0 else ""
    elif isinstance(value, RangeSweep) and all(
        isinstance(end, int) for end in (value.start, value.stop, value.step)
    ):
        last = range(value.start, value.stop, value.step)[-1:]  # type: ignore[arg-type]
        step = f",{value.step}" if value.step != 1 else ""
        way = f"write '{name}=int({value.start},{last[0]}{step})'" if last else f"write '{name}=int(a,b)'"
    else:
        given = ",".join(_arguments(override.partition("=")[2])) if word is None else "x,y,..."
        way = f"write '{name}=choice({given})' to search them, or '{name}=[...]' for one list"
    return f"{name}: {override.partition('=')[2]} is a sweep of -m, which tune does not do; {way}"


def _together(found: Split) -> Iterator[str]:
    """What is wrong with the overrides together: duplicates, or nothing to search."""
    names = [one.name for one in found.searched]
    plain = [override.partition("=")[0].lstrip("+") for override in found.fixed]
    for name in dict.fromkeys(names):
        if names.count(name) + plain.count(name) > 1:
            yield f"{name}: is given twice; keep one of them"
    if not found.searched and not found.problems:
        yield (
            "nothing to search; give an option a distribution, 'training.lr=loguniform(1e-6,1e-4)' "
            f"(there are: {', '.join(FORMS.values())})"
        )
