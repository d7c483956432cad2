"""What a run is apart from its seed, the runs that a table's cells ask for, and those that are there."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import pairwise
from operator import getitem
from pathlib import Path
from typing import Any

from embedrun.config.compose import Compositions, composed
from embedrun.config.decides import decisive
from embedrun.config.request import Request
from embedrun.console import numbers
from embedrun.errors import ConfigError
from embedrun.family import code_of
from embedrun.files import Plain
from embedrun.runs import listing
from embedrun.runs.directory import config_hash
from embedrun.runs.reading import LUCK, RunFiles, json_rows, newest_first
from embedrun.runs.search import CODE, changed, changes
from embedrun.table.preset import KEY, RUN, Cell, Row, Scale, Table

NOT_RUNNABLE = "not runnable"
MISSING = "missing"
FINISHED = "finished"


@dataclass(frozen=True)
class Measured:
    """What a table needs to know of a run directory; `key` is its :func:`identity`.

    Args:
        state: `finished`, or what else its `status.json` says.
        when: its end or, before that, its last heartbeat; ISO 8601, UTC.
        scale: name of the reduced setting that it was made in, or None.
        scores: by key of `results.json`; `baseline` are the same before training.
        data: fingerprints of the rows by data set and split, and of the models.
        other_code: which code of it has changed, in words; empty for none.
        starts_from: directories of the runs whose models it names.
        luck: what its best test step has more than the chosen one, if it was asked for.
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
    luck: float | None = None

    @cached_property
    def speed(self) -> dict[str, float]:
        """The numbers of `speeds`, as far as its `speed.jsonl` can be read."""
        training, lines = RunFiles(self.path).config.get("training") or {}, []
        with suppress(OSError, ValueError):
            lines = (self.path / "speed.jsonl").read_text(encoding="utf-8").splitlines()
        return speeds(json_rows(lines), training.get("batch_size", 0) * training.get("accumulate", 1))


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
        run: the newest finished run; `others` is how many more have finished.
        unfinished: the newest run that is running, was interrupted or has failed.
        passed_over: the newest run that does not count any more.
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
    """Runs by identity and seed, the newest first.

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

    def of(self, key: str, seed: int, *, counting: bool = True) -> list[Measured]:
        """The runs that count, or those that do not."""
        return [run for run in self._runs.get((key, seed), ()) if self.counts(run) == counting]

    def finished(self, key: str, seed: int) -> list[Measured]:
        """Those that count and have finished."""
        return [run for run in self.of(key, seed) if run.state == FINISHED]

    def counts(self, run: Measured) -> bool:
        """Whether a run, and every run that it starts from, may fill a cell."""
        if run.path not in self._counts:
            self._counts[run.path] = True  # ends the recursion for a run that starts from itself
            first = [self._by_path[path] for path in run.starts_from if path in self._by_path]
            itself = not run.other_code and (self._judge is None or self._judge(run))
            self._counts[run.path] = itself and all(map(self.counts, first))
        return self._counts[run.path]

    def seeds(self, key: str) -> list[int]:
        """Seeds with which a run of this identity has finished."""
        return sorted(seed for other, seed in self._runs if other == key and self.finished(key, seed))


Seeds = Sequence[int] | Callable[[Cell], Sequence[int]]  # of every cell, or by cell


def find_slots(
    table: Table,
    runs: Runs,
    plan: Callable[[Cell], Planned],
    seeds: Seeds | None = None,
) -> list[Slot]:
    """Every run that a table asks for, with the run directory that fills it, row by row and seed by seed.

    Without `seeds`, each cell has those with which it has finished. A cell without a finished run has its own
    seeds; if there are none, those that most others have; if no cell has finished, the table's.
    """
    cells = [(row, cell) for row in table.rows for cell in row.cells]
    planned = {cell: plan(cell) for _, cell in cells if cell.not_runnable is None}
    done = {cell: tuple(runs.seeds(planned[cell].key)) for cell in planned}
    usual = Counter(filter(None, done.values())).most_common(1) or [(tuple(table.seeds), 0)]

    def wanted(cell: Cell) -> Sequence[int]:
        if seeds is None:
            return done.get(cell) or cell.seeds or usual[0][0]
        return seeds(cell) if callable(seeds) else seeds

    return [_slot(row, cell, seed, planned.get(cell), runs) for row, cell in cells for seed in wanted(cell)]


def needed(experiment: str) -> Cell:
    """The run of an experiment as it is, for a cell that starts from it or scores it."""
    return Cell("train", (f"+experiment={experiment}",), ())


def _slot(row: Row, cell: Cell, seed: int, planned: Planned | None, runs: Runs) -> Slot:
    if planned is None:
        return Slot(row, cell, seed)
    key = planned.key
    finished = runs.finished(key, seed)
    return Slot(
        row=row,
        cell=cell,
        seed=seed,
        overrides=(*planned.overrides, f"seed={seed}"),
        key=key,
        run=finished[0] if finished else None,
        others=max(0, len(finished) - 1),
        unfinished=next((run for run in runs.of(key, seed) if run.state != FINISHED), None),
        passed_over=next(iter(runs.of(key, seed, counting=False)), None),
        needs={name: _slot(row, needed(name), seed, plan, runs) for name, plan in planned.needs.items()},
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
            key: (reference(value) or value)
            if key in _MODELS and isinstance(value, str)
            else referred(value, reference)
            for key, value in plain.items()
        }
    return [referred(value, reference) for value in plain] if isinstance(plain, list | tuple) else plain


# Options that decide how the runs which an evaluation scores are trained, not what the evaluation measures.
_OF_TRAINING = ("backbone", "gpu", "training", "dataset", "data_dir")


def fits(override: str, command: str, plain: Plain) -> bool:
    """Whether a row has the option, and an override of it leaves alone what the row starts from.

    `override` is in Hydra's grammar; `plain` is the configuration of the row without it.
    """
    path = _option(override)
    if path == "experiment":
        return command == "train"
    if path == "backbone.name" and (plain.get("backbone") or {}).get("scratch") is not None:
        return False  # a new model has no name
    word, dot, _ = path.partition(".")
    if override.lstrip().startswith("+"):  # an option that is not there yet
        return word in plain and not (dot and plain[word] is None)
    with suppress(KeyError, TypeError):  # no such option, or one in a group that is null or a value
        value: Any = reduce(getitem, path.split("."), plain)
        return not str(value).startswith(RUN)
    return False


def below(command: str, extra: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the overrides that also apply to the runs which a run of this command needs first."""
    if command == "train":
        return extra
    return tuple(override for override in extra if _option(override).partition(".")[0] in _OF_TRAINING)


