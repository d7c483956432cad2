"""Two groups of runs, in each of which only the seed differs, compared over their seeds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from embedrun.config.decides import decides
from embedrun.console import clean, fitted, room, score_text, spread_text, wrapped
from embedrun.errors import ConfigError
from embedrun.evaluation.seeds import Spread, compared
from embedrun.files import Plain
from embedrun.report.diff import (
    UNCORRECTED,
    Unlike,
    alone,
    named_sides,
    p_text,
    side_of,
    unlike_table,
    without_command,
)
from embedrun.runs import labels, listing
from embedrun.runs.reading import RunFiles, as_text, flattened, is_run, newest_first, run_behind

_WIDTH = 28  # characters of an option's value
_OPTIONS = 3  # that are named where a group is refused
_NAMED = 6  # values of an option that are named
_DEPTH = 3  # runs that a model may come from, one after the other


@dataclass(frozen=True)
class Group:
    """The runs of one side, `A` or `B`, by seed, ascending; `notes` say which others were left out."""

    side: str
    runs: dict[int, RunFiles]
    notes: tuple[str, ...] = ()


def group(side: str, paths: Sequence[Path]) -> Group:
    """The runs of one side: run directories, and folders, which stand for the finished runs below.

    Of several runs with one seed the newest counts.

    Raises:
        ConfigError: if a path has no run, or the runs differ in an option beside the seed that decides what
            is trained or measured.
        DataError: if a run cannot be read.
    """
    found, notes, problems = [], [], []
    for path in paths:
        if is_run(path):
            found.append(RunFiles.read(path))
            continue
        below = listing.find([path]).runs if path.is_dir() else []
        finished = [run for run in below if run.is_finished]
        if not finished:
            problems.append(_no_run(path))
        elif left := len(below) - len(finished):
            notes.append(
                f"{side}: {left} of {len(below)} runs below {path} have not finished and are left out"
            )
        found += finished
    if problems:
        raise ConfigError(problems)
    if len(found) == 1:  # two single runs may have any options, and no seed
        return Group(side, {_seed(found[0]) or 0: found[0]}, tuple(notes))
    _check(side, found)
    runs: dict[int, RunFiles] = {}
    for run in newest_first(found):
        seed = _seed(run)
        assert seed is not None, "checked above"
        if seed not in runs:
            runs[seed] = run
        elif run.path.resolve() != runs[seed].path.resolve():
            notes.append(f"{side}: seed {seed} twice: {runs[seed].path} counts, {run.path} is older")
    return Group(side, dict(sorted(runs.items())), tuple(notes))


def _no_run(path: Path) -> str:
    what = "is no run directory, and no finished run is below it" if path.is_dir() else "is not a folder"
    return f"embedrun runs: --diff: {str(path)!r} {what}; embedrun runs DIR lists the runs below a folder"


def _check(side: str, runs: Sequence[RunFiles]) -> None:
    """Refuse a group whose runs are not all of one configuration, or have no seed."""
    recipes = [_recipe(run) for run in runs]
    keys = dict.fromkeys(key for own in recipes for key in own)
    differ = [key for key in keys if any(own.get(key) != recipes[0].get(key) for own in recipes)]
    if differ:
        values = {key: [own.get(key) for own in recipes] for key in differ}
        told = labels.choices(runs) | values  # presets first: `loss` says more than the options of two losses
        named = [f"{key} ({_values(told[key])})" for key in list(told)[:_OPTIONS]]
        more = f" and {len(told) - _OPTIONS} more" if len(told) > _OPTIONS else ""
        raise ConfigError(
            f"embedrun runs: --diff: the {len(runs)} runs of {side} are to differ in nothing but the "
            f"seed, but differ in {', '.join(named)}{more}; name runs of one kind: --diff A1 A2 -- B1 B2"
        )
    if without := [str(run.path) for run in runs if _seed(run) is None]:
        raise ConfigError(f"embedrun runs: --diff: no seed is recorded in {', '.join(without)}")


_MODELS = ("backbone.name", "model")  # the options that may name the model of a run


def _recipe(run: RunFiles, depth: int = _DEPTH) -> Plain:
    """The options that decide what is trained or measured, but for the seed.

    The model of another run stands for the options of that run: a second stage of three seeds may begin with
    three first stages.
    """
    options = flattened({key: value for key, value in run.config.items() if key != "schema"})
    kept = {key: value for key, value in options.items() if key != "seed" and decides(key) == "what"}
    for key in _MODELS:
        before = run_behind(options.get(key)) if depth else None
        if before is not None:
            del kept[key]
            kept |= {f"{key}: {name}": value for name, value in _recipe(before, depth - 1).items()}
    return kept


def _seed(run: RunFiles) -> int | None:
    """The seed that a model was trained with; of an evaluation of no run, its own."""
    before = run_behind(run.config.get("model"))
    seed = (run if before is None else before).config.get("seed")
    return seed if isinstance(seed, int) else None


def diff(a: Group, b: Group) -> Plain:
    """Everything in which two groups differ, as `--json` prints it; a difference is B less A.

    Options and environment have the value of each run, by side. A score is compared over the runs that have
    it, with mean, sd and n of both sides. What is undefined is None.
    """
    left, right = _scores(a), _scores(b)
    here, there = list(a.runs.values()), list(b.runs.values())
    # Runs of a side differ in the seed alone, so that one of each tells the sides apart.
    names = labels.labels([here[0], there[0]], without=("seed",))
    return {
        "a": {"runs": [side_of(run, names[0]) for run in here], "seeds": list(a.runs)},
        "b": {"runs": [side_of(run, names[1]) for run in there], "seeds": list(b.runs)},
        "configuration": _unlike([run.config for run in here], [run.config for run in there]),
        "environment": _unlike(
            *([without_command(run.environment) for run in side] for side in (here, there))
        ),
        "comparisons": [_compared(key, left[key], right[key]) for key in left if key in right],
        "only_a": [key for key in left if key not in right],
        "only_b": [key for key in right if key not in left],
        "notes": [*a.notes, *b.notes],
    }


_LACKS = object()


def _unlike(a: Sequence[Plain], b: Sequence[Plain]) -> Unlike:
    """The dotted keys whose value is not the same in all runs, sorted, with the values of runs by side."""
    sides = {"a": [flattened(own) for own in a], "b": [flattened(own) for own in b]}
    every = [*sides["a"], *sides["b"]]
    keys = sorted({key for own in every for key in own})
    keys = [key for key in keys if any(own.get(key, _LACKS) != every[0].get(key, _LACKS) for own in every)]
    return {
        key: {
            side: values
            for side, runs in sides.items()
            if (values := [own[key] for own in runs if key in own])
        }
        for key in keys
    }


def _scores(group: Group) -> dict[str, dict[int, float]]:
    """By key, the finite scores by seed."""
    found: dict[str, dict[int, float]] = {}
    for seed, run in group.runs.items():
        for key, value in run.scores.items():
            if math.isfinite(value):
                found.setdefault(key, {})[seed] = value
    return found


def _compared(key: str, a: dict[int, float], b: dict[int, float]) -> Plain:
    found = compared(a, b)
    return {
        "key": key,
        "a": _spread(a),
        "b": _spread(b),
        "difference": found.difference,
        "low": found.low,
        "high": found.high,
        "p": found.p,
        "paired": found.paired,
    }


def _spread(scores: dict[int, float]) -> Plain:
    spread = Spread.of(list(scores.values()))
    assert spread is not None, "a key is there with a score"
    return {"mean": spread.mean, "sd": spread.sd, "n": spread.n}


def text(found: Plain) -> str:
    """What :func:`diff` found, as text: options, environment, scores over seeds."""
    configuration = {key: sides for key, sides in found["configuration"].items() if key != "seed"}
    parts = [
        named_sides({"A": _group(found["a"]), "B": _group(found["b"])}),
        unlike_table("configuration, but for the seed", "option", _collapsed(configuration)),
        unlike_table("environment", "what", _collapsed(found["environment"])),
        alone("A", found["only_a"]),
        alone("B", found["only_b"]),
        _comparisons(found["comparisons"]),
        wrapped("\n".join(found["notes"]), room()),
    ]
    return clean("\n\n".join(part for part in parts if part))


def _group(data: Plain) -> list[str]:
    return [
        f"{run['label']}, seed {seed}: {run['directory']} ({run['state'] or 'no status yet'})"
        for seed, run in zip(data["seeds"], data["runs"], strict=True)
    ]


def _collapsed(values: Unlike) -> Unlike:
    """The same with one text for the different values of a side."""
    return {key: {side: _values(own) for side, own in sides.items()} for key, sides in values.items()}


def _values(values: object) -> str:
    """The different values of an option, in their order, a dash for none."""
    assert isinstance(values, list)
    texts = list(dict.fromkeys("-" if value is None else as_text(value, _WIDTH) for value in values))
    return ", ".join(texts[:_NAMED]) + (f" and {len(texts) - _NAMED} more" if len(texts) > _NAMED else "")


def _comparisons(comparisons: Sequence[Plain]) -> str:
    if not comparisons:
        return "no score is in both groups"
    cells = [["score, mean ± sd", "A", "B", "n", "B - A", "95 % interval", "p"]]
    for one in comparisons:
        key = one["key"]
        low, high = (score_text(key, end, sign=True) for end in (one["low"], one["high"]))
        cells.append(
            [
                key,
                spread_text(key, one["a"]["mean"], one["a"]["sd"]),
                spread_text(key, one["b"]["mean"], one["b"]["sd"]),
                f"{one['a']['n']}, {one['b']['n']}",
                score_text(key, one["difference"], sign=True),
                "-" if one["low"] is None else f"{low} to {high}",
                p_text(one["p"]),
            ]
        )
    shown = fitted(cells, room(), right=range(1, 7))
    return f"{shown}\n\n{wrapped(_method(comparisons), room())}"


def _method(comparisons: Sequence[Plain]) -> str:
    with_interval = [one for one in comparisons if one["low"] is not None]
    if not with_interval:
        return "no interval: it takes two seeds or more on each side"
    kinds = {one["paired"] for one in with_interval}
    named = {True: "paired t over the seeds", False: "Welch's t, since the seeds of A and B are not the same"}
    how = " or ".join(named[kind] for kind in sorted(kinds, reverse=True))
    return (
        f"sd and interval are over n seeds; interval and p (two-sided): {how}.\n{UNCORRECTED}\n"
        "Left out: how much other test rows move a score; over rows: --diff A1 B1"
    )
