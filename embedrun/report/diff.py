"""Two runs, or two groups of runs, compared: their differences, and how certain those of their scores are."""

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from embedrun.config.decides import decides
from embedrun.console import Progress, clean, fitted, room, score_text, spread_text, wrapped
from embedrun.errors import ConfigError, DataError
from embedrun.evaluation.intervals import (
    Comparison,
    Differences,
    Kind,
    average,
    differences,
    figure,
    interval,
    mean_draws,
    spearman_draws,
)
from embedrun.evaluation.seeds import Spread, compared
from embedrun.files import Plain
from embedrun.report.scores import interval as recorded_interval
from embedrun.runs import listing
from embedrun.runs.listing import choices, labels
from embedrun.runs.reading import STAGES, RunFiles, as_text, flattened, is_run, newest_first, run_behind

STS_SETS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")
_KINDS: dict[str, Kind] = {"score": "correlation", "predicted": "accuracy", "correct": "correct"}  # by column


@dataclass(frozen=True)
class Predictions:
    """One prediction file.

    Args:
        kind: what its score is.
        predicted: scores, classes, or 1 where the model is right, ``(rows,)``.
        gold: human scores or true classes, ``(rows,)``; None where a row is right by itself.
    """

    kind: Kind
    predicted: np.ndarray
    gold: np.ndarray | None

    @classmethod
    def read(cls, path: Path) -> "Predictions":
        """The predictions in a file.

        Raises:
            DataError: if it cannot be read, or has the columns of none of the three kinds.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(path) as file:
                table = file.read()
            names = [name for name in table.column_names if name == "gold" or name in _KINDS]
            columns = {name: table[name].to_numpy() for name in names}  # (rows,) each
        except (OSError, KeyError, ValueError, pa.ArrowException) as fault:
            raise DataError(f"{path}: cannot be read ({' '.join(str(fault).split())})") from fault
        column = next((name for name in _KINDS if name in columns), None)
        if column is None or (column != "correct" and "gold" not in columns):
            raise DataError(f"{path}: has neither gold and score, nor gold and predicted, nor correct")
        predicted, gold = columns[column], columns.get("gold")
        _check(path, column, predicted)
        if column == "score":
            _check(path, "gold", gold)
        return cls(_KINDS[column], predicted, gold)

    @property
    def figure(self) -> float:
        """The score × 100 that the file gives; NaN where it is undefined."""
        return figure(self.kind, self.predicted, self.gold)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The ends of the 95 % interval of that score over resampled rows; None where it is undefined."""
        if self.kind == "correlation":
            assert self.gold is not None, "read so"
            drawn = spearman_draws(self.predicted, self.gold)  # (draws,)
        else:
            right = self.predicted if self.kind == "correct" else self.predicted == self.gold  # (rows,)
            drawn = mean_draws(right)  # (draws,)
        low, high = interval(100 * drawn)
        return None if math.isnan(low) else (low, high)


def _check(path: Path, name: str, values: np.ndarray | None) -> None:
    """Refuse a column that cannot be what its name says."""
    if values is None or len(values) == 0:
        raise DataError(f"{path}: has no rows")
    if name in ("score", "gold") and values.dtype.kind not in "fiu":
        raise DataError(f"{path}: column {name} holds no numbers")
    if name == "correct" and not np.isin(values, (0, 1)).all():
        raise DataError(f"{path}: column correct holds something else than 0 and 1")


def files(run: Path) -> dict[str, Path]:
    """The prediction files of a run directory that a score belongs to, by name."""
    found = sorted((run / "predictions").glob("[!.]*.parquet"))
    return {path.stem: path for path in found if not path.stem.startswith("geometry")}  # only for plots


def score_key(name: str, scores: Mapping[str, float]) -> str:
    """The key of the score that a prediction file of a run gives.

    Where a SentEval task had several classifier seeds, the file holds the predictions of the first, and the
    scores of the run say which that was.
    """
    if name in STS_SETS:
        return f"sts/{name}/spearman"
    for suite in ("retrieval_dev", "retrieval"):
        if name.startswith(f"{suite}_"):
            return f"{suite}/{name.removeprefix(f'{suite}_')}/strict_accuracy"
    if name.startswith("senteval_"):
        fast = name.startswith("senteval_fast_")
        task = name.removeprefix("senteval_").removeprefix("fast_")
        key = f"senteval/{task}/accuracy_{'fast' if fast else 'paper'}"
        return next((seed for seed in scores if seed.startswith(f"{key}_seed")), key)
    return f"{name}/spearman"


