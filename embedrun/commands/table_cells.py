"""The runs that a table of the papers asks for, and which of them have finished."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from embedrun.commands.arguments import Request
from embedrun.commands.compose import composed
from embedrun.commands.compositions import Compositions
from embedrun.commands.run_index import RunIndex, reference, with_speed
from embedrun.table.cells import Planned, Runs, Slot, find_slots
from embedrun.table.identity import identity
from embedrun.table.preset import Cell, Table
from embedrun.table.scale import KEY, Scale

OUTPUTS = Path("outputs")
_MARK = "run:"


class Cells:
    """Finds the runs of tables; the run directories are read once, and each configuration is made once.

    Args:
        outputs: folders with runs in or below them.
        extra: overrides of every row that has such an option, after those of the reduced setting.
        scale: the reduced setting; None for runs as the paper has them.
        data: fingerprints of the rows that are there now, where they are known; a finished run on other
            rows is passed over.
    """

    def __init__(
        self,
        outputs: Sequence[Path] = (OUTPUTS,),
        *,
        extra: Sequence[str] = (),
        scale: Scale | None = None,
        data: Mapping[str, str] | None = None,
    ) -> None:
        self.index = RunIndex.below(outputs)
        self.extra, self.scale = tuple(extra), scale
        self._runs = Runs(self.index.measured, data)
        self._compositions = Compositions()
        self._planned: dict[tuple[str, tuple[str, ...]], Planned] = {}
        self._checked = not extra

    def find(self, table: Table, seeds: Sequence[int] | None = None) -> list[Slot]:
        """Every run that the table asks for, row by row and seed by seed.

        Args:
            table: of the papers.
            seeds: of the runs; None: of each cell those with which it has finished, and of one that has with
                none those that most of the others have, else `seeds`.

        Raises:
            ConfigError: if an extra override fits no row, or is refused.
        """
        self._check(table)
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
        reduced = () if self.scale is None else getattr(self.scale, cell.command)
        return (*cell.overrides, *reduced, *(one for one in self.extra if self._fits(one, cell.command)))

    def _plan(self, cell: Cell) -> Planned:
        overrides = self.overrides(cell)
        known = (cell.command, overrides)
        if known not in self._planned:
            config = self._compositions.config(cell.command, overrides)
            if self.scale is not None:
                config[KEY] = self.scale.name
            needs: dict[str, str] = {}

            def first(name: str) -> dict[str, Any] | None:
                """What the newest run of an experiment counts as: that experiment, in the same setting."""
                if not name.startswith(_MARK):
                    return None
                experiment = name.removeprefix(_MARK)
                needs[experiment] = self._plan(Cell("train", (f"+experiment={experiment}",), ())).key
                return reference(needs[experiment])

            self._planned[known] = Planned(identity(config, first), overrides, needs)
        return self._planned[known]

    def _fits(self, override: str, command: str) -> bool:
        """Whether the command has the option, as far as its first word says."""
        word, dot, _ = override.partition("=")[0].lstrip("+~").partition(".")
        keys = self._compositions.keys(command)
        if word == "experiment":
            return command == "train"
        # `dataset.path` is none of an evaluation that has no data set.
        return word in keys and not (dot and keys[word] is None)

    def _check(self, table: Table) -> None:
        """Hold the extra overrides against Hydra and the safety rules, once."""
        cells = [cell for row in table.rows for cell in row.cells if cell.not_runnable is None]
        if self._checked or not cells:
            return
        unused = [one for one in self.extra if not any(self._fits(one, cell.command) for cell in cells)]
        # One that fits no row is composed, too, so that Hydra says what is wrong with it.
        for cell in {cell.command: cell for cell in cells}.values():
            overrides = (*self.overrides(cell), *unused)
            composed(Request(cell.command, overrides), strict=True)
        self._checked = True


def find_cells(
    table: Table,
    outputs: Path | Sequence[Path] = OUTPUTS,
    seeds: Sequence[int] | None = None,
    extra: Sequence[str] = (),
    scale: Scale | None = None,
    data: Mapping[str, str] | None = None,
) -> list[Slot]:
    """Every run that one table asks for; see `Cells`."""
    folders = [outputs] if isinstance(outputs, Path) else outputs
    return Cells(folders, extra=extra, scale=scale, data=data).find(table, seeds)
