"""The search space of a study, as distributions in overrides: `training.lr=loguniform(1e-6,1e-4)`."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from embedrun.config.check import nearest
from embedrun.config.decides import decides

FORMS = {
    "loguniform": "loguniform(a,b)",
    "uniform": "uniform(a,b)",
    "int": "int(a,b) or int(a,b,step)",
    "logint": "logint(a,b)",
    "choice": "choice(x,y,...)",
}
_THERE_ARE = f"there are: {', '.join(FORMS.values())}"
_CASTS = ("int", "float", "str", "bool", "json_str", "extend_list")  # of Hydra: make one value
_DIGITS = 6  # significant digits of a proposed number: enough, and the command line stays readable
_FIXED = ("training.select_by", "training.select_lowest")  # decide which score is searched for, and how


@dataclass(frozen=True)
class Searched:
    """One option and its distribution.

    `sign` are the plus signs before the name in its override; `text` is the distribution in canonical form,
    so that equal ones have equal texts; the options of a choice are as written in an override.
    """

    name: str
    sign: str
    text: str
    distribution: FloatDistribution | IntDistribution | CategoricalDistribution

    def override(self, value: object) -> str:
        """The override that gives the option a value."""
        return f"{self.sign}{self.name}={value if isinstance(value, str) else repr(value)}"

    def ends(self) -> Sequence[Any]:
        """The values to check before the search: both ends of the range, or every option of a choice."""
        space = self.distribution
        return space.choices if isinstance(space, CategoricalDistribution) else [space.low, space.high]

    def every(self) -> Sequence[object] | None:
        """All values; None for floats."""
        if isinstance(self.distribution, IntDistribution):
            return range(self.distribution.low, self.distribution.high + 1, self.distribution.step)
        return None if isinstance(self.distribution, FloatDistribution) else self.distribution.choices

    def at(self, share: float) -> Any:
        """The value that this share of the distribution, in [0, 1), is below."""
        space, values = self.distribution, self.every()
        if isinstance(space, CategoricalDistribution) or (values is not None and not space.log):
            assert values is not None
            return values[int(share * len(values))]
        low, high = space.low, space.high + isinstance(space, IntDistribution)  # below the next whole number
        value = low * (high / low) ** share if space.log else low + share * (high - low)
        return self.rounded(value) if isinstance(space, FloatDistribution) else int(value)

    def rounded(self, value: Any) -> Any:
        """A proposed value as it is used: a float rounded to 6 significant digits, within the range."""
        if not isinstance(self.distribution, FloatDistribution):
            return value
        return min(max(float(f"{value:.{_DIGITS}g}"), self.distribution.low), self.distribution.high)


@dataclass(frozen=True)
class Split:
    """Options with a distribution, all other overrides as they were typed, and what is wrong with any."""

    searched: list[Searched] = field(default_factory=list)
    fixed: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def split(overrides: Sequence[str]) -> Split:
    """Separate the options to search from plain overrides; Hydra's own sweeps are refused as problems."""
    parts = Split()
    names = []
    for override in overrides:
        key, _, value = override.partition("=")
        names.append(name := key.lstrip("+"))
        call = re.fullmatch(r"\s*(\w+)\((.*)\)\s*", value, re.DOTALL)
        word, inside = call.groups() if call else ("", "")
        try:
            if word in FORMS and (word != "int" or "," in inside):
                parts.searched.append(_searched(name, key.removesuffix(name), word, inside))
            else:
                _check_plain(override, word)
                parts.fixed.append(override)
        except ValueError as fault:
            parts.problems.append(f"{name}: {value.strip()}: {fault}")
    twice = dict.fromkeys(option.name for option in parts.searched if names.count(option.name) > 1)
    parts.problems.extend(f"{name}: is given twice; keep one of them" for name in twice)
    if not parts.searched and not parts.problems:
        parts.problems.append(
            "nothing to search; give an option a distribution, 'training.lr=loguniform(1e-6,1e-4)' "
            f"({_THERE_ARE})"
        )
    return parts


def _searched(name: str, sign: str, word: str, inside: str) -> Searched:
    if name in _FIXED or re.match(r"hydra[./]", name) or decides(name) == "nothing":
        raise ValueError("this option changes no score or says which one is compared; it cannot be searched")
    text, distribution = _choice(inside) if word == "choice" else _range(word, inside)
    return Searched(name, sign, text, distribution)


def _choice(inside: str) -> tuple[str, CategoricalDistribution]:
    options = _options(inside)
    if len(set(options)) < max(2, len(options)) or "" in options:
        raise ValueError(f"write {FORMS['choice']} with two values or more, all different")
    return f"choice({','.join(options)})", CategoricalDistribution(options)


def _range(word: str, inside: str) -> tuple[str, FloatDistribution | IntDistribution]:
    is_float, log = word.endswith("uniform"), word.startswith("log")
    numbers = [_number(text.strip(), float if is_float else int) for text in inside.split(",")]
    if len(numbers) != 2 and (word, len(numbers)) != ("int", 3):
        raise ValueError(f"write {FORMS[word]}")
    low, high, step = (*numbers, 1)[:3]
    if low >= high or (log and low <= 0):
        above = " above 0" if log else ""
        raise ValueError(f"write {FORMS[word]} with a below b{above}, got {inside}")
    if is_float:
        return f"{word}({low!r},{high!r})", FloatDistribution(low, high, log=log)
    if not 0 < step <= high - low:
        raise ValueError(f"the step must be from 1 to {high - low}, got {step}")
    reached = high - (high - low) % step
    text = f"{word}({low!r},{high!r}{'' if step == 1 else f',{step}'})"
    return text, IntDistribution(int(low), int(reached), log=log, step=int(step))


def _number(text: str, kind: type[int] | type[float]) -> float:
    try:
        number = kind(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        expected = "whole" if kind is int else "finite"
        raise ValueError(f"expected a {expected} number, got {text or 'nothing'}")
    return number


def _options(text: str) -> list[str]:
    """The parts between commas, except those in brackets, in quotes, or after a backslash."""
    parts, depth, quote, is_escaped = [""], 0, "", False
    for letter in text:
        if is_escaped or letter == "\\":  # as in Hydra's grammar
            is_escaped = not is_escaped
        elif letter in "'\"" and quote in ("", letter):
            quote = "" if quote else letter
        elif not quote:
            depth += (letter in "([{") - (letter in ")]}")
            if letter == "," and depth == 0:
                parts.append("")
                continue
        parts[-1] += letter
    return [part.strip() for part in parts]


def _check_plain(override: str, word: str) -> None:
    """Raise `ValueError` for an override that is a sweep of Hydra, or a distribution that there is not."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        is_sweep = OverridesParser.create().parse_override(override).is_sweep_override()
    except HydraException:
        if word and word not in _CASTS:
            raise ValueError(f"no distribution {word!r}{nearest(word, FORMS)} ({_THERE_ARE})") from None
        return  # composing reports what is wrong with it
    if is_sweep:
        raise ValueError(f"is a sweep of -m, which tune does not do; write a distribution ({_THERE_ARE})")
