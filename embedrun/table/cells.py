"""What a run is, apart from its seed, and which finished run stands in which cell."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from embedrun.runs.directory import config_hash
from embedrun.runs.reading import newest_first
from embedrun.table.preset import RUN, Cell, Row, Table

NOT_RUNNABLE = "not runnable"
MISSING = "missing"
FINISHED = "finished"


@dataclass(frozen=True)
class Measured:
    """A run directory, as far as a table looks at it.

    Args:
        path: of the directory.
        key: its :func:`~embedrun.table.cells.identity`.
        seed: of the run.
        state: `finished`, or what else its `status.json` says.
        when: it ended or, before that, showed its last sign; ISO 8601, UTC.
        scale: the reduced setting that it was made in, or None.
        scores: by key of `results.json`.
        data: fingerprints of the rows by data set and split.
        starts_from: directories of the runs whose models it names.
        speed: by the names of `SPEEDS`.
    """

    path: Path
    key: str
    seed: int
    state: str
    when: str = ""
    scale: str | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    data: Mapping[str, str] = field(default_factory=dict)
    starts_from: tuple[Path, ...] = ()
    speed: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Planned:
    """What a cell is to be run with.

    Args:
        key: identity of its configuration.
        overrides: all but that of the seed.
        needs: the run, by experiment, that has to be there first.
    """

    key: str
    overrides: tuple[str, ...]
    needs: Mapping[str, "Planned"] = field(default_factory=dict)


@dataclass(frozen=True)
class Slot:
    """One run that a table asks for: a cell of a row, with one seed; or a run that such a one needs first.

    Args:
        row: of the table.
        cell: of the row; of what is needed first, the experiment.
        seed: of the run.
        overrides: all of them, the seed's last; empty where it cannot be run.
        key: identity of its configuration; slots of one key and seed are one run. Empty likewise.
        run: the newest finished run of it, or None.
        others: how many more have finished.
        unfinished: the newest run of it that is running, was interrupted or has failed, or None.
        passed_over: the newest run of it that does not count any more, or None.
        needs: what has to be there first, with the same seed, by experiment.
    """

    row: Row
    cell: Cell
    seed: int
    overrides: tuple[str, ...] = ()
    key: str = ""
    run: Measured | None = None
    others: int = 0
    unfinished: Measured | None = None
    passed_over: Measured | None = None
    needs: Mapping[str, "Slot"] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """`finished`, `missing`, `not runnable`, or the state of its unfinished run."""
        if self.cell.not_runnable is not None:
            return NOT_RUNNABLE
        if self.run is not None:
            return FINISHED
        return MISSING if self.unfinished is None else self.unfinished.state


class Runs:
    """Runs by identity and seed.

    Args:
        runs: in any order.
        counts: whether a run serves, as far as it alone is looked at; it does not either if one that it
            starts from does not. None: all do.
    """

    def __init__(self, runs: Sequence[Measured], counts: Callable[[Measured], bool] | None = None) -> None:
        self._runs: dict[tuple[str, int], list[Measured]] = {}
        for run in newest_first(runs):
            self._runs.setdefault((run.key, run.seed), []).append(run)
        self._by_path = {run.path: run for run in runs}
        self._judge = counts
        self._counts: dict[Path, bool] = {}

    def finished(self, key: str, seed: int) -> list[Measured]:
        """The finished runs, the newest first."""
        return [run for run in self._of(key, seed) if run.state == FINISHED and self.counts(run)]

    def unfinished(self, key: str, seed: int) -> Measured | None:
        """The newest of the others."""
        return next((run for run in self._of(key, seed) if run.state != FINISHED and self.counts(run)), None)

    def passed_over(self, key: str, seed: int) -> Measured | None:
        """The newest of those that do not count."""
        return next((run for run in self._of(key, seed) if not self.counts(run)), None)

    def counts(self, run: Measured) -> bool:
        """Whether a run serves."""
        if self._judge is None:
            return True
        if run.path not in self._counts:
            self._counts[run.path] = True  # a run that is made of itself is not looked at for ever
            first = [self._by_path[path] for path in run.starts_from if path in self._by_path]
            self._counts[run.path] = self._judge(run) and all(map(self.counts, first))
        return self._counts[run.path]

    def _of(self, key: str, seed: int) -> Sequence[Measured]:
        return self._runs.get((key, seed), ())

    def seeds(self, key: str) -> list[int]:
        """Seeds with which a run of this identity has finished."""
        return sorted(seed for own, seed in self._runs if own == key and self.finished(key, seed))

    def __len__(self) -> int:
        return sum(map(len, self._runs.values()))


def find_slots(
    table: Table,
    runs: Runs,
    plan: Callable[[Cell], Planned],
    seeds: Sequence[int] | None = None,
    default: Sequence[int] = (),
) -> list[Slot]:
    """Every run that a table asks for, with the run directory that serves, row by row and seed by seed.

    Args:
        table: of the paper.
        runs: that there are.
        plan: the identity and overrides of a cell.
        seeds: of the runs; None: of each cell those with which it has finished. One that has with none is
            asked for with the seeds that most of the others have.
        default: where no cell has finished; empty: those of the table.
    """
    cells = [(row, cell) for row in table.rows for cell in row.cells]
    planned = {cell: plan(cell) for cell in {cell: None for _, cell in cells} if cell.not_runnable is None}
    if seeds is not None:
        return [_slot(row, cell, seed, planned.get(cell), runs) for row, cell in cells for seed in seeds]
    done = {cell: tuple(runs.seeds(each.key)) for cell, each in planned.items()}
    usual = Counter(own for own in done.values() if own).most_common(1)
    rest = usual[0][0] if usual else tuple(default) or table.seeds
    return [
        _slot(row, cell, seed, planned.get(cell), runs)
        for row, cell in cells
        for seed in done.get(cell) or rest
    ]


def needed(experiment: str) -> Cell:
    """The run of an experiment as it is, which another one starts from or scores."""
    return Cell("train", (f"+experiment={experiment}",), ())


def _slot(row: Row, cell: Cell, seed: int, planned: Planned | None, runs: Runs) -> Slot:
    if planned is None:
        return Slot(row, cell, seed)
    finished = runs.finished(planned.key, seed)
    return Slot(
        row=row,
        cell=cell,
        seed=seed,
        overrides=(*planned.overrides, f"seed={seed}"),
        key=planned.key,
        run=finished[0] if finished else None,
        others=max(0, len(finished) - 1),
        unfinished=runs.unfinished(planned.key, seed),
        passed_over=runs.passed_over(planned.key, seed),
        needs={name: _slot(row, needed(name), seed, own, runs) for name, own in planned.needs.items()},
    )


# Which machine computes, and whether an interrupted run is looked for; what is no option at all.
_WHERE = {
    "gpu": ("device", "threads", "processes", "nodes", "rendezvous"),
    "training": ("resume",),
}
_NOT_OPTIONS = ("schema", "seed")
_MODELS = ("name", "model")  # keys of the options that name a model

# What stands for the name of a model that is a run; None for any other model.
Reference = Callable[[str], Any]


def identity(config: Mapping[str, Any], reference: Reference) -> str:
    """The key under which all runs of a configuration are found, whatever their seed.

    It is the hash of a run directory, without the seed, without the options that say where a run computes,
    and with each model that is itself a run in the words of `reference`: the directory of that run may lie
    elsewhere tomorrow.

    Args:
        config: resolved plain data.
        reference: what a run that is trained further or scored counts as.
    """
    kept = {key: value for key, value in config.items() if key not in _NOT_OPTIONS}
    for group, options in _WHERE.items():
        if isinstance(kept.get(group), Mapping):
            kept[group] = {key: value for key, value in kept[group].items() if key not in options}
    return config_hash(referred(kept, reference))


def referred(plain: Any, reference: Reference) -> Any:
    """Configuration data in which each model that is a run stands in the words of `reference`.

    Args:
        plain: plain data, of any form.
        reference: what a run that is trained further or scored counts as.
    """
    if isinstance(plain, Mapping):
        return {
            key: (reference(one) or one)
            if key in _MODELS and isinstance(one, str)
            else referred(one, reference)
            for key, one in plain.items()
        }
    return [referred(one, reference) for one in plain] if isinstance(plain, list | tuple) else plain


# What decides how the runs that an evaluation scores are made, and not what the evaluation measures.
_OF_TRAINING = ("backbone", "gpu", "training", "dataset", "data_dir")


def fits(override: str, command: str, plain: Mapping[str, Any]) -> bool:
    """Whether a row has the option, and an override of it leaves alone what the row starts from.

    Args:
        override: in Hydra's grammar.
        command: `train` or `evaluate`.
        plain: the configuration of the row without the override.
    """
    written = override.partition("=")[0].strip()
    path = written.lstrip("+~").partition("@")[0].replace("/", ".")
    if path == "experiment":
        return command == "train"
    if path == "backbone.name" and (plain.get("backbone") or {}).get("scratch") is not None:
        return False  # a new model has no name
    word, dot, _ = path.partition(".")
    if written.startswith("+"):  # an option that is not there yet
        return word in plain and not (dot and plain[word] is None)
    found: Any = plain
    for part in path.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return False
        found = found[part]
    return not (isinstance(found, str) and found.startswith(RUN))


def below(command: str, extra: tuple[str, ...]) -> tuple[str, ...]:
    """The overrides that reach the runs which one of a command needs first.

    Args:
        command: `train` or `evaluate`.
        extra: overrides of the command line.
    """
    if command == "train":
        return extra
    return tuple(one for one in extra if _first_word(one) in _OF_TRAINING)


def _first_word(override: str) -> str:
    return (
        override.partition("=")[0].strip().lstrip("+~").partition("@")[0].replace("/", ".").partition(".")[0]
    )
