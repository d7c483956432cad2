"""Scores wired to store, encoder and files: dev scores, kept pieces, the table that is shown."""

import contextlib
import hashlib
import logging
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from embedrun import family
from embedrun.config import EvaluationConfig, TrainingConfig, nearest
from embedrun.console import Progress, aligned, before_training, say, score_text, units
from embedrun.dataset import DataSet
from embedrun.dataset.mix import each, with_roles
from embedrun.encoder import Encoder
from embedrun.errors import ConfigError
from embedrun.evaluation import binary, signals
from embedrun.evaluation.heldout import Heldout
from embedrun.evaluation.scores import (
    CUT,
    SUFFIX,
    Scores,
    Source,
    Task,
    problems_of,
    score_all,
    scores_by_row,
)
from embedrun.files import Plain, read_json, to_json, whole_file, write_atomically
from embedrun.quantized import Dtype, compared, ranges_of
from embedrun.rows import MIX, Rows
from embedrun.runs.directory import PARTS
from embedrun.store import Store

_log = logging.getLogger("embedrun")


class Kept:
    """Scores of the finished pieces of one run, which removes them with its other `PARTS` when it finishes.

    A piece is finished once its JSON file exists; its predictions are written before that. `stage` names one
    scoring of a run that scores several times: its predictions stay with the pieces, else they are where
    those of the run are.
    """

    def __init__(self, run: Path, stage: str = "") -> None:
        self._folder = run / PARTS / stage
        self._predictions = (self._folder if stage else run) / "predictions"

    def save(self, task: str, piece: str, scores: Scores) -> None:
        """Write one piece of a task."""
        write_predictions(scores, self._predictions)
        # Names come from a configuration and may hold anything; the file is named by their hash.
        path = self._folder / f"{hashlib.sha256(to_json([task, piece]).encode()).hexdigest()[:16]}.part"
        self._folder.mkdir(parents=True, exist_ok=True)
        data = {
            "task": task,
            "piece": piece,
            "main": scores.main,
            "scores": to_plain(scores.scores),
            "intervals": {key: ends for key, ends in scores.intervals.items() if _finite(ends)},
            "shown": scores.shown,
            "notes": scores.notes,
            "files": scores.files,
            "predictions": list(scores.predictions),
        }
        write_atomically(path, to_json(data))

    def load(self) -> dict[str, dict[str, Scores]]:
        """The finished pieces, by task and name; one that cannot be read is left out and reported."""
        pieces: dict[str, dict[str, Scores]] = {}
        for path in sorted(self._folder.glob("*.part")):
            try:
                data = read_json(path)
                pieces.setdefault(data["task"], {})[data["piece"]] = self._piece(data)
            except (OSError, ValueError, LookupError, TypeError, AttributeError) as fault:
                say(f"warning: {path}: cannot be read ({fault}); its part is scored again")
        return pieces

    def _piece(self, data: Plain) -> Scores:
        return Scores(
            scores=from_plain(data["scores"]),
            main=data["main"],
            predictions={
                name: pq.read_table(self._predictions / f"{name}.parquet").to_pydict()
                for name in data["predictions"]
            },
            intervals={key: (float(low), float(high)) for key, (low, high) in data["intervals"].items()},
            shown=tuple(data["shown"]),
            notes=data["notes"],
            files=data["files"],
        )


def write_predictions(scores: Scores, folder: Path) -> None:
    """Write the predictions of one task or piece, `predictions/<name>.parquet`, each atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, columns in scores.predictions.items():
        with whole_file(folder / f"{name}.parquet", aside=f".{name}.parquet", sync=False) as aside:
            pq.write_table(pa.table(columns), aside)


def finite_intervals(scored: Mapping[str, Scores]) -> dict[str, tuple[float, float]]:
    """The defined 95 % intervals of every task, by key."""
    return {key: ends for task in scored.values() for key, ends in task.intervals.items() if _finite(ends)}


def _finite(ends: tuple[float, float]) -> bool:
    return all(map(math.isfinite, ends))


def to_plain(scores: Mapping[str, float]) -> dict[str, float | None]:
    """Scores as JSON has them, null where one is undefined."""
    return {key: value if math.isfinite(value) else None for key, value in scores.items()}


def from_plain(scores: Mapping[str, float | None]) -> dict[str, float]:
    """Scores from JSON, NaN where one is undefined."""
    return {key: math.nan if value is None else float(value) for key, value in scores.items()}


def dataset_of(source: Source, dataset: DataSet | None) -> DataSet:
    """The data set that a source names, or the run's own."""
    if source.dataset is not None:
        return family.find("dataset", source.dataset)(**source.options)
    assert dataset is not None, "the plan refuses a task of the run's own rows where there are none"
    return dataset