def _option(override: str) -> str:
    return override.partition("=")[0].strip().lstrip("+~").partition("@")[0].replace("/", ".")


def measured(runs: Sequence[RunFiles]) -> list[Measured]:
    """What tables need to know of these runs, in any order; the model of one of them counts as that run."""
    by_tail = {_tail(run.path): run for run in runs}
    keys: dict[Path, str] = {}
    starts_from: dict[Path, list[Path]] = {}

    def key_of(run: RunFiles) -> str:
        if run.path not in keys:
            keys[run.path] = ""  # ends the recursion for a run that starts from itself
            keys[run.path] = identity(run.config, lambda name: named_by(run, name))
        return keys[run.path]

    def named_by(run: RunFiles, name: str) -> Plain | None:
        path = Path(name)
        other = by_tail.get(_tail(path.parent if path.name == "model" else path))
        if other is None or "/" not in name:
            return None
        starts_from.setdefault(run.path, []).append(other.path)
        return {"run": key_of(other), "same_seed": _seed(other) == _seed(run)}

    return [_measured(run, key_of(run), starts_from.get(run.path, ())) for run in runs if run.config]


def _measured(run: RunFiles, key: str, starts_from: Sequence[Path]) -> Measured:
    scale, luck = run.config.get(KEY), numbers(run.results.get(LUCK))
    return Measured(
        path=run.path,
        key=key,
        seed=_seed(run),
        state=str(run.status.get("state", "no status yet")),
        when=run.when,
        scale=None if scale is None else str(scale),
        scores=numbers(run.scores),
        baseline=numbers(run.results.get("baseline")),
        data={name: str(mark) for name, mark in run.data.items() if not name.startswith(CODE)},
        other_code=changes(changed(code_of(run.config), run.data)),
        starts_from=tuple(starts_from),
        luck=luck["best"] - luck["chosen"] if luck else None,
    )


