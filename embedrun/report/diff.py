"""Two runs, or two groups of runs, compared: their differences, and how certain those of their scores are."""

import math
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from embedrun.config.decides import decides
from embedrun.console import Progress, clean, fitted, numbers, room, score_text, spread_text, wrapped
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
from embedrun.files import Plain, as_written
from embedrun.report.scores import interval as recorded_interval
from embedrun.runs import listing
from embedrun.runs.reading import STAGES, RunFiles, as_text, flattened, is_run, newest_first, run_behind, some

if TYPE_CHECKING:
    from embedrun.evaluation.scores import Scores

STS_SETS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")
_KINDS: dict[str, Kind] = {
    "score": "correlation",
    "predicted": "accuracy",
    "correct": "correct",
    "value": "mean",
}  # by column
_COLUMNS = ("gold", "clean", *_KINDS)
_FORM = "a prediction file with rows of gold and score, gold and predicted, correct, or value"


@dataclass(frozen=True)
class Predictions:
    """One prediction file.

    `predicted` are scores, classes, or 1 where the model is right, ``(rows,)``; `gold` human scores or true
    classes, ``(rows,)``, None where a row is right by itself; `clean` whether a row is shared with no row
    that was trained on, ``(rows,)``, None where the scores are those of all rows alone.
    """

    kind: Kind
    predicted: np.ndarray
    gold: np.ndarray | None
    clean: np.ndarray | None = None

    @classmethod
    def read(cls, path: Path) -> "Predictions":
        """The predictions in a file, which has the columns of one of the kinds."""
        import pyarrow.parquet as pq

        with as_written(path, _FORM, "evaluate again"):
            with pq.ParquetFile(path) as file:
                table = file.read()
            return cls.of({name: table[name].to_numpy() for name in table.column_names})

    @classmethod
    def of(cls, columns: Mapping[str, np.ndarray]) -> "Predictions":
        """The same from its columns, ``(rows,)`` each."""
        columns = {name: values for name, values in columns.items() if name in _COLUMNS}
        clean = columns.pop("clean", None)
        column = next((name for name in _KINDS if name in columns), "score")
        if _KINDS[column] != "accuracy":  # classes may be words
            columns = {name: values.astype(np.float64) for name, values in columns.items()}
        if len(columns[column]) == 0:
            raise ValueError("has no rows")
        gold = None if column in ("correct", "value") else columns["gold"]
        return cls(_KINDS[column], columns[column], gold, clean)

    @property
    def of_clean_rows(self) -> "Predictions | None":
        """Those of the clean rows alone; None where the file does not say which these are."""
        if self.clean is None:
            return None
        gold = None if self.gold is None else self.gold[self.clean]
        return Predictions(self.kind, self.predicted[self.clean], gold)

    @property
    def figure(self) -> float:
        """The score × 100 that the file gives; NaN where it is undefined."""
        return figure(self.kind, self.predicted, self.gold)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The ends of the 95 % interval of that score over resampled rows; None where it is undefined."""
        if self.gold is not None and self.kind == "correlation":
            drawn = spearman_draws(self.predicted, self.gold)  # (draws,)
        else:
            right = self.predicted == self.gold if self.kind == "accuracy" else self.predicted  # (rows,)
            drawn = mean_draws(right)  # (draws,)
        low, high = interval(100 * drawn)
        return None if math.isnan(low) else (low, high)


def files(run: Path) -> dict[str, Path]:
    """The prediction files of a run directory that a score belongs to, by name."""
    paths = sorted((run / "predictions").glob("[!.]*.parquet"))
    return {path.stem: path for path in paths if not path.stem.startswith("geometry")}  # only for plots


def place(name: str) -> int:
    """Where a prediction file stands among others: those of the STS sets first, in the papers' order."""
    return STS_SETS.index(name) if name in STS_SETS else len(STS_SETS)


# The forms of the names of prediction files, and the key of the score that each gives; the first form counts.
_KEYS = {
    f"({'|'.join(STS_SETS)})": r"sts/\1/spearman",
    r"(retrieval_dev|retrieval)_(.+)": r"\1/\2/strict_accuracy",
    r"(.+)_((?:ndcg|mrr|recall|map|precision)@\d+)": r"\1/\2",
    r"senteval_fast_(.+)": r"senteval/\1/accuracy_fast",
    r"senteval_(.+)": r"senteval/\1/accuracy_paper",
    r"(.+)": r"\1/spearman",
}