@dataclass(frozen=True)
class Scorer:
    """Scores an encoder with the tasks of one run; reads their rows once.

    Args:
        tasks: by name.
        rows: of each task, by its own names for its sources.
        batch_tokens: padded tokens a forward pass, at most.
        precision: of the forward pass.
        clean: of the tasks that are also scored without some rows, by task and source: true where a row is
            kept.
        dims: vectors cut to so many of their first numbers are scored, too, under `<key>@<dim>`.
        vectors: and those that are stored as so, under `<key>@<dtype>`.
    """

    tasks: Mapping[str, Task]
    rows: Mapping[str, Mapping[str, Rows]]
    batch_tokens: int
    precision: Literal["fp32", "bf16"] = "fp32"
    clean: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)
    dims: tuple[int, ...] = ()
    vectors: tuple[Dtype, ...] = ()

    @classmethod
    def read(
        cls, tasks: Mapping[str, Task], own: DataSet | None, store: Store, evaluation: EvaluationConfig
    ) -> "Scorer":
        """Read what the tasks, by name, score; `own` is the run's own data set, if it has one."""
        rows = {
            name: {
                key: with_roles(dataset_of(source, own), source.split, store)
                for key, source in task.sources().items()
            }
            for name, task in tasks.items()
        }
        dims = tuple(evaluation.dims or ())
        kinds = tuple(evaluation.vectors or ())
        return cls(tasks, rows, evaluation.batch_tokens, evaluation.precision, dims=dims, vectors=kinds)

    def without(self, clean: Mapping[str, Mapping[str, np.ndarray]]) -> "Scorer":
        """The same with a second score on the `clean` rows, for each task that scores every row by itself."""
        kept = {name: clean[name] for name, task in self.tasks.items() if scores_by_row(task)}
        return replace(self, clean=kept)

    def score(
        self, encoder: Encoder, label: str, *, brief: bool = False, kept: Kept | None = None
    ) -> dict[str, Scores]:
        """The scores of every task, whole and cut, with one encoding pass over the distinct sentences.

        The encoder's random state and mode are left as they are. The progress bar shows `label` and, if
        `brief`, disappears at its end. `kept` has the pieces that are done already, and stores each further
        one once done.
        """

        if wrong := [dim for dim in self.dims if not 0 < dim <= encoder.dim]:
            raise ConfigError(
                f"evaluation.dims: the model's vectors have 1 to {encoder.dim} numbers, got {wrong[0]}"
            )
        known: dict[tuple[str | None, tuple[str, ...]], torch.Tensor] = {}  # kept for the cuts

        def encode(texts: list[str], /, *, role: str | None = None) -> torch.Tensor:
            if (vectors := known.get((role, tuple(texts)))) is None:
                vectors = encoded(texts, role)  # (texts, dim)
                known.update({(role, tuple(texts)): vectors} if self.dims or self.vectors else {})
            return vectors

        def encoded(texts: list[str], role: str | None) -> torch.Tensor:
            with Progress(label, len(texts), "sentences", brief=brief) as bar:
                vectors = encoder.encode(
                    texts,
                    role=role,
                    batch_tokens=self.batch_tokens,
                    precision=self.precision,
                    scaled=False,
                    progress=lambda done, _: bar.reach(done),
                )
            return torch.from_numpy(vectors)  # (texts, dim)

        stored = {} if kept is None else {"done": kept.load(), "keep": kept.save}
        scored = score_all(
            self.tasks, self.rows, encode, self.clean, watch=_watch, scale=encoder.scale, **stored
        )
        for dim in self.dims:

            def cut(texts: list[str], /, *, role: str | None = None, dim: int = dim) -> torch.Tensor:
                return encode(texts, role=role)[:, :dim]  # (texts, dim)

            found = score_all(self.tasks, self.rows, cut, watch=_watch, scale=encoder.scale)
            scored = {name: with_cut(task, found[name], dim) for name, task in scored.items()}
        every = torch.cat(list(known.values())) if self.vectors and known else torch.zeros(1, 1)
        ranges = ranges_of(encoder.scale(every).numpy())  # one calibration for queries and documents
        for dtype in self.vectors:

            def kept_as(
                texts: list[str], /, *, role: str | None = None, dtype: Dtype = dtype
            ) -> torch.Tensor:
                vectors = encoder.scale(encode(texts, role=role)).numpy()  # (texts, dim)
                return torch.from_numpy(compared(vectors, dtype, ranges))

            found = score_all(self.tasks, self.rows, kept_as, watch=_watch)
            scored = {name: with_cut(task, found[name], dtype) for name, task in scored.items()}
        return scored

    def counts(self) -> dict[str, int]:
        """Number of rows of each source, by task and source, and of its clean ones."""
        counts = {}
        for name, sources in self.rows.items():
            for key, rows in sources.items():
                counts[f"{name}/{key}"] = len(rows)
                if name in self.clean:
                    counts[f"{name}/{key}/clean"] = int(self.clean[name][key].sum())
        return counts

    def fingerprints(self) -> dict[str, str]:
        """What was read, by data set and split."""
        return fingerprints_of(self.every_rows())

    def every_rows(self) -> list[Rows]:
        """The rows of every source of every task."""
        return [rows for sources in self.rows.values() for rows in sources.values()]