def interval_over_rows(run: RunFiles, key: str) -> tuple[float, float] | None:
    """The 95 % interval of a run's score: as recorded, else (of a dev score) from the predictions."""
    if (ends := recorded_interval(run.results, key)) is not None:
        return ends
    path = next((path for name, path in files(run.path).items() if score_key(name, run.scores) == key), None)
    try:
        return None if path is None else Predictions.read(path).interval
    except DataError:
        return None


_SWAPS_PER_DRAW = 10  # a p-value below 0.001 needs more draws than an interval does, and each is cheaper
_AVERAGE = "sts/avg/spearman"


Unlike = dict[str, dict[str, Any]]  # by dotted key, the value or values of each side that has it, `a` or `b`


def diff(a: RunFiles, b: RunFiles, *, draws: int) -> Plain:
    """Everything in which two runs differ, as `--json` prints it; a difference is B less A.

    `a` and `b` name the runs, `scores` has each score of both, `comparisons` those with a prediction file on
    both sides, with interval and p-value; `not_compared` says by file why there is none, and `notes` where a
    file contradicts `results.json`. What is undefined is None.

    `draws` resamples are behind an interval, ten times as many swaps behind a p-value.

    Raises:
        DataError: with every prediction file that cannot be read.
    """
    shared = [key for key in a.scores if key in b.scores]
    here, there = labels([a, b])
    return {
        "a": _side_of(a, here),
        "b": _side_of(b, there),
        "configuration": _of_one_run(_unlike([a.config], [b.config])),
        "environment": _of_one_run(
            _unlike([_without_command(a.environment)], [_without_command(b.environment)])
        ),
        "scores": [_score(key, a.scores[key], b.scores[key]) for key in shared],
        "only_a": [key for key in a.scores if key not in b.scores],
        "only_b": [key for key in b.scores if key not in a.scores],
        "draws": {"interval": draws, "p": _SWAPS_PER_DRAW * draws},
        **_predictions(a, b, draws),
    }


def _side_of(run: RunFiles, label: str) -> Plain:
    """How a run is named among what was compared; `label` is what tells it from the others."""
    return {"directory": str(run.path), "state": run.status.get("state"), "label": label}


def _score(key: str, a: float, b: float) -> Plain:
    return {"key": key, "a": a, "b": b, "difference": b - a}


_LACKS = object()


def _of_one_run(values: Unlike) -> Unlike:
    return {key: {side: value for side, (value,) in sides.items()} for key, sides in values.items()}


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


def _without_command(environment: Plain) -> Plain:
    """The environment of a run without the command line and the stages before."""
    # They differ, at least in the run directory; what they decided is in the configuration.
    return {key: value for key, value in environment.items() if key not in ("command", STAGES)}


def _predictions(a: RunFiles, b: RunFiles, draws: int) -> Plain:
    """The comparison of each prediction file that both runs have, or why there is none."""
    pairs, skipped, faults = {}, {}, []
    here, there = files(a.path), files(b.path)
    names = {**here, **there}
    for name in sorted(names, key=lambda name: STS_SETS.index(name) if name in STS_SETS else len(STS_SETS)):
        if name not in here or name not in there:
            skipped[name] = f"only {'A' if name in here else 'B'} has it"
            continue
        keys = score_key(name, a.scores), score_key(name, b.scores)
        try:
            left, right = Predictions.read(here[name]), Predictions.read(there[name])
        except DataError as fault:
            faults += fault.problems
            continue
        if (why := _incomparable(left, right, *keys)) is not None:
            skipped[name] = why
            continue
        pairs[name] = (keys[0], left, right)
    if faults:
        raise DataError(faults)
    return {"comparisons": _compare(pairs, draws), "not_compared": skipped}


def _incomparable(a: Predictions, b: Predictions, a_key: str, b_key: str) -> str | None:
    """Why two files of one name cannot be compared row by row; None if they can."""
    if a.kind != b.kind or a_key != b_key:
        return f"A holds {a_key} ({a.kind}), B holds {b_key} ({b.kind})"
    if len(a.predicted) != len(b.predicted):
        return f"A has {len(a.predicted):,} rows, B has {len(b.predicted):,}"
    if a.gold is None or b.gold is None:
        return None if a.gold is b.gold else "only one of them has a gold column"
    unlike = int(np.sum(a.gold != b.gold))
    return f"gold differs in {unlike:,} of {len(a.gold):,} rows" if unlike else None


