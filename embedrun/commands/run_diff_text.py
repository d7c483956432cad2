"""What two runs differ in, as a person reads it."""

from collections.abc import Mapping, Sequence
from typing import Any

from embedrun.console import aligned, clean, score_text
from embedrun.runs.reading import as_text

_WIDTH = 44  # characters of an option's value
_NAMED = 12  # scores of one run alone that are named


def text(found: Mapping[str, Any]) -> str:
    """All of it: options, environment, scores, and what the prediction files say about these.

    Args:
        found: as `run_diff.diff` gives it.
    """
    parts = [
        "\n".join(f"{side}  {_run(found[side.lower()])}" for side in "AB"),
        _unlike("configuration", "option", found["configuration"]),
        _unlike("environment", "what", found["environment"]),
        _scores(found["scores"], {one["key"] for one in found["comparisons"]}),
        *(_alone(side, found[f"only_{side.lower()}"]) for side in "AB"),
        _comparisons(found["comparisons"], found["draws"]),
        _not_compared(found["not_compared"]),
        "\n".join(found["notes"]),
    ]
    return clean("\n\n".join(part for part in parts if part))


def _run(run: Mapping[str, Any]) -> str:
    return f"{run['directory']} ({run['state'] or 'no status yet'})"


def _unlike(title: str, heading: str, values: Mapping[str, Mapping[str, Any]]) -> str:
    if not values:
        return f"{title}: no difference"
    cells = [[heading, "A", "B"]]
    for key, sides in values.items():
        cells.append([key, *(as_text(sides[side], _WIDTH) if side in sides else "-" for side in "ab")])
    return f"{title}:\n{aligned(cells)}"


def _scores(scores: Sequence[Mapping[str, Any]], compared: set[str]) -> str:
    """The scores that are not in the table of comparisons."""
    cells = [["score", "A", "B", "B - A"]]
    for one in scores:
        if one["key"] not in compared:
            cells.append([one["key"], *_numbers(one)])
    return aligned(cells, right=[1, 2, 3]) if len(cells) > 1 else ""


def _alone(side: str, keys: Sequence[str]) -> str:
    if not keys:
        return ""
    more = f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else ""
    return f"only {side} has: {', '.join(keys[:_NAMED])}{more}"


def _comparisons(comparisons: Sequence[Mapping[str, Any]], draws: Mapping[str, int]) -> str:
    if not comparisons:
        return "no prediction file can be compared, so no difference has an interval or a p-value"
    cells = [["score, from predictions", "A", "B", "B - A", "95 % interval", "p", "rows"]]
    for one in comparisons:
        low, high = (score_text(one["key"], one[end], sign=True) for end in ("low", "high"))
        ends = "-" if one["low"] is None else f"{low} to {high}"
        cells.append([one["key"], *_numbers(one), ends, _p(one["p"]), f"{one['rows']:,}"])
    return (
        f"{aligned(cells, right=range(1, 7))}\n\n"
        f"interval: paired bootstrap, {draws['interval']:,} draws; p: two-sided paired permutation test, "
        f"{draws['p']:,} draws.\nEach p-value is of one line and uncorrected: of 20 lines without a real "
        "difference, one is expected below 0.05."
    )


def _not_compared(reasons: Mapping[str, str]) -> str:
    """A line for each reason, with the files that it keeps out."""
    lines = []
    for why in dict.fromkeys(reasons.values()):
        lines.append(f"not compared, {why}: {', '.join(name for name in reasons if reasons[name] == why)}")
    return "\n".join(lines)


def _numbers(one: Mapping[str, Any]) -> list[str]:
    """A, B and their difference; `-` for what is undefined."""
    key = one["key"]
    difference = score_text(key, one["difference"], sign=True)
    return [score_text(key, one["a"]), score_text(key, one["b"]), difference]


def _p(p: float | None) -> str:
    if p is None:
        return "-"
    return f"{p:.4f}" if p >= 1e-4 else "<0.0001"