def with_cut(whole: Scores, cut: Scores, dim: int | str) -> Scores:
    """The scores of a task together with those of cut or stored vectors, which have that behind their key."""
    scores = {f"{key}{CUT}{dim}": value for key, value in cut.scores.items()}
    intervals = {f"{key}{CUT}{dim}": ends for key, ends in cut.intervals.items()}
    shown = (*whole.shown, f"{cut.main}{CUT}{dim}") if whole.shown else ()
    return replace(whole, scores=whole.scores | scores, intervals=whole.intervals | intervals, shown=shown)


def fingerprints_of(every: Sequence[Rows]) -> dict[str, str]:
    """SHA-256 of rows, by data set and split; the second of two with one name has a number appended."""
    fingerprints: dict[str, str] = {}
    for rows in every:
        name, fingerprint = f"{rows.name}/{rows.split}", rows.fingerprint()
        while fingerprints.get(name, fingerprint) != fingerprint:
            name += ".2"  # MRPC as pairs with scores, and as SentEval's task
        fingerprints[name] = fingerprint
    return fingerprints


def splits_of(tasks: Mapping[str, Task], dataset: DataSet | None) -> list[tuple[DataSet, str]]:
    """Every data set that the tasks score, with its split."""
    sources = [source for task in tasks.values() for source in task.sources().values()]
    return [
        (part, source.split)
        for source in sources
        for part in each(dataset_of(source, dataset), source.split).values()
    ]


def lacking(tasks: Mapping[str, Task]) -> list[str]:
    """What is missing for tasks that bring their own rows."""
    return [text for task in tasks.values() for text in problems_of(task)]


def flat(scored: Mapping[str, Scores]) -> dict[str, float]:
    """All defined scores by key; an undefined one is left out, and the caller says so."""
    return {key: value for task in scored.values() for key, value in task.scores.items() if value == value}


def notes(scored: Mapping[str, Scores]) -> Plain:
    """What else decided the scores, by task; without the tasks that note nothing."""
    return {name: task.notes for name, task in scored.items() if task.notes}


def main_score(scored: Mapping[str, Scores], dev: Mapping[str, float]) -> dict[str, str | float | None]:
    """The score that stands for a run: that of its first task, else the dev score."""
    scores = flat(scored)
    for task in scored.values():
        return {"name": task.main, "value": scores.get(task.main)}
    name = next(iter(dev), None)  # None where nothing is scored
    return {"name": name, "value": dev.get(name) if name and dev[name] == dev[name] else None}


@contextlib.contextmanager
def _watch(label: str) -> Iterator[Callable[[int, int], None]]:
    """Shows the progress of a piece from its first report on, so that a quick one shows none."""
    bars: list[Progress] = []
    with contextlib.ExitStack() as stack:

        def reach(done: int, total: int) -> None:
            if not bars:
                bars.append(stack.enter_context(Progress(label, total, "fits")))
            bars[0].reach(done)

        yield reach


