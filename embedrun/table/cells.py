"""What a run is, apart from its seed, and which finished run stands in which cell."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from embedrun.config.decides import decisive
from embedrun.files import Plain
from embedrun.runs.directory import config_hash
from embedrun.runs.reading import newest_first
from embedrun.table.preset import RUN, Cell, Row, Table

NOT_RUNNABLE = "not runnable"
MISSING = "missing"
FINISHED = "finished"


@dataclass(frozen=True)
class Measured:
    """What a table needs to know of a run directory.

    Args:
        key: its :func:`~embedrun.table.cells.identity`.
        state: `finished`, or what else its `status.json` says.
        when: its end or, before that, its last heartbeat; ISO 8601, UTC.
        scale: name of the reduced setting that it was made in, or None.
        scores: by key of `results.json`; `baseline` are the same before training.
        data: fingerprints of the rows by data set and split, and of the models.
        other_code: which code of it has changed, in words; empty for none.
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
    baseline: Mapping[str, float] = field(default_factory=dict)
    data: Mapping[str, str] = field(default_factory=dict)
    other_code: str = ""
    starts_from: tuple[Path, ...] = ()
    speed: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Planned:
    """How a cell is to be run: its identity, and all overrides but that of the seed.

    `needs` are the runs that have to finish first, by experiment.
    """

    key: str
    overrides: tuple[str, ...]
    needs: Mapping[str, "Planned"] = field(default_factory=dict)


@dataclass(frozen=True)
class Slot:
    """One run that a table asks for: a cell of a row with one seed, or a run that such a one needs first.

    Slots of one key and seed are one run. `needs` are the slots that have to finish first, with the same
    seed, by experiment; the cell of such a slot is the experiment itself.

    Args:
        overrides: all of them, the seed's last; like `key`, empty where the cell cannot be run.
        run: the newest finished run, or None.
        others: how many more have finished.
        unfinished: the newest run that is running, was interrupted or has failed, or None.
        passed_over: the newest run that does not count any more, or None.
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

    `counts` says whether a run of the code of now may fill a cell; None: all may. A run also does not count
    if one that it starts from does not.
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
        """The newest run that counts and has not finished."""
        return next((run for run in self._of(key, seed) if run.state != FINISHED and self.counts(run)), None)

    def passed_over(self, key: str, seed: int) -> Measured | None:
        """The newest run that does not count."""
        return next((run for run in self._of(key, seed) if not self.counts(run)), None)

    def counts(self, run: Measured) -> bool:
        """Whether a run, and every run that it starts from, may fill a cell."""
        if run.path not in self._counts:
            self._counts[run.path] = True  # ends the recursion for a run that starts from itself
            first = [self._by_path[path] for path in run.starts_from if path in self._by_path]
            own = not run.other_code and (self._judge is None or self._judge(run))
            self._counts[run.path] = own and all(map(self.counts, first))
        return self._counts[run.path]

    def _of(self, key: str, seed: int) -> Sequence[Measured]:
        return self._runs.get((key, seed), ())

    def seeds(self, key: str) -> list[int]:
        """Seeds with which a run of this identity has finished."""
        return sorted(seed for own, seed in self._runs if own == key and self.finished(key, seed))

    def __len__(self) -> int:
        return sum(map(len, self._runs.values()))


Seeds = Sequence[int] | Callable[[Cell], Sequence[int]]  # of every cell, or by cell


def find_slots(
    table: Table,
    runs: Runs,
    plan: Callable[[Cell], Planned],
    seeds: Seeds | None = None,
    default: Sequence[int] = (),
) -> list[Slot]:
    """Every run that a table asks for, with the run directory that fills it, row by row and seed by seed.

    Without `seeds`, each cell has those with which it has finished. A cell without a finished run has its own
    seeds; if there are none, those that most others have; if no cell has finished, `default`, and if that is
    empty, the table's.
    """
    cells = [(row, cell) for row in table.rows for cell in row.cells]
    planned = {cell: plan(cell) for cell in {cell: None for _, cell in cells} if cell.not_runnable is None}
    if seeds is not None:
        return [
            _slot(row, cell, seed, planned.get(cell), runs)
            for row, cell in cells
            for seed in (seeds(cell) if callable(seeds) else seeds)
        ]
    done = {cell: tuple(runs.seeds(each.key)) for cell, each in planned.items()}
    usual = Counter(own for own in done.values() if own).most_common(1)
    rest = usual[0][0] if usual else tuple(default) or table.seeds
    return [
        _slot(row, cell, seed, planned.get(cell), runs)
        for row, cell in cells
        for seed in done.get(cell) or cell.seeds or rest
    ]


def needed(experiment: str) -> Cell:
    """The run of an experiment as it is, for a cell that starts from it or scores it."""
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


_MODELS = ("name", "model")  # keys of the options that name a model

# What stands for the name of a model that is a run; None for any other model.
Reference = Callable[[str], object]


def identity(config: Plain, reference: Reference) -> str:
    """The key under which all runs of a resolved configuration are found, whatever their seed.

    It is the configuration hash of a run directory, without the seed and the options that say where a run
    computes. `reference` replaces each model that is itself a run, since that run's directory may be moved.
    """
    kept = {key: value for key, value in config.items() if key not in ("schema", "seed")}
    return config_hash(referred(decisive(kept, least="how"), reference))


def referred(plain: object, reference: Reference) -> Any:
    """Plain data in which `reference` has replaced each model that is a run."""
    if isinstance(plain, Mapping):
        return {
            key: (reference(one) or one)
            if key in _MODELS and isinstance(one, str)
            else referred(one, reference)
            for key, one in plain.items()
        }
    return [referred(one, reference) for one in plain] if isinstance(plain, list | tuple) else plain


# Options that decide how the runs which an evaluation scores are trained, not what the evaluation measures.
_OF_TRAINING = ("backbone", "gpu", "training", "dataset", "data_dir")


def fits(override: str, command: str, plain: Plain) -> bool:
    """Whether a row has the option, and an override of it leaves alone what the row starts from.

    `override` is in Hydra's grammar; `plain` is the configuration of the row without it.
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
    """Those of the overrides that also apply to the runs which a run of this command needs first."""
    if command == "train":
        return extra
    return tuple(one for one in extra if _first_word(one) in _OF_TRAINING)


def _first_word(override: str) -> str:
    return (
        override.partition("=")[0].strip().lstrip("+~").partition("@")[0].replace("/", ".").partition(".")[0]
    )