def score_key(name: str, scores: Mapping[str, float]) -> str:
    """The key of the score that a prediction file of a run gives.

    Where a SentEval task had several classifier seeds, the file holds the predictions of the first, and the
    scores of the run say which that was.
    """
    key = next(match.expand(key) for form, key in _KEYS.items() if (match := re.fullmatch(form, name)))
    return next((seed for seed in scores if seed.startswith(f"{key}_seed")), key)


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


@dataclass(frozen=True)
class Group:
    """The runs of one side, `A` or `B`, by seed, ascending; `notes` say which others were left out."""

    side: str
    runs: dict[int, RunFiles]
    notes: tuple[str, ...] = ()


def group(side: str, paths: Sequence[Path]) -> Group:
    """The runs of one side: run directories, and folders, which stand for the finished runs below.

    Of several runs with one seed the newest counts. Runs that differ in more than the seed are refused.
    """
    runs, notes = [], []
    for path in paths:
        kept, left_out = _runs_at(side, path)
        runs += kept
        notes += left_out
    _check_group(side, runs)
    by_seed: dict[int, RunFiles] = {}
    for run in newest_first(runs):
        newest = by_seed.setdefault(_seed(run) or 0, run)
        if run.path.resolve() != newest.path.resolve():
            notes.append(f"{side}: seed {_seed(run)} twice: {newest.path} counts, {run.path} is older")
    return Group(side, dict(sorted(by_seed.items())), tuple(notes))


def _runs_at(side: str, path: Path) -> tuple[list[RunFiles], list[str]]:
    if is_run(path):
        return [RunFiles.read(path)], []
    below = listing.find([path]).runs
    finished = [run for run in below if run.is_finished]
    if not finished:
        raise ConfigError(
            f"embedrun runs: --diff: {str(path)!r} is no run directory, and no finished run is below it; "
            "embedrun runs DIR lists the runs below a folder"
        )
    left = len(below) - len(finished)
    note = f"{side}: {left} of {len(below)} runs below {path} have not finished and are left out"
    return finished, [note] if left else []


def _check_group(side: str, runs: Sequence[RunFiles]) -> None:
    recipes = [_recipe(run) for run in runs]
    differ = [f"{key} ({_values([recipe.get(key) for recipe in recipes])})" for key in _differing(recipes)]
    if differ:
        raise ConfigError(
            f"embedrun runs: --diff: the {len(runs)} runs of {side} are to differ in nothing but the "
            f"seed, but differ in {some(differ, 3)}; name runs of one kind: --diff A1 A2 -- B1 B2"
        )
    without = [str(run.path) for run in runs if _seed(run) is None]
    if without and len(runs) > 1:  # two single runs need no seed
        raise ConfigError(f"embedrun runs: --diff: no seed is recorded in {', '.join(without)}")


_LACKS = object()


def _differing(trees: Sequence[Plain]) -> list[str]:
    keys = dict.fromkeys(chain.from_iterable(trees))
    return [key for key in keys if any(tree.get(key, _LACKS) != trees[0].get(key, _LACKS) for tree in trees)]


def _recipe(run: RunFiles) -> Plain:
    """The options that decide the result, but for the seed; a model of another run stands for its options."""
    options = flattened(run.config).items()
    kept = {key: value for key, value in options if key not in ("schema", "seed") and decides(key) == "what"}
    for key in ("backbone.name", "model"):  # may name the model of a run
        if before := run_behind(kept.get(key)):
            del kept[key]
            kept |= {f"{key}: {name}": value for name, value in _recipe(before).items()}
    return kept


def _seed(run: RunFiles) -> int | None:
    """The seed that a model was trained with; of an evaluation of no run, its own."""
    seed = (run_behind(run.config.get("model")) or run).config.get("seed")
    return seed if isinstance(seed, int) else None