OWN = "dev"  # the task of the rows that select: a dev split, or training rows that were held out
_MARK = "_dev/"  # in the key of every dev score: stsb_dev/spearman, senteval_dev/mr/accuracy_fast


def dev_scorer(
    tasks: Mapping[str, Task], dev: Rows | None, store: Store, evaluation: EvaluationConfig
) -> Scorer:
    """What scores on dev: the run's own dev rows, if there are any, and the tasks of `training.dev_tasks`."""
    scorer = Scorer.read({f"dev_tasks.{name}": task for name, task in tasks.items()}, None, store, evaluation)
    if dev is None:
        return scorer
    task = Heldout(split="dev")
    rows = {OWN: dict.fromkeys(task.sources(), dev), **scorer.rows}
    return replace(scorer, tasks={OWN: task, **scorer.tasks}, rows=rows)


def selecting(rows: Mapping[str, Mapping[str, Rows]]) -> dict[str, dict[str, Rows]]:
    """The rows that dev scores come from; of the rows that SentEval reads, not those of test splits."""
    return {task: {key: one for key, one in own.items() if one.split != "test"} for task, own in rows.items()}


def dev_alone(scored: Mapping[str, Scores]) -> dict[str, Scores]:
    """The same without scores and predictions of test rows, which SentEval gives beside those of dev."""
    kept = {}
    for name, task in scored.items():
        scores = {key: value for key, value in task.scores.items() if is_dev(key)}
        if len(scores) < len(task.scores):
            intervals = {key: ends for key, ends in task.intervals.items() if key in scores}
            main = next(iter(scores), "")
            task = replace(task, scores=scores, main=main, predictions={}, intervals=intervals, shown=())
        kept[name] = task
    return kept


def own_keys(dev: Rows, dims: Sequence[int] | None = None) -> list[str]:
    """The keys of the scores on the run's own dev rows, of a mixture those of its parts behind their mean.

    Last come those of vectors cut to `dims`.
    """
    parts = dict.fromkeys(dev.subset) if dev.name == MIX else ()
    keys = [f"{name}{_MARK}spearman" for name in (dev.name, *parts)]
    subset = np.array(dev.subset)  # (rows,)
    own = {part: dev.part(np.flatnonzero(subset == part)) for part in parts} or {dev.name: dev}
    keys += [
        f"{name}{_MARK}{metric}"
        for name, rows in own.items()
        for metric in (*binary.metrics_of(rows), *signals.metrics_of(rows))
    ]
    cut = [f"{key}{CUT}{dim}" for dim in dims or () for key in keys]
    return [both for key in keys for both in (key, key + SUFFIX)] + cut


WEIGHTED = f"weighted{_MARK}score"  # the key of a weighted sum of dev scores


def selecting_keys(select_by: str | Mapping[str, float] | None) -> list[str]:
    """The dev scores that select: those of a weighted sum, or the one that is named."""
    return [select_by] if isinstance(select_by, str) else list(select_by or ())


def with_dev_keys(training: TrainingConfig) -> TrainingConfig:
    """The same with the keys of dev scores, where a score is named by its dev task: `search/ndcg@10`."""
    by, floor, names = training.select_by, training.select_floor, training.dev_tasks or ()
    if isinstance(by, str):
        by = dev_key(by, names)
    elif by is not None:
        by = {dev_key(key, names): weight for key, weight in by.items()}
    floor = floor and {dev_key(key, names): least for key, least in floor.items()}
    return replace(training, select_by=by, select_floor=floor)


def dev_key(key: str, names: Collection[str]) -> str:
    """The key of a dev score that may be named by its dev task, one of `names`."""
    return on_dev(key) if key.partition("/")[0] in names else key


def on_dev(key: str) -> str:
    """`general/spearman` as the key of a dev score."""
    task, _, metric = key.partition("/")
    return key if is_dev(key) else f"{task}{_MARK}{metric}"


def with_weighted(
    scores: Mapping[str, float], select_by: str | Mapping[str, float] | None
) -> dict[str, float]:
    """Dev scores with their weighted sum, where they are selected by one; undefined as one of them is."""
    if not isinstance(select_by, Mapping):
        return dict(scores)
    total = math.fsum(weight * scores.get(key, math.nan) for key, weight in select_by.items())
    return {**scores, WEIGHTED: total / math.fsum(select_by.values())}


def is_dev(key: str) -> bool:
    """Whether the key is that of a dev score."""
    return _MARK in key