def _compare(pairs: Mapping[str, tuple[str, Predictions, Predictions]], draws: int) -> list[Plain]:
    """One entry for each file, and one for the average of the seven STS sets where all of them are there."""
    found: list[Plain] = []
    drawn: dict[str, Differences] = {}
    with Progress("compare", len(pairs), "files", brief=True) as bar:
        for done, (name, (key, a, b)) in enumerate(pairs.items(), start=1):
            each = differences(
                a.kind,
                a.predicted,
                b.predicted,
                a.gold,
                draws=draws,
                swaps=_SWAPS_PER_DRAW * draws,
                seed=zlib.crc32(name.encode()),  # of its own, but the same in every comparison
            )
            if name in STS_SETS:
                drawn[name] = each
            found.append(_entry(key, a.figure, b.figure, each.judged()))
            bar.reach(done)
    if len(drawn) == len(STS_SETS):
        sides = zip(*((pairs[name][1].figure, pairs[name][2].figure) for name in STS_SETS), strict=True)
        a_mean, b_mean = (math.fsum(side) / len(STS_SETS) for side in sides)
        found.append(_entry(_AVERAGE, a_mean, b_mean, average(list(drawn.values())).judged()))
    return found


def _entry(key: str, a: float, b: float, comparison: Comparison) -> Plain:
    return {
        "key": key,
        "a": _defined(a),
        "b": _defined(b),
        "difference": _defined(comparison.difference),
        "low": _defined(comparison.low),
        "high": _defined(comparison.high),
        "p": _defined(comparison.p),
        "rows": comparison.rows,
    }


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else value


_WIDTH = 44  # characters of an option's value
_NAMED = 12  # scores of one run alone that are named
_UNCORRECTED = (
    "Each p-value is of one line and uncorrected: of 20 lines without a real difference, one is expected "
    "below 0.05."
)
# Rows are drawn, and the two trained models stay as they are.
_LEFT_OUT = "Left out: how much another seed moves a score; over seeds: --diff A1 A2 -- B1 B2"


def text(found: Plain) -> str:
    """What :func:`diff` found, as text: options, environment, scores, what the prediction files say."""
    parts = [
        _named_sides({"A": [_run(found["a"])], "B": [_run(found["b"])]}),
        _unlike_table("configuration", "option", found["configuration"]),
        _unlike_table("environment", "what", found["environment"]),
        _scores(found["scores"], {one["key"] for one in found["comparisons"]}),
        _alone("A", found["only_a"]),
        _alone("B", found["only_b"]),
        _comparisons(found["comparisons"], found["draws"]),
        _not_compared(found["not_compared"]),
    ]
    return clean("\n\n".join(part for part in parts if part))


def _run(run: Plain) -> str:
    return f"{run['label']}: {run['directory']} ({run['state'] or 'no status yet'})"


def _named_sides(sides: Mapping[str, Sequence[str]]) -> str:
    """The runs of each side, one a line, the first behind the letter of its side; wrapped to the terminal."""
    lines = [
        f"{' ' if place else side}  {run}" for side, runs in sides.items() for place, run in enumerate(runs)
    ]
    return wrapped("\n".join(lines), room(), " " * 5)


def _unlike_table(title: str, heading: str, values: Unlike) -> str:
    """What differs, a line for each key with the value of each side."""
    if not values:
        return f"{title}: no difference"
    cells = [[heading, "A", "B"]]
    for key, sides in values.items():
        cells.append([key, *(as_text(sides[side], _WIDTH) if side in sides else "-" for side in "ab")])
    return f"{title}:\n{fitted(cells, room())}"


def _scores(scores: Sequence[Plain], compared: set[str]) -> str:
    """The scores that are not in the table of comparisons."""
    cells = [["score", "A", "B", "B - A"]]
    for one in scores:
        if one["key"] not in compared:
            cells.append([one["key"], *_numbers(one)])
    return fitted(cells, room(), right=[1, 2, 3]) if len(cells) > 1 else ""


def _alone(side: str, keys: Sequence[str]) -> str:
    """The scores that only one side has."""
    return wrapped(f"only {side} has: {_some(keys, _NAMED)}", room()) if keys else ""


def _comparisons(comparisons: Sequence[Plain], draws: Plain) -> str:
    if not comparisons:
        none = "no prediction file can be compared, so no difference has an interval or a p-value"
        return wrapped(none, room())
    cells = [["score, from predictions", "A", "B", "B - A", "95 % interval", "p", "rows"]]
    for one in comparisons:
        low, high = (score_text(one["key"], end, sign=True) for end in (one["low"], one["high"]))
        ends = "-" if one["low"] is None else f"{low} to {high}"
        cells.append([one["key"], *_numbers(one), ends, _p_text(one["p"]), f"{one['rows']:,}"])
    method = (
        f"interval: paired bootstrap, {draws['interval']:,} draws; p: two-sided paired permutation test, "
        f"{draws['p']:,} draws.\n{_UNCORRECTED}\n{_LEFT_OUT}"
    )
    shown = fitted(cells, room(), right=range(1, 7))
    return f"{shown}\n\n{wrapped(method, room())}"