def diff(a: RunFiles, b: RunFiles, *, draws: int) -> Plain:
    """Everything in which two runs differ, as `--json` prints it; a difference is B less A.

    `a` and `b` name the runs, `scores` has each score of both, `comparisons` those with a prediction file on
    both sides, with interval and p-value; `not_compared` says by file why there is none. What is undefined
    is None. `draws` resamples are behind an interval, ten times as many swaps behind a p-value.
    """
    names = listing.labels([a, b])
    values = {part: _unlike(part, [a], [b]).items() for part in _PARTS}
    return {
        "a": _side(a, names[0]),
        "b": _side(b, names[1]),
        **{part: {key: {side: of[side][0] for side in of} for key, of in values[part]} for part in _PARTS},
        "scores": [
            {"key": key, "a": score, "b": b.scores[key], "difference": b.scores[key] - score}
            for key, score in a.scores.items()
            if key in b.scores
        ],
        **_alone(a.scores, b.scores),
        "draws": {"interval": draws, "p": _SWAPS_PER_DRAW * draws},
        **_predictions(a, b, draws),
    }


def diff_groups(a: Group, b: Group) -> Plain:
    """Everything in which two groups differ, as `--json` prints it; a difference is B less A.

    Options and environment have the value of each run, by side. A score is compared over the runs that have
    it, with mean, sd and n of both sides. What is undefined is None.
    """
    left, right = _scores_by_seed(a), _scores_by_seed(b)
    here, there = list(a.runs.values()), list(b.runs.values())
    # Runs of a side differ in the seed alone, so that one of each tells the sides apart.
    names = listing.labels([here[0], there[0]], without=("seed",))
    return {
        "a": {"runs": [_side(run, names[0]) for run in here], "seeds": list(a.runs)},
        "b": {"runs": [_side(run, names[1]) for run in there], "seeds": list(b.runs)},
        **{part: _unlike(part, here, there) for part in _PARTS},
        "comparisons": [_compared_over_seeds(key, left[key], right[key]) for key in left if key in right],
        **_alone(left, right),
        "notes": [*a.notes, *b.notes],
    }


def _side(run: RunFiles, label: str) -> Plain:
    return {"directory": str(run.path), "state": run.state, "label": label}


def _alone(a: Plain, b: Plain) -> Plain:
    return {"only_a": [key for key in a if key not in b], "only_b": [key for key in b if key not in a]}


_PARTS = ("configuration", "environment")
# They differ, at least in the run directory; what they decided is in the configuration.
_COMMAND = ("command", STAGES)


def _unlike(part: str, a: Sequence[RunFiles], b: Sequence[RunFiles]) -> Unlike:
    sides = {"a": [_leaves(part, run) for run in a], "b": [_leaves(part, run) for run in b]}
    values = {
        key: {side: [run[key] for run in runs if key in run] for side, runs in sides.items()}
        for key in sorted(_differing([*sides["a"], *sides["b"]]))
    }
    return {key: {side: known for side, known in of.items() if known} for key, of in values.items()}


def _leaves(part: str, run: RunFiles) -> Plain:
    tree = run.config if part == "configuration" else run.environment
    return flattened({key: value for key, value in tree.items() if key not in _COMMAND})


def _predictions(a: RunFiles, b: RunFiles, draws: int) -> Plain:
    here, there = files(a.path), files(b.path)
    skipped = {
        name: f"only {'A' if name in here else 'B'} has it" for name in sorted(here.keys() ^ there.keys())
    }
    pairs, faults = {}, []
    for name in sorted(here.keys() & there.keys(), key=lambda name: (place(name), name)):
        keys = score_key(name, a.scores), score_key(name, b.scores)
        try:
            left, right = Predictions.read(here[name]), Predictions.read(there[name])
        except DataError as fault:
            faults += fault.problems
            continue
        if why := _incomparable(left, right, *keys):
            skipped[name] = why
        else:
            pairs[name] = (keys[0], left, right)
    if faults:
        raise DataError(faults)
    return {"comparisons": _compare(pairs, draws), "not_compared": skipped}