def _tail(path: Path) -> tuple[str, str]:
    """Name and directory of a run: the part of its path that stays the same when `outputs` is moved."""
    return path.parent.name, path.name


def _seed(run: RunFiles) -> int:
    seed = run.config.get("seed")
    return seed if isinstance(seed, int) else -1


def speeds(lines: Iterable[Plain], rows_per_step: int) -> dict[str, float]:
    """The `speed` numbers of a `Column`, as far as the lines of `speed.jsonl` have them, in their order.

    `minutes_per_1000_steps` excludes pauses for dev scores, since the rates of the lines do, and the first
    line, which includes the start-up, where there are others. `peak_memory_gb` is the most that the device
    had allocated, in units of 10^9 bytes. In a resumed run, steps repeat.
    """
    speed: dict[str, float] = {}
    rows = [row for line in lines if "step" in (row := numbers(line))]
    if memory := [row["memory"] for row in rows if "memory" in row]:
        speed["peak_memory_gb"] = max(memory) / 1e9
    seconds, steps = 0.0, 0.0
    for before, row in pairwise([{"step": 0.0}, *rows] if len(rows) == 1 else rows):
        done, rate = row["step"] - before["step"], row.get("rows_per_second", 0.0)
        if done > 0 and rate > 0:
            seconds += done * rows_per_step / rate
            steps += done
    if steps:
        speed["minutes_per_1000_steps"] = 1000 * seconds / steps / 60
    return speed


