"""The configurations of a table's cells, and the runs below `outputs/` that have them."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TypeGuard

from embedrun.config.compose import Compositions, composed
from embedrun.config.request import Request
from embedrun.console import numbers
from embedrun.errors import ConfigError
from embedrun.family import code_of
from embedrun.files import Plain
from embedrun.runs import listing
from embedrun.runs.reading import RunFiles
from embedrun.runs.search import CODE, changed, changes
from embedrun.table.cells import (
    Measured,
    Planned,
    Runs,
    Seeds,
    Slot,
    below,
    find_slots,
    fits,
    identity,
    needed,
)
from embedrun.table.preset import KEY, RUN, Cell, Row, Scale, Table

_GB = 1e9  # bytes
_MOST = 1e18  # neither steps nor bytes come near it


def speeds(lines: Sequence[Plain], rows_per_step: int) -> dict[str, float]:
    """Numbers by the names of `embedrun.table.preset.SPEEDS`, as far as the lines of `speed.jsonl` have them.

    `minutes_per_1000_steps` excludes pauses for dev scores, since the rates of the lines do, and the first
    line, which includes the start-up, where there are others. `peak_memory_gb` is the most that the device
    had allocated, in units of 10^9 bytes.

    The lines are in the order of the file; in a resumed run, steps repeat. A line without a step is ignored.
    """
    found: dict[str, float] = {}
    lines = [line for line in lines if _is_number(line.get("step"))]
    memory = [line["memory"] for line in lines if _is_number(line.get("memory"))]
    if memory:
        found["peak_memory_gb"] = max(memory) / _GB
    seconds, steps = 0.0, 0
    for before, line in pairwise([{"step": 0}, *lines] if len(lines) == 1 else lines):
        gone, rate = line["step"] - before["step"], line.get("rows_per_second")
        if gone > 0 and _is_number(rate) and rate > 0:
            seconds += gone * rows_per_step / rate
            steps += gone
    if steps:
        found["minutes_per_1000_steps"] = 1000 * seconds / steps / 60
    return found


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MOST


_MODEL = "model"  # folder of a run directory


class RunIndex:
    """Runs, in any order, with their identities."""

    def __init__(self, runs: Sequence[RunFiles]) -> None:
        self._runs = {_tail(run.path): run for run in runs}
        self._keys: dict[Path, str] = {}
        self._first: dict[Path, list[Path]] = {}  # what each run starts from or scores
        self.measured = [self._measured(run) for run in runs if run.config]

    @classmethod
    def below(cls, folders: Sequence[Path]) -> "RunIndex":
        """Every run in or below the folders; what is no run or cannot be read is skipped."""
        return cls(listing.find([folder for folder in folders if folder.is_dir()]).runs)

    def _measured(self, run: RunFiles) -> Measured:
        notes = run.results.get("notes")
        scale = run.config.get(KEY) or (notes.get(KEY) if isinstance(notes, Mapping) else None)
        key = self._key(run)
        return Measured(
            path=run.path,
            key=key,
            seed=_seed(run),
            state=str(run.status.get("state", "no status yet")),
            when=run.when,
            scale=None if scale is None else str(scale),
            scores=run.scores,
            baseline=numbers(run.results.get("baseline")),
            data={name: str(mark) for name, mark in run.data.items() if not name.startswith(CODE)},
            other_code=changes(changed(code_of(run.config), run.data)),
            starts_from=tuple(self._first.get(run.path, ())),
        )

    def _key(self, run: RunFiles) -> str:
        if run.path not in self._keys:
            self._keys[run.path] = ""  # ends the recursion for a run that starts from itself
            self._keys[run.path] = identity(run.config, lambda name: self._reference(name, run))
        return self._keys[run.path]

    def _reference(self, name: str, by: RunFiles) -> Plain | None:
        """What stands for a model that is one of these runs; also records that `by` names it."""
        if "/" not in name:
            return None
        path = Path(name)
        other = self._runs.get(_tail(path.parent if path.name == _MODEL else path))
        if other is None:
            return None
        self._first.setdefault(by.path, []).append(other.path)
        return reference(self._key(other), same_seed=_seed(other) == _seed(by))


def reference(key: str, *, same_seed: bool = True) -> Plain:
    """What stands in an identity for a model that is a run of identity `key`.

    `same_seed`: whether that run has the seed of the run that starts from it or scores it.
    """
    return {"run": key, "same_seed": same_seed}


def with_speed(run: Measured) -> Measured:
    """The run with the numbers of its `speed.jsonl`, as far as that can be read."""
    training = RunFiles(run.path).config.get("training")
    if not isinstance(training, Mapping):
        return run  # an evaluation
    lines = []
    try:
        for line in (run.path / "speed.jsonl").read_text(encoding="utf-8").splitlines():
            lines.append(json.loads(line))
    except (OSError, ValueError):
        pass  # the last line of a killed run may be incomplete
    rows = training.get("batch_size", 0) * training.get("accumulate", 1)
    return replace(run, speed=speeds([line for line in lines if isinstance(line, dict)], rows))


def _tail(path: Path) -> tuple[str, str]:
    """Name and directory of a run: the part of its path that stays the same when `outputs` is moved."""
    return path.parent.name, path.name


def _seed(run: RunFiles) -> int:
    seed = run.config.get("seed")
    return seed if isinstance(seed, int) else -1


OUTPUTS = Path("outputs")


class Cells:
    """Finds the runs of tables; the run directories are read once, and each configuration is composed once.

    Args:
        outputs: folders with runs in or below them.
        extra: overrides of every row that has such an option, after those of the reduced setting. They leave
            alone what a row starts from, `run:NAME` or a new model.
        scale: the reduced setting; None for runs as the paper has them.
        counts: see `Runs`.
    """

    def __init__(
        self,
        outputs: Sequence[Path] = (OUTPUTS,),
        *,
        extra: Sequence[str] = (),
        scale: Scale | None = None,
        counts: Callable[[Measured], bool] | None = None,
    ) -> None:
        self.index = RunIndex.below(outputs)
        self.extra, self.scale = tuple(extra), scale
        self._runs = Runs(self.index.measured, counts)
        self._compositions = Compositions()
        self._plain: dict[tuple[str, tuple[str, ...]], Plain] = {}
        self._planned: dict[tuple[str, tuple[str, ...], tuple[str, ...]], Planned] = {}
        self._checked = not extra

    def find(self, table: Table, seeds: Seeds | None = None, *, apart: bool = True) -> list[Slot]:
        """Every run that the table asks for, row by row and seed by seed.

        Without `seeds`, each cell has those with which it has finished; one without a finished run has its
        own, or the seeds that most others have, else `Cells.seeds`. `apart` refuses extra overrides that make
        one run of two.

        Raises:
            ConfigError: if an extra override fits no row, or is refused.
        """
        self._check(table)
        if apart and self.extra:
            self._keep_apart(table)
        if self.scale is not None and self.scale.seeds:
            table = replace(table, rows=tuple(map(_without_seeds, table.rows)))
        slots = find_slots(table, self._runs, self._plan, seeds, self.seeds(table))
        if not any(column.speed for column in table.columns):
            return slots
        return [slot if slot.run is None else replace(slot, run=with_speed(slot.run)) for slot in slots]

    def seeds(self, table: Table) -> tuple[int, ...]:
        """The seeds that the reduced setting or, without one, the table names."""
        return self.scale.seeds if self.scale is not None and self.scale.seeds else table.seeds

    def asked(self, table: Table) -> Seeds:
        """The seeds of each cell of the table: its own, else `Cells.seeds`."""
        return lambda cell: cell.seeds or self.seeds(table)

    def scales(self) -> list[str]:
        """The reduced settings in which runs were made."""
        return sorted({run.scale for run in self.index.measured if run.scale is not None})

    def overrides(self, cell: Cell) -> tuple[str, ...]:
        """A cell's own overrides, those of the reduced setting, and the extra ones."""
        return (*self._own(cell), *self._fitting(cell, self.extra))

    def _own(self, cell: Cell) -> tuple[str, ...]:
        return (*cell.overrides, *(() if self.scale is None else getattr(self.scale, cell.command)))

    def _fitting(self, cell: Cell, extra: Sequence[str]) -> tuple[str, ...]:
        return tuple(one for one in extra if fits(one, cell.command, self._without(cell)))

    def _without(self, cell: Cell) -> Plain:
        """The configuration of a cell without the extra overrides."""
        known = (cell.command, self._own(cell))
        if known not in self._plain:
            self._plain[known] = self._compositions.config(*known)
        return self._plain[known]

    def _plan(self, cell: Cell, extra: tuple[str, ...] | None = None) -> Planned:
        extra = self.extra if extra is None else extra
        overrides = (*self._own(cell), *self._fitting(cell, extra)) if extra else self._own(cell)
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
                return reference(needs[experiment].key)

            self._planned[known] = Planned(identity(config, first), overrides, needs)
        return self._planned[known]

    def _check(self, table: Table) -> None:
        """Check the extra overrides against Hydra and the safety rules, once.

        Raises:
            ConfigError: for one that no row takes, and for what those refuse.
        """
        cells = list(dict.fromkeys(cell for _, cell in _runnable(table)))
        if self._checked or not cells:
            return
        chosen = {(cell.command, self._fitting(cell, self.extra)): cell for cell in cells}
        unused = [one for one in self.extra if not any(self._takes(one, cell, self.extra) for cell in cells)]
        # One that fits no row is composed, too, so that Hydra says what is wrong with it.
        for (command, fitting), cell in chosen.items():
            composed(Request(command, (*self._own(cell), *fitting, *unused)), strict=True)
        if unused:
            raise ConfigError(
                [
                    f"{one}: no row of {table.name} takes it; what a row starts from, the model of another "
                    "run or a new one, stays"
                    for one in unused
                ]
            )
        self._checked = True

    def _takes(self, override: str, cell: Cell, extra: tuple[str, ...]) -> bool:
        """Whether a cell, or a run that it needs first, has the option."""
        if override in self._fitting(cell, extra):
            return True
        left = below(cell.command, extra)
        return any(self._takes(override, needed(name), left) for name in self._plan(cell, extra).needs)

    def _keep_apart(self, table: Table) -> None:
        """Refuse extra overrides that replace what distinguishes two rows.

        Raises:
            ConfigError: naming the rows.
        """
        seen: dict[str, tuple[str, str]] = {}  # by identity: that without the extra ones, and the row
        for row, cell in _runnable(table):
            own, label = self._plan(cell, ()).key, label_of(row, cell)
            before = seen.setdefault(self._plan(cell).key, (own, label))
            if before[0] != own:
                alone = "" if before[1].startswith(row.id) else ", or reproduce one with --only"
                raise ConfigError(
                    f"{' '.join(self._fitting(cell, self.extra))}: {table.name}: {before[1]} and {label} "
                    f"would be one run; leave out what makes them so{alone}"
                )


def _without_seeds(row: Row) -> Row:
    """The row without seeds of its cells' own; a reduced setting names those of all."""
    return replace(row, cells=tuple(replace(cell, seeds=()) for cell in row.cells))


def label_of(row: Row, cell: Cell) -> str:
    """The name of a cell in messages: its row and, where that has several cells, its columns."""
    return f"{row.id} ({', '.join(cell.headings)})" if len(row.cells) > 1 else row.id


def _runnable(table: Table) -> list[tuple[Row, Cell]]:
    return [(row, cell) for row in table.rows for cell in row.cells if cell.not_runnable is None]