def _incomparable(a: Predictions, b: Predictions, a_key: str, b_key: str) -> str:
    if (a.kind, a_key) != (b.kind, b_key):
        return f"A holds {a_key} ({a.kind}), B holds {b_key} ({b.kind})"
    if len(a.predicted) != len(b.predicted):
        return f"A has {len(a.predicted):,} rows, B has {len(b.predicted):,}"
    unlike = int(np.sum(np.asarray(a.gold != b.gold)))  # of one kind, both have a gold column or none
    return f"gold differs in {unlike:,} of {len(a.predicted):,} rows" if unlike else ""


def changes(before: Mapping[str, "Scores"], after: Mapping[str, "Scores"]) -> dict[str, tuple[float, float]]:
    """By score, the ends of the 95 % interval of its change, over the rows that both are predictions of."""
    earlier = {name: columns for task in before.values() for name, columns in task.predictions.items()}
    ends = {}
    for task in after.values():
        for name, columns in task.predictions.items():
            if name in earlier and not {*_KINDS}.isdisjoint(columns):
                a, b = (
                    Predictions.of({key: np.array(values) for key, values in side.items()})
                    for side in (earlier[name], columns)
                )
                drawn = differences(a.kind, a.predicted, b.predicted, a.gold, swaps=1).judged()
                if (key := score_key(name, task.scores)) in task.scores and not math.isnan(drawn.low):
                    ends[key] = drawn.low, drawn.high
    return ends


def _compare(pairs: Mapping[str, tuple[str, Predictions, Predictions]], draws: int) -> list[Plain]:
    entries: list[Plain] = []
    drawn: dict[str, Differences] = {}
    with Progress("compare", len(pairs), "files", brief=True) as bar:
        for done, (name, (key, a, b)) in enumerate(pairs.items(), start=1):
            seed = zlib.crc32(name.encode())  # of its own, but the same in every comparison
            rows = (a.kind, a.predicted, b.predicted, a.gold)
            drawn[name] = differences(*rows, draws=draws, swaps=_SWAPS_PER_DRAW * draws, seed=seed)
            entries.append(_entry(key, a.figure, b.figure, drawn[name].judged()))
            bar.reach(done)
    if pairs.keys() >= set(STS_SETS):
        sides = zip(*(pairs[name][1:] for name in STS_SETS), strict=True)
        a, b = (math.fsum(read.figure for read in side) / len(side) for side in sides)
        entries.append(_entry(_AVERAGE, a, b, average([drawn[name] for name in STS_SETS]).judged()))
    return entries


def _entry(key: str, a: float, b: float, comparison: Comparison) -> Plain:
    values = {"a": a, "b": b, **vars(comparison)}
    return {"key": key, **{name: None if math.isnan(value) else value for name, value in values.items()}}


def _scores_by_seed(group: Group) -> dict[str, dict[int, float]]:
    scores: dict[str, dict[int, float]] = {}
    for seed, run in group.runs.items():
        for key, value in numbers(run.scores).items():
            scores.setdefault(key, {})[seed] = value
    return scores


def _compared_over_seeds(key: str, a: dict[int, float], b: dict[int, float]) -> Plain:
    spreads = {side: vars(Spread.of(list(scores.values()))) for side, scores in (("a", a), ("b", b))}
    return {"key": key, **spreads, **vars(compared(a, b))}


_WIDTH = 36  # characters of an option's value
_NAMED = 12  # scores of one side alone, or values of an option, that are named
_UNCORRECTED = (
    "Each p-value is of one line and uncorrected: of 20 lines without a real difference, one is expected "
    "below 0.05."
)


def _over_rows(result: Plain) -> str:
    if not result["comparisons"]:
        return "no prediction file can be compared, so no difference has an interval or a p-value"
    draws = result["draws"]
    return (
        f"interval: paired bootstrap, {draws['interval']:,} draws; p: two-sided paired permutation test, "
        f"{draws['p']:,} draws.\n{_UNCORRECTED}\n"
        "Left out: how much another seed moves a score; over seeds: --diff A1 A2 -- B1 B2"
    )


