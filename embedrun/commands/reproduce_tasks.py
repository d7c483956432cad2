"""The runs that a table needs, in the order in which they can be made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from embedrun.commands.table_cells import Cells
from embedrun.table.cells import FINISHED, NOT_RUNNABLE, Slot
from embedrun.table.preset import Cell, Row, Table

_MARK = "run:"
_MODELS = ("name", "model")  # keys of the options that name a model

Known = tuple[str, int]  # identity of a configuration, and seed


@dataclass(frozen=True)
class Task:
    """One run, for one cell of the table or for several.

    Args:
        known: what tells it from the others.
        labels: the rows that it is for.
        command: `train` or `evaluate`.
        overrides: all of them.
        needs: the runs that it starts from or scores, by the name behind `run:`.
        slot: what there is of it.
        again: whether it is run although it has finished.
    """

    known: Known
    labels: tuple[str, ...]
    command: Literal["train", "evaluate"]
    overrides: tuple[str, ...]
    needs: Mapping[str, Known]
    slot: Slot
    again: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it is to be run."""
        return self.again or self.slot.run is None

    @property
    def seed(self) -> int:
        """Of the run."""
        return self.known[1]

    @property
    def label(self) -> str:
        """What a person calls it."""
        return f"{', '.join(self.labels)}, seed {self.seed}"


def tasks_of(
    cells: Cells, table: Table, rows: Sequence[str], seeds: Sequence[int], *, again: bool = False
) -> list[list[Task]]:
    """The runs stage by stage: each needs only those of stages before it.

    Args:
        cells: of the runs that there are.
        table: of a paper.
        rows: ids of the rows that are wanted.
        seeds: of the runs.
        again: whether the cells of these rows are run although they have finished.
    """
    wanted = replace(table, rows=tuple(row for row in table.rows if row.id in rows))
    slots = [slot for slot in cells.find(wanted, seeds) if slot.state != NOT_RUNNABLE]
    found: dict[Known, Task] = {}
    for slot in slots:
        known = (slot.key, slot.seed)
        if known in found:
            labels = dict.fromkeys([*found[known].labels, slot.row.id])
            found[known] = replace(found[known], labels=tuple(labels))
        else:
            found[known] = _task(slot, (slot.row.id,), again=again)
    _add_first(cells, table, found)
    return _stages(found)


def refer(plain: Any, places: Mapping[str, str]) -> Any:
    """Configuration data in which directories stand for the ``run:NAME`` of these names.

    Args:
        plain: plain data, of any form.
        places: full paths of run directories, by name.
    """
    if isinstance(plain, Mapping):
        return {
            key: places.get(one.removeprefix(_MARK), one)
            if key in _MODELS and isinstance(one, str) and one.startswith(_MARK)
            else refer(one, places)
            for key, one in plain.items()
        }
    return [refer(one, places) for one in plain] if isinstance(plain, list) else plain


def _task(slot: Slot, labels: tuple[str, ...], *, again: bool = False) -> Task:
    return Task((slot.key, slot.seed), labels, slot.cell.command, slot.overrides, {}, slot, again)


def _add_first(cells: Cells, table: Table, found: dict[Known, Task]) -> None:
    """Add the runs that open ones need first, and theirs; a table may have them as rows of its own."""
    looked: set[Known] = set()
    while waiting := [task for task in found.values() if task.is_open and task.known not in looked]:
        for task in waiting:
            looked.add(task.known)
            needs = {}
            for name in task.slot.needs:
                (slot,) = cells.find(_alone(table, name), [task.seed])
                needs[name] = (slot.key, slot.seed)
                found.setdefault(needs[name], _task(slot, (f"{_MARK}{name}",)))
            found[task.known] = replace(task, needs=needs)


def _alone(table: Table, experiment: str) -> Table:
    """A table of one row: the run of an experiment as it is."""
    cell = Cell("train", (f"+experiment={experiment}",), ())
    row = Row(
        label=experiment, group="", kind="train", cells=(cell,), published={}, source="", note="",
        unspecified=(), x=None, line=None, keys={}, not_runnable=None,
    )  # fmt: skip
    return replace(table, rows=(row,), columns=())


def _stages(found: Mapping[Known, Task]) -> list[list[Task]]:
    depths: dict[Known, int] = {}

    def depth(known: Known) -> int:
        if known not in depths:
            own = found[known]
            below = [depth(need) + 1 for need in own.needs.values() if found[need].is_open]
            depths[known] = max(below, default=0)
        return depths[known]

    stages: dict[int, list[Task]] = {}
    for known, task in found.items():
        stages.setdefault(depth(known), []).append(task)
    return [stages[number] for number in sorted(stages)]


def place_of(slot: Slot) -> Path | None:
    """The directory of the finished run, or None."""
    return slot.run.path if slot.state == FINISHED and slot.run is not None else None