class Cells:
    """Finds the runs of tables; the run directories are read once, and each configuration is composed once.

    Args:
        outputs: folders with runs in or below them.
        extra: overrides of every row that has such an option, after those of the reduced setting. They leave
            alone what a row starts from, `run:NAME` or a new model.
        scale: the reduced setting; None for runs as the paper has them.
        counts: see `Runs`.
        config_dir: the user's own folder of presets.
        of_any_code: whether runs count whose code is not that of now.
    """

    def __init__(
        self,
        outputs: Sequence[Path] = (Path("outputs"),),
        *,
        extra: Sequence[str] = (),
        scale: Scale | None = None,
        counts: Callable[[Measured], bool] | None = None,
        config_dir: Path | None = None,
        of_any_code: bool = False,
    ) -> None:
        found = measured(listing.find([folder for folder in outputs if folder.is_dir()]).runs)
        self.measured = [replace(run, other_code="") for run in found] if of_any_code else found
        self.extra, self.scale = tuple(extra), scale
        self._runs = Runs(self.measured, counts)
        self._compositions, self._config_dir = Compositions(config_dir), config_dir
        self._planned: dict[tuple[str, tuple[str, ...], tuple[str, ...]], Planned] = {}
        self._checked = False

    def find(self, table: Table, seeds: Seeds | None = None) -> list[Slot]:
        """See `find_slots`; ConfigError if an extra override fits no row, is refused, or joins two runs."""
        runnable = [(row, cell) for row in table.rows for cell in row.cells if cell.not_runnable is None]
        if self.extra and runnable:
            if not self._checked:
                self._check(table.name, dict.fromkeys(cell for _, cell in runnable))
            self._keep_apart(table.name, runnable)
        return find_slots(self.seeded(table), self._runs, self._plan, seeds)

    def seeded(self, table: Table) -> Table:
        """The table with the seeds of the reduced setting, if that has some, for its own and its cells'."""
        if self.scale is None or not self.scale.seeds:
            return table
        rows = [replace(row, cells=tuple(replace(run, seeds=()) for run in row.cells)) for row in table.rows]
        return replace(table, seeds=self.scale.seeds, rows=rows)

    def asked(self, table: Table) -> Seeds:
        """The seeds of each cell of the table, whatever has finished."""
        return lambda cell: cell.seeds or self.seeded(table).seeds

    def _overrides(self, cell: Cell) -> tuple[str, ...]:
        return (*cell.overrides, *(() if self.scale is None else getattr(self.scale, cell.command)))

    def _fitting(self, cell: Cell, extra: Sequence[str]) -> tuple[str, ...]:
        plain = self._compositions.config(cell.command, self._overrides(cell)) if extra else {}
        return tuple(override for override in extra if fits(override, cell.command, plain))

    def _plan(self, cell: Cell, extra: tuple[str, ...] | None = None) -> Planned:
        extra = self.extra if extra is None else extra
        overrides = (*self._overrides(cell), *self._fitting(cell, extra))
        known = (cell.command, overrides, below(cell.command, extra))
        if known not in self._planned:
            config = self._compositions.config(cell.command, overrides)
            if self.scale is not None:
                config[KEY] = self.scale.name
            needs: dict[str, Planned] = {}

            def first(name: str) -> Plain | None:
                """What the newest run of an experiment counts as: that experiment, in the same setting."""
                if not name.startswith(RUN):
                    return None
                experiment = name.removeprefix(RUN)
                needs[experiment] = self._plan(needed(experiment), below(cell.command, extra))
                return {"run": needs[experiment].key, "same_seed": True}

            self._planned[known] = Planned(identity(config, first), overrides, needs)
        return self._planned[known]

    def _check(self, table: str, cells: Iterable[Cell]) -> None:
        """Check the extra overrides against the rows, Hydra and the safety rules, once."""
        unused = [arg for arg in self.extra if not any(self._takes(arg, cell, self.extra) for cell in cells)]
        # One that fits no row is composed, too, so that Hydra says what is wrong with it.
        chosen = {(cell.command, self._fitting(cell, self.extra)): self._overrides(cell) for cell in cells}
        for (command, fitting), overrides in chosen.items():
            request = Request(command, (*overrides, *fitting, *unused), config_dir=self._config_dir)
            composed(request, strict=True)
        if unused:
            why = f"no row of {table} takes it; a model that is that of another run, or a new one, stays"
            raise ConfigError([f"{arg}: {why}" for arg in unused])
        self._checked = True

    def _takes(self, override: str, cell: Cell, extra: tuple[str, ...]) -> bool:
        if override in self._fitting(cell, extra):
            return True
        left = below(cell.command, extra)
        return any(self._takes(override, needed(name), left) for name in self._plan(cell, extra).needs)

    def _keep_apart(self, table: str, runnable: Sequence[tuple[Row, Cell]]) -> None:
        """Refuse extra overrides that replace what distinguishes two rows."""
        seen: dict[str, tuple[str, str]] = {}  # by identity: that without the extra ones, and the row
        for row, cell in runnable:
            key, label = self._plan(cell, ()).key, label_of(row, cell)
            before = seen.setdefault(self._plan(cell).key, (key, label))
            if before[0] != key:
                raise ConfigError(
                    f"{' '.join(self._fitting(cell, self.extra))}: {table}: {before[1]} and {label} would be "
                    "one run; leave out what makes them so, or reproduce one with --only"
                )


def label_of(row: Row, cell: Cell) -> str:
    """The name of a cell in messages: its row and, where that has several cells, its columns and setting."""
    told = [", ".join(cell.headings)] if row.parts else []
    told += [cell.choice] if cell.choice else []
    return f"{row.id} ({'; '.join(told)})" if len(row.cells) > 1 else row.id
