"""The scores of a run as a person reads them."""

from collections.abc import Mapping
from pathlib import Path

from embedrun.commands.kept import finite_intervals
from embedrun.commands.scoring import flat
from embedrun.console import aligned, say
from embedrun.evaluation.clean import SUFFIX
from embedrun.evaluation.source import Scores

# Why a score is undefined.
_WHY = "all predictions or all gold scores are equal, a vector is not finite, or fewer than two rows are left"
_NAMED = 5  # undefined scores, before they are only counted
_SHARES = ("geometry/", "geometry_dev/")  # whose scores are not times 100


def table(
    scores: Mapping[str, float],
    baseline: Mapping[str, float],
    intervals: Mapping[str, tuple[float, float]],
) -> str:
    """Scores as a text table, beside those of the untrained model where there are any.

    A score on the clean rows stands there only where it is another than that on all rows.
    """
    whole = {key: scores.get(key.removesuffix(SUFFIX)) for key in scores if key.endswith(SUFFIX)}
    scores = {key: value for key, value in scores.items() if whole.get(key) != value}
    lines = [["score", "untrained", "trained", "difference"] if baseline else ["score", "value"]]
    for key, value in scores.items():
        before = baseline.get(key)
        if not baseline:
            lines.append([key, _number(key, value)])
        elif before is None:
            lines.append([key, "-", _number(key, value), "-"])
        else:
            change = _number(key, value - before, sign="+")
            lines.append([key, _number(key, before), _number(key, value), change])
    if any(key in intervals for key in scores):
        ends = [_ends(key, intervals.get(key)) for key in scores]
        lines = [[*line, end] for line, end in zip(lines, ["95 % interval", *ends], strict=True)]
    return aligned(lines, right=range(1, len(lines[0])))


def _number(key: str, value: float, *, sign: str = "") -> str:
    return f"{value:{sign}.4f}" if key.startswith(_SHARES) else f"{value:{sign}.2f}"


def _ends(key: str, interval: tuple[float, float] | None) -> str:
    return "" if interval is None else f"{_number(key, interval[0])} to {_number(key, interval[1])}"


def report(scored: Mapping[str, Scores], baseline: Mapping[str, float], folder: Path) -> None:
    """Print the scores and where they are; say which are undefined, and how many are in the file alone."""
    if names := undefined(scored):
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        what, left = ("is", "it is") if len(names) == 1 else ("are", "they are")
        say(f"warning: {', '.join(names[:_NAMED])}{more} {what} undefined ({_WHY}); {left} left out")
    every = flat(scored)
    if not every:
        say("no score is defined")
        print(folder)
        return
    shown = {key: value for one in scored.values() for key, value in _shown(one).items() if key in every}
    print(table(shown, baseline, finite_intervals(scored)))
    if more := len(every) - len(shown):
        say(f"{more} more score{'s are' if more > 1 else ' is'} in {folder / 'results.json'}")
    print(f"\n{folder}")


def _shown(found: Scores) -> dict[str, float]:
    """The scores for the terminal, each with that of the clean rows behind it."""
    if not found.shown:
        return found.scores
    keys = {*found.shown, *(key + SUFFIX for key in found.shown)}
    return {key: value for key, value in found.scores.items() if key in keys}


def undefined(scored: Mapping[str, Scores]) -> list[str]:
    """Keys whose score is undefined."""
    return [key for task in scored.values() for key, value in task.scores.items() if value != value]
