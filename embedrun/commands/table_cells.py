"""The runs that a table of the papers asks for, and which of them have finished."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from embedrun.commands.run_index import RunIndex, reference, with_speed
from embedrun.commands.table_fit import below, fits
from embedrun.config.compose import Compositions, Request, composed
from embedrun.errors import ConfigError
from embedrun.table.cells import Measured, Planned, Runs, Slot, find_slots, needed
from embedrun.table.identity import RUN, identity
from embedrun.table.preset import Cell, Row, Table
from embedrun.table.scale import KEY, Scale

OUTPUTS = Path("outputs")


class Cells:
    """Finds the runs of tables; the run directories are read once, and each configuration is made once.

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
        self._plain: dict[tuple[str, tuple[str, ...]], dict[str, Any]] = {}
        self._planned: dict[tuple[str, tuple[str, ...], tuple[str, ...]], Planned] = {}
        self._checked = not extra

    def find(self, table: Table, seeds: Sequence[int] | None = None, *, apart: bool = True) -> list[Slot]:
        """Every run that the table asks for, row by row and seed by seed.

        Args:
            table: of the papers.
            seeds: of the runs; None: of each cell those with which it has finished, and of one that has with
                none those that most of the others have, else `seeds`.
            apart: whether extra overrides are refused that make one run of two.

        Raises:
            ConfigError: if an extra override fits no row, or is refused.
        """
        self._check(table)
        if apart and self.extra:
            self._keep_apart(table)
        slots = find_slots(table, self._runs, self._plan, seeds, self.seeds(table))
        if not any(column.speed for column in table.columns):
            return slots
        return [slot if slot.run is None else replace(slot, run=with_speed(slot.run)) for slot in slots]

    def seeds(self, table: Table) -> tuple[int, ...]:
        """The seeds that the reduced setting or, without one, the table names."""
        return self.scale.seeds if self.scale is not None and self.scale.seeds else table.seeds

    def scales(self) -> list[str]:
        """The reduced settings that runs were made in."""
        return sorted({run.scale for run in self.index.measured if run.scale is not None})

    def overrides(self, cell: Cell) -> tuple[str, ...]:
        """What a cell is run with: its own overrides, those of the reduced setting, and the extra ones."""
        return (*self._own(cell), *self._fitting(cell, self.extra))

    def _own(self, cell: Cell) -> tuple[str, ...]:
        return (*cell.overrides, *(() if self.scale is None else getattr(self.scale, cell.command)))

    def _fitting(self, cell: Cell, extra: Sequence[str]) -> tuple[str, ...]:
        return tuple(one for one in extra if fits(one, cell.command, self._without(cell)))

    def _without(self, cell: Cell) -> dict[str, Any]:
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

            def first(name: str) -> dict[str, Any] | None:
                """What the newest run of an experiment counts as: that experiment, in the same setting."""
                if not name.startswith(RUN):
                    return None
                experiment = name.removeprefix(RUN)
                needs[experiment] = self._plan(needed(experiment), below(cell.command, extra))
                return reference(needs[experiment].key)

            self._planned[known] = Planned(identity(config, first), overrides, needs)
        return self._planned[known]

    def _check(self, table: Table) -> None:
        """Hold the extra overrides against Hydra and the safety rules, once.

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
        """Refuse extra overrides that replace what tells two rows apart.

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


def label_of(row: Row, cell: Cell) -> str:
    """What a person calls a cell: its row and, where that has several, its columns."""
    return f"{row.id} ({', '.join(cell.headings)})" if len(row.cells) > 1 else row.id


def _runnable(table: Table) -> list[tuple[Row, Cell]]:
    return [(row, cell) for row in table.rows for cell in row.cells if cell.not_runnable is None]