def _not_compared(reasons: Mapping[str, str]) -> str:
    """A line for each reason, with the files that it excludes."""
    lines = []
    for why in dict.fromkeys(reasons.values()):
        lines.append(f"not compared, {why}: {', '.join(name for name in reasons if reasons[name] == why)}")
    return wrapped("\n".join(lines), room())


def _numbers(one: Plain) -> list[str]:
    """A, B and their difference; `-` for what is undefined."""
    key = one["key"]
    difference = score_text(key, one["difference"], sign=True)
    return [score_text(key, one["a"]), score_text(key, one["b"]), difference]


def _p_text(p: float | None) -> str:
    """A p-value in four digits; `-` for none."""
    if p is None:
        return "-"
    return f"{p:.4f}" if p >= 1e-4 else "<0.0001"


_GROUP_WIDTH = 28  # characters of an option's value
_OPTIONS = 3  # that are named where a group is refused
_GROUP_NAMED = 6  # values of an option that are named
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
    _check_group(side, found)
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


def _check_group(side: str, runs: Sequence[RunFiles]) -> None:
    """Refuse a group whose runs are not all of one configuration, or have no seed."""
    recipes = [_recipe(run) for run in runs]
    keys = dict.fromkeys(key for own in recipes for key in own)
    differ = [key for key in keys if any(own.get(key) != recipes[0].get(key) for own in recipes)]
    if differ:
        values = {key: [own.get(key) for own in recipes] for key in differ}
        told = choices(runs) | values  # presets first: `loss` says more than the options of two losses
        named = [f"{key} ({_values(values)})" for key, values in told.items()]
        raise ConfigError(
            f"embedrun runs: --diff: the {len(runs)} runs of {side} are to differ in nothing but the "
            f"seed, but differ in {_some(named, _OPTIONS)}; name runs of one kind: --diff A1 A2 -- B1 B2"
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


def diff_groups(a: Group, b: Group) -> Plain:
    """Everything in which two groups differ, as `--json` prints it; a difference is B less A.

    Options and environment have the value of each run, by side. A score is compared over the runs that have
    it, with mean, sd and n of both sides. What is undefined is None.
    """
    left, right = _scores_by_seed(a), _scores_by_seed(b)
    here, there = list(a.runs.values()), list(b.runs.values())
    # Runs of a side differ in the seed alone, so that one of each tells the sides apart.
    names = labels([here[0], there[0]], without=("seed",))
    return {
        "a": {"runs": [_side_of(run, names[0]) for run in here], "seeds": list(a.runs)},
        "b": {"runs": [_side_of(run, names[1]) for run in there], "seeds": list(b.runs)},
        "configuration": _unlike([run.config for run in here], [run.config for run in there]),
        "environment": _unlike(
            *([_without_command(run.environment) for run in side] for side in (here, there))
        ),
        "comparisons": [_compared_over_seeds(key, left[key], right[key]) for key in left if key in right],
        "only_a": [key for key in left if key not in right],
        "only_b": [key for key in right if key not in left],
        "notes": [*a.notes, *b.notes],
    }


def _scores_by_seed(group: Group) -> dict[str, dict[int, float]]:
    """By key, the finite scores by seed."""
    found: dict[str, dict[int, float]] = {}
    for seed, run in group.runs.items():
        for key, value in run.scores.items():
            if math.isfinite(value):
                found.setdefault(key, {})[seed] = value
    return found


def _compared_over_seeds(key: str, a: dict[int, float], b: dict[int, float]) -> Plain:
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


def groups_text(found: Plain) -> str:
    """What :func:`diff_groups` found, as text: options, environment, scores over seeds."""
    configuration = {key: sides for key, sides in found["configuration"].items() if key != "seed"}
    parts = [
        _named_sides({"A": _group(found["a"]), "B": _group(found["b"])}),
        _unlike_table("configuration, but for the seed", "option", _collapsed(configuration)),
        _unlike_table("environment", "what", _collapsed(found["environment"])),
        _alone("A", found["only_a"]),
        _alone("B", found["only_b"]),
        _seed_comparisons(found["comparisons"]),
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


def _values(values: Sequence[object]) -> str:
    """The different values of an option, in their order, a dash for none."""
    texts = dict.fromkeys("-" if value is None else as_text(value, _GROUP_WIDTH) for value in values)
    return _some([*texts], _GROUP_NAMED)


def _some(words: Sequence[str], most: int) -> str:
    return ", ".join(words[:most]) + (f" and {len(words) - most} more" if len(words) > most else "")


def _seed_comparisons(comparisons: Sequence[Plain]) -> str:
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
                _p_text(one["p"]),
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
        f"sd and interval are over n seeds; interval and p (two-sided): {how}.\n{_UNCORRECTED}\n"
        "Left out: how much other test rows move a score; over rows: --diff A1 B1"
    )
