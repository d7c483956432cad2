"""The search space of a study, as distributions in overrides: `training.lr=loguniform(1e-6,1e-4)`."""

import math
import re
from collections.abc import Sequence
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
# Functions of Hydra's own grammar that make one value; `int` with one argument is one of them.
_CASTS = ("int", "float", "str", "bool", "json_str", "extend_list")
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
    parts = Split()
    for override in overrides:
        key, _, value = override.partition("=")
        name = key.lstrip("+")
        call = re.fullmatch(r"\s*(\w+)\((.*)\)\s*", value, re.DOTALL)
        arguments = _arguments(call[2]) if call else []
        try:
            if call and call[1] in FORMS and not (call[1] == "int" and len(arguments) == 1):
                parts.searched.append(_searched(name, key[: len(key) - len(name)], call[1], arguments))
            else:
                _check_plain(override, call[1] if call else None)
                parts.fixed.append(override)
        except ValueError as fault:
            parts.problems.append(f"{name}: {value.strip()}: {fault}")
    names = [searched.name for searched in parts.searched]
    names += [override.partition("=")[0].lstrip("+") for override in parts.fixed]
    parts.problems.extend(
        f"{searched.name}: is given twice; keep one of them"
        for searched in {searched.name: searched for searched in parts.searched}.values()
        if names.count(searched.name) > 1
    )
    if not parts.searched and not parts.problems:
        parts.problems.append(
            "nothing to search; give an option a distribution, 'training.lr=loguniform(1e-6,1e-4)' "
            f"(there are: {', '.join(FORMS.values())})"
        )
    return parts


def _searched(name: str, sign: str, word: str, arguments: list[str]) -> Searched:
    """One option; raises `ValueError` if its distribution is invalid, or the option cannot be searched."""
    fixed = _FIXED.get(name) or ("is Hydra's own" if re.match(r"hydra[./]", name) else None)
    if fixed or decides(name) == "nothing":
        raise ValueError(f"this option {fixed or 'changes no score'}, and cannot be searched")
    if word == "choice":
        if len(set(arguments)) < max(2, len(arguments)) or "" in arguments:
            raise ValueError(f"write {FORMS[word]} with two values or more, all different")
        return Searched(name, sign, f"choice({','.join(arguments)})", "choice", options=tuple(arguments))
    if len(arguments) not in ((2, 3) if word == "int" else (2,)):
        raise ValueError(f"write {FORMS[word]}")
    low, high, *rest = [_number(text, whole=word in ("int", "logint")) for text in arguments]
    log = word.startswith("log")
    if low >= high or (log and low <= 0):
        above = " above 0" if log else ""
        raise ValueError(f"write {FORMS[word]} with a below b{above}, got {arguments[0]} and {arguments[1]}")
    text = f"{word}({low!r},{high!r})"
    if word in ("uniform", "loguniform"):
        return Searched(name, sign, text, "float", low, high, log=log)
    step = int(rest[0]) if rest else 1
    if not 0 < step <= high - low:
        raise ValueError(f"the step must be from 1 to {high - low}, got {step}")
    text = text if step == 1 else f"{word}({low!r},{high!r},{step})"
    return Searched(name, sign, text, "int", low, high - (high - low) % step, log=log, step=step)


def _number(text: str, *, whole: bool) -> int | float:
    if whole and re.fullmatch(r"[+-]?\d{1,15}", text):
        return int(text)
    try:
        number = math.nan if whole else float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"expected a {'whole' if whole else 'finite'} number, got {text or 'nothing'}")
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


def _check_plain(override: str, word: str | None) -> None:
    """Raise `ValueError` for an override that is a sweep of Hydra, or a distribution that there is not."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    forms = f"there are: {', '.join(FORMS.values())}"
    try:
        is_sweep = OverridesParser.create().parse_override(override).is_sweep_override()
    except HydraException:
        if word is not None and word not in _CASTS:
            raise ValueError(f"no distribution {word!r}{nearest(word, FORMS)} ({forms})") from None
        return  # composing reports what is wrong with it
    if is_sweep:
        raise ValueError(f"is a sweep of -m, which tune does not do; write a distribution ({forms})")