def _over_seeds(result: Plain) -> str:
    tests = {entry["paired"] for entry in result["comparisons"] if entry["low"] is not None}
    if not tests:
        return "no interval: it takes two seeds or more on each side"
    named = {True: "paired t over the seeds", False: "Welch's t, since the seeds of A and B are not the same"}
    how = " or ".join(words for paired, words in named.items() if paired in tests)
    return (
        f"sd and interval are over n seeds; interval and p (two-sided): {how}.\n{_UNCORRECTED}\n"
        "Left out: how much other test rows move a score; over rows: --diff A1 B1"
    )


def _run_cells(entry: Plain) -> list[str]:
    return [*(score_text(entry["key"], entry[side]) for side in "ab"), f"{entry['rows']:,}"]


def _group_cells(entry: Plain) -> list[str]:
    spreads = (spread_text(entry["key"], entry[side]["mean"], entry[side]["sd"]) for side in "ab")
    return [*spreads, f"{entry['a']['n']}, {entry['b']['n']}"]


def text(result: Plain) -> str:
    """What :func:`diff` or :func:`diff_groups` gives, as text."""
    of_groups = "runs" in result["a"]
    compared_keys = {entry["key"] for entry in result["comparisons"]}
    notes = [
        *(
            f"only {side} has: {some(keys, _NAMED)}"
            for side in "AB"
            if (keys := result[f"only_{side.lower()}"])
        ),
        *(f"not compared, {why}: {name}" for name, why in result.get("not_compared", {}).items()),
        *result.get("notes", []),
    ]
    parts = [
        wrapped("\n".join([*_side_lines("A", result["a"]), *_side_lines("B", result["b"])]), room(), " " * 5),
        *(_unlike_table(part, result[part], of_groups) for part in _PARTS),
        _scores([score for score in result.get("scores", []) if score["key"] not in compared_keys]),
        _comparisons(result["comparisons"], of_groups),
        wrapped((_over_seeds if of_groups else _over_rows)(result), room()),
        wrapped("\n".join(notes), room()),
    ]
    return clean("\n\n".join(filter(None, parts)))


def _side_lines(side: str, data: Plain) -> list[str]:
    seeds = [f", seed {seed}" for seed in data.get("seeds", [])] or [""]
    starts = [side, *" " * (len(seeds) - 1)]
    return [
        f"{start}  {run['label']}{seed}: {run['directory']} ({run['state'] or 'no status yet'})"
        for start, run, seed in zip(starts, data.get("runs", [data]), seeds, strict=True)
    ]


def _values(values: Sequence[object]) -> str:
    return some(list(dict.fromkeys(as_text(value, _WIDTH) for value in values)), 6)


def _unlike_table(part: str, unlike: Unlike, of_groups: bool) -> str:
    texts = _values if of_groups else lambda value: _values([value])
    cells = [
        [key, *(texts(sides[side]) if side in sides else "-" for side in "ab")]
        for key, sides in unlike.items()
        if not of_groups or key != "seed"
    ]
    return f"{part}:\n{fitted([['option', 'A', 'B'], *cells], room())}" if cells else f"{part}: no difference"


def _scores(scores: Sequence[Plain]) -> str:
    cells = [
        [score["key"], *(score_text(score["key"], score[side]) for side in "ab"), _difference(score)]
        for score in scores
    ]
    return fitted([["score", "A", "B", "B - A"], *cells], room(), right=[1, 2, 3]) if cells else ""


def _difference(entry: Plain) -> str:
    return score_text(entry["key"], entry["difference"], sign=True)


def _comparisons(comparisons: Sequence[Plain], of_groups: bool) -> str:
    sides = _group_cells if of_groups else _run_cells
    cells = [
        [entry["key"], *sides(entry), _difference(entry), _ends(entry), _p_text(entry["p"])]
        for entry in comparisons
    ]
    score, counted = ("score, mean ± sd", "n") if of_groups else ("score, from predictions", "rows")
    heading = [score, "A", "B", counted, "B - A", "95 % interval", "p"]
    return fitted([heading, *cells], room(), right=range(1, 7)) if cells else ""


def _ends(entry: Plain) -> str:
    low, high = (score_text(entry["key"], entry[end], sign=True) for end in ("low", "high"))
    return "-" if entry["low"] is None else f"{low} to {high}"


def _p_text(p: float | None) -> str:
    if p is None:
        return "-"
    return f"{p:.4f}" if p >= 1e-4 else "<0.0001"
