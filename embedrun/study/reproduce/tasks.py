"""The runs that a table needs, in order; all are checked before the first starts."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from embedrun.config.compose import Compositions
from embedrun.errors import ConfigError, DataError
from embedrun.experiment.data import Fingerprints
from embedrun.experiment.plan import EvaluatePlan, TrainPlan, plan_evaluate, plan_train
from embedrun.files import Plain
from embedrun.runs.search import changed, configuration
from embedrun.table.cells import FINISHED, MISSING, NOT_RUNNABLE, Cells, Measured, Seeds, Slot, label_of
from embedrun.table.preset import KEY, RUN, Scale, Table


@dataclass(frozen=True)
class Arguments:
    """The parsed command line.

    Args:
        rows: ids of the rows whose cells are run.
        overrides: of every row.
        hydra: overrides for the launcher.
        seeds: of the runs; None: those of the reduced setting, of the cell or of the table.
        scale: the reduced setting.
        dry: whether only to print what would be run.
        again: whether to run finished cells again, from scratch.
    """

    table: Table
    rows: tuple[str, ...]
    overrides: tuple[str, ...]
    hydra: tuple[str, ...]
    seeds: tuple[int, ...] | None
    scale: Scale | None
    dry: bool
    again: bool


Known = tuple[str, int]  # identity of a configuration, and seed


@dataclass(frozen=True)
class Task:
    """One run, for one cell of the table or for several.

    Args:
        labels: the rows that it is for, with their columns where these are several runs.
        needs: the runs that it starts from or scores, by the name after `run:`.
        slot: what exists of it.
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
    def state(self) -> str:
        """`again`; of what no longer counts, its changed code or `other rows`; else the slot's state."""
        if self.again and self.slot.state == FINISHED:
            return "again"
        if self.slot.state != MISSING or (old := self.slot.passed_over) is None:
            return self.slot.state
        return old.other_code or "other rows"

    @property
    def seed(self) -> int:
        """Random seed of the run."""
        return self.known[1]

    @property
    def label(self) -> str:
        """Its name in messages."""
        return f"{', '.join(self.labels)}, seed {self.seed}"


def tasks_of(
    cells: Cells, table: Table, rows: Sequence[str], seeds: Seeds, *, again: bool = False
) -> list[list[Task]]:
    """The runs stage by stage: each needs only those of earlier stages.

    `cells` knows the existing runs that count. `rows` are the ids of the wanted rows; with `again`, their
    cells are run although they have finished.
    """
    wanted = replace(table, rows=tuple(row for row in table.rows if row.id in rows))
    slots = [slot for slot in cells.find(wanted, seeds) if slot.state != NOT_RUNNABLE]
    found: dict[Known, Task] = {}
    for slot in slots:
        known, label = (slot.key, slot.seed), label_of(slot.row, slot.cell)
        if known in found:
            labels = dict.fromkeys([*found[known].labels, label])
            found[known] = replace(found[known], labels=tuple(labels))
        else:
            found[known] = _task(slot, (label,), again=again)
    _add_first(found)
    return _stages(found)


def _task(slot: Slot, labels: tuple[str, ...], *, again: bool = False) -> Task:
    return Task((slot.key, slot.seed), labels, slot.cell.command, slot.overrides, {}, slot, again)


def _add_first(found: dict[Known, Task]) -> None:
    """Add the runs that open ones need, and what those need; a table may have them as rows of its own."""
    looked: set[Known] = set()
    while waiting := [task for task in found.values() if task.is_open and task.known not in looked]:
        for task in waiting:
            looked.add(task.known)
            needs = {}
            for name, slot in task.slot.needs.items():
                needs[name] = (slot.key, slot.seed)
                found.setdefault(needs[name], _task(slot, (f"{RUN}{name}",)))
            found[task.known] = replace(task, needs=needs)


def _stages(found: Mapping[Known, Task]) -> list[list[Task]]:
    depths: dict[Known, int] = {}

    def depth(known: Known) -> int:
        if known not in depths:
            own = found[known]
            below = [depth(need) + 1 for need in own.needs.values()]
            depths[known] = max(below, default=0)
        return depths[known]

    stages: dict[int, list[Task]] = {}
    for known, task in found.items():
        stages.setdefault(depth(known), []).append(task)
    return [stages[number] for number in sorted(stages)]


class Plans:
    """The plans of the open tasks.

    `configs` have `run:NAME` for a run that does not exist yet, `choices` are the presets behind them,
    `made` are the checked plans, and `refused` is why a task cannot be run.
    """

    def __init__(self, stages: Sequence[Sequence[Task]], scale: Scale | None) -> None:
        self.configs: dict[Known, Plain] = {}
        self.choices: dict[Known, dict[str, str]] = {}
        self.made: dict[Known, TrainPlan | EvaluatePlan] = {}
        self.refused: dict[Known, str] = {}
        self._overrides: dict[Known, tuple[str, ...]] = {}
        compositions = Compositions()
        for task in (task for stage in stages for task in stage if task.is_open):
            self._overrides[task.known] = task.overrides
            try:
                config = compositions.config(task.command, task.overrides)
                if scale is not None:
                    config[KEY] = scale.name
                self.configs[task.known] = config
                self.choices[task.known] = compositions.choices(task.command, task.overrides)
                self.made[task.known] = (plan_train if task.command == "train" else plan_evaluate)(config)
            except ConfigError as fault:
                self.refused[task.known] = "; ".join(fault.problems)

    def notices(self) -> list[str]:
        """Where the runs depart from the files of their models, each notice once."""
        from embedrun.experiment.notices import notices

        found: list[str] = []
        for known, plan in self.made.items():
            with contextlib.suppress(DataError):  # the run reports it
                found += notices(plan.config, self._overrides[known])
        return list(dict.fromkeys(found))


class RowsOfNow:
    """Compares runs with the current rows and models; each choice of data is read once.

    A `data_dir=` among the overrides of the command line says where the rows are now.
    """

    def __init__(self, overrides: Sequence[str]) -> None:
        given = [one.partition("=")[2] for one in overrides if one.startswith("data_dir=")]
        self._data_dir = given[-1:]
        self._fingerprints = Fingerprints()

    def agree(self, run: Measured) -> bool:
        """Whether a run has read the current rows and models, as far as is known."""
        return not self.changed(run)

    def changed(self, run: Measured) -> list[str]:
        """The splits, by data set, and the models that have changed since a run read them."""
        try:
            config = dict(configuration(run.path))
        except ConfigError:
            return []  # unknown
        for folder in self._data_dir:
            config["data_dir"] = folder
        command = "train" if "training" in config else "evaluate"
        return changed(self._fingerprints.of(command, config), run.data)