def metric_of(select_by: str | Mapping[str, float] | None) -> str | None:
    """The key of the score that selects; None: not said."""
    return WEIGHTED if isinstance(select_by, Mapping) else select_by


def check_select_by(training: TrainingConfig, known: Collection[str]) -> None:
    """Refuse to select by an unknown score."""
    options = {"select_by": selecting_keys(training.select_by), "select_floor": training.select_floor or ()}
    check_keys({f"training.{option}": list(keys) for option, keys in options.items()}, known)


def check_keys(options: Mapping[str, Sequence[str]], known: Collection[str]) -> None:
    """Refuse keys, by the option that gives them, of no dev score."""
    if problems := [
        f"{option}: no dev score {key!r}{nearest(key, known)} (there are: {', '.join(known)})"
        for option, keys in options.items()
        for key in keys
        if key not in known
    ]:
        raise ConfigError(problems)


# Why a score is undefined.
_WHY = "all predictions or all gold scores are equal, a vector is not finite, or fewer than two rows are left"
_NAMED = 5  # undefined scores, before they are only counted


def table(
    scores: Mapping[str, float],
    baseline: Mapping[str, float],
    intervals: Mapping[str, tuple[float, float]],
    pooling: str | None = None,
) -> str:
    """Scores as a text table, beside those before training, of this `pooling`, where there are any.

    A score on the clean rows is shown only where it differs from that on all rows.
    """
    whole = {key: scores.get(key.removesuffix(SUFFIX)) for key in scores if key.endswith(SUFFIX)}
    scores = {key: value for key, value in scores.items() if whole.get(key) != value}
    texts = [score_text(key, value) for key, value in scores.items()]
    columns = {"score": list(scores)}
    if baseline:
        changes = {key: value - baseline[key] for key, value in scores.items() if key in baseline}
        columns[before_training(pooling)] = [score_text(key, baseline.get(key)) for key in scores]
        columns["trained"] = texts
        columns["difference"] = [score_text(key, changes.get(key), sign=key in changes) for key in scores]
    else:
        columns["value"] = texts
    ends = {key: map(partial(score_text, key), intervals.get(key, ())) for key in scores}
    if any(key in intervals for key in scores):
        columns["95 % interval"] = [" to ".join(both) for both in ends.values()]
    return aligned([list(columns), *zip(*columns.values(), strict=True)], right=range(1, len(columns)))


def report(
    scored: Mapping[str, Scores], baseline: Mapping[str, float], folder: Path, pooling: str | None = None
) -> None:
    """Print and log the scores with their units; say which are undefined and how many the file alone has."""
    if names := [key for task in scored.values() for key, value in task.scores.items() if value != value]:
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        say(f"warning: {', '.join(names[:_NAMED])}{more}: undefined ({_WHY}), and left out")
    every = flat(scored)
    if not every:
        say("no score is defined" if scored else "nothing was scored: there are no dev or test rows")
        return
    shown = {key: value for task in scored.values() for key, value in _shown(task).items() if key in every}
    parts = [table(shown, baseline, finite_intervals(scored), pooling), units(shown), beside_others(scored)]
    text = "\n".join(filter(None, parts))
    print(f"{text}\n", flush=True)
    for line in text.splitlines():
        _log.info("%s", line)
    if more := len(every) - len(shown):
        say(f"{more} more score{'s are' if more > 1 else ' is'} in {folder / 'results.json'}")


def beside_others(scored: Mapping[str, Scores]) -> str:
    """A table of the scores beside those of other models that mteb has stored; empty where none was asked."""
    others = {
        model: scores for task in scored.values() for model, scores in task.notes.get("compare", {}).items()
    }
    found = {key: value for task in scored.values() for key, value in task.scores.items()}
    keys = [key for key in found if any(key in scores for scores in others.values())]
    rows = [[key, *(score_text(key, of.get(key)) for of in (found, *others.values()))] for key in keys]
    return aligned([["score", "this model", *others], *rows], right=range(1, len(others) + 2)) if rows else ""


def _shown(task: Scores) -> dict[str, float]:
    """The scores for the terminal, each with that of the clean rows behind it."""
    if not task.shown:
        return task.scores
    keys = {*task.shown, *(key + SUFFIX for key in task.shown)}
    return {key: value for key, value in task.scores.items() if key in keys}
