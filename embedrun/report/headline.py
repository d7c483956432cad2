"""The first thing on the page: how the run ended, and the score that stands for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from embedrun.console import number, score

_STATES = ("finished", "running", "interrupted", "failed")
_ROOM = 0.12  # of the strip's width, at either end


@dataclass(frozen=True)
class State:
    """How the run stands.

    Args:
        word: `finished`, `running`, `interrupted` or `failed`; as the file has it for any other.
        known: one of these four, else `unknown`.
        times: `started 2026-01-01 12:00 UTC` and so on.
        error: why it ended badly, if there is more to say than that it did.
    """

    word: str
    known: str
    times: tuple[str, ...]
    error: str

    @classmethod
    def of(cls, status: Mapping[str, Any]) -> "State":
        """From `status.json`."""
        word = str(status.get("state") or "no status yet")
        keys = [("started", "started"), ("resumed", "resumed"), ("ended", "ended")]
        if word == "running":
            keys.append(("last sign", "heartbeat"))
        times = tuple(f"{label} {_moment(status[key])}" for label, key in keys if status.get(key))
        error = status.get("error")
        said = str(error) if error and error != word else ""
        return cls(word, word if word in _STATES else "unknown", times, said)


@dataclass(frozen=True)
class Mark:
    """A number on the strip.

    Args:
        label: what it is.
        value: as written.
        at: percent of the strip's width.
        kind: `main`, `untrained` or `paper`.
    """

    label: str
    value: str
    at: float
    kind: str


@dataclass(frozen=True)
class Headline:
    """The main score of a run, beside what it can be held against.

    Args:
        key: of the score.
        value: as written; a word where it is undefined.
        interval: `43.30 to 54.10`, or empty.
        gain: difference to the untrained model, or empty.
        to_paper: difference to the published number, or empty.
        marks: on the strip; none where there is nothing to compare.
        span: left end and width of the interval on the strip, in percent; None for none.
    """

    key: str
    value: str
    interval: str
    gain: str
    to_paper: str
    marks: tuple[Mark, ...]
    span: tuple[float, float] | None


def headline(results: Mapping[str, Any], published: Mapping[str, float]) -> Headline | None:
    """From `results.json`; None where it names no main score.

    Args:
        results: as read; may lack anything.
        published: the paper's numbers, by key.
    """
    main = _mapping(results.get("main"))
    if not main.get("name"):
        return None
    key = str(main["name"])
    value = number(main.get("value"))
    before = number(_mapping(results.get("baseline")).get(key))
    paper = number(published.get(key))
    ends = interval(results, key)
    if value is None:
        return Headline(key, "undefined", "", "", "", (), None)
    known = [one for one in (value, before, paper, *(ends or ())) if one is not None]
    low, width = min(known), max(known) - min(known)

    def at(one: float) -> float:
        return round(100 * (_ROOM + (1 - 2 * _ROOM) * (one - low) / width), 2) if width else 50.0

    marks = [
        Mark(label, score(key, one), at(one), kind)
        for label, one, kind in (("untrained", before, "untrained"), ("paper", paper, "paper"))
        if one is not None
    ]
    marks.append(Mark("this run", score(key, value), at(value), "main"))
    return Headline(
        key=key,
        value=score(key, value),
        interval="" if ends is None else f"{score(key, ends[0])} to {score(key, ends[1])}",
        gain="" if before is None else score(key, value - before, sign="+"),
        to_paper="" if paper is None else score(key, value - paper, sign="+"),
        marks=tuple(marks) if len(marks) > 1 else (),
        span=None if ends is None else (at(ends[0]), round(at(ends[1]) - at(ends[0]), 2)),
    )


def interval(results: Mapping[str, Any], key: str) -> tuple[float, float] | None:
    """The ends of the 95 % interval of a score, where there are two and in order."""
    ends = _mapping(results.get("intervals")).get(key)
    if not isinstance(ends, list | tuple) or len(ends) != 2:
        return None
    low, high = number(ends[0]), number(ends[1])
    return None if low is None or high is None or low > high else (low, high)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _moment(text: Any) -> str:
    """A time of `status.json` in UTC, to the minute; as it stands where it is none."""
    try:
        moment = datetime.fromisoformat(str(text))
        moment = moment.astimezone(UTC) if moment.tzinfo is not None else moment
    except (ValueError, OverflowError):
        return str(text)
    return f"{moment:%Y-%m-%d %H:%M} UTC"
