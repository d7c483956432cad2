"""What the evaluation rows of a run share with the rows that its model has seen."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from embedrun.commands.audit_table import lines, percent
from embedrun.commands.named import data_set
from embedrun.config import Checker
from embedrun.console import say
from embedrun.dataset.overlap import Shared, overlap
from embedrun.files import to_json, write_atomically
from embedrun.rows import Rows

_log = logging.getLogger("embedrun")
FILE = "contamination.json"
_RULE = (
    "lower case; every run of characters other than letters and digits is one space; the order of the two "
    "texts of a pair does not matter; a row of one text is compared with every text that was seen"
)
_UNITS = ("pairs", "sentences")
Scored = Mapping[str, Mapping[str, Rows]]  # rows of each task, by its own names for its sources


@dataclass(frozen=True)
class Contamination:
    """What the rows of evaluation tasks share with rows that were seen.

    Args:
        seen: the rows, of one data set or of several.
        scored: rows of each task, by its own names for its sources.
        shared: of each task and source, as `scored` has them.
    """

    seen: Sequence[Rows]
    scored: Scored
    shared: Mapping[str, Mapping[str, Shared]]

    @classmethod
    def find(cls, seen: Sequence[Rows], scored: Scored) -> "Contamination":
        """Compare every task's rows with the seen ones, which are gone through once."""
        found = iter(overlap(seen, [rows for own in scored.values() for rows in own.values()]))
        return cls(seen, scored, {task: {key: next(found) for key in own} for task, own in scored.items()})

    def clean(self) -> dict[str, dict[str, np.ndarray]]:
        """Of each task and source, true where no pair of the row, or its one text, was seen, ``(rows,)``."""
        return {task: {key: ~shared.rows for key, shared in own.items()} for task, own in self.shared.items()}

    def summary(self) -> str | None:
        """The seen pairs and sentences of each task, as a part of a sentence; None where there are none."""
        every = [(task, unit) for task in self.scored for unit in _UNITS]
        return "; ".join(self._part(*one) for one in every if self._counts(*one)[0]) or None

    def data(self) -> dict[str, Any]:
        """The whole table, for a JSON file."""
        sets = [
            {"task": task, **line.data()}
            for task, own in self.scored.items()
            for key, rows in own.items()
            for line in lines(rows, self.shared[task][key])
        ]
        seen = [{"name": rows.name, "split": rows.split, "rows": len(rows)} for rows in self.seen]
        tasks = {task: self._task(task) for task in self.scored}
        return {"seen": seen, "tasks": tasks, "sets": sets}

    def _task(self, task: str) -> dict[str, int]:
        """Rows of a task, and how many of its pairs and of its single sentences were seen."""
        units = [unit for unit in _UNITS if self._of(task, unit)]
        return {"rows": sum(map(len, self.scored[task].values()))} | {
            unit: self._counts(task, unit)[0] for unit in units
        }

    def _of(self, task: str, unit: str) -> dict[str, Rows]:
        """The sources of a task whose rows are such units."""
        return {key: rows for key, rows in self.scored[task].items() if self.shared[task][key].unit == unit}

    def _counts(self, task: str, unit: str) -> tuple[int, int]:
        """Seen rows and rows of a task, of those that are such units."""
        own = self._of(task, unit)
        return sum(int(self.shared[task][key].rows.sum()) for key in own), sum(map(len, own.values()))

    def _part(self, task: str, unit: str) -> str:
        """`25.6 % of the test pairs of sts (4,825 of 18,850; sts12 32.3 %, ...)`."""
        own, (seen, rows) = self._of(task, unit), self._counts(task, unit)
        splits = "/".join(dict.fromkeys(one.split for one in own.values()))
        name, each = task, ""
        if len(own) == 1:
            name = next(iter(own.values())).name
        else:
            counts = [
                (_label(one, own), int(self.shared[task][key].rows.sum()), len(one))
                for key, one in own.items()
            ]
            each = "; " + ", ".join(f"{set_} {percent(part, all_)}" for set_, part, all_ in counts if part)
        return f"{percent(seen, rows)} of the {splits} {unit} of {name} ({seen:,} of {rows:,}{each})"


def _label(rows: Rows, among: Mapping[str, Rows]) -> str:
    """The name of a data set, with its split where others of that name stand beside it."""
    several = sum(other.name == rows.name for other in among.values()) > 1
    return f"{rows.name} {rows.split}" if several else rows.name


def of_run(seen: Sequence[Rows], test: Scored, dev: Scored) -> tuple[Contamination, Contamination]:
    """What a training run's test and dev rows share with what it saw, and the test rows with the dev rows.

    Args:
        seen: training rows, the run's own and those that the model had seen before.
        test: rows of the evaluation tasks.
        dev: rows that choose the checkpoint.
    """
    selecting = [rows for own in dev.values() for rows in own.values()]
    return Contamination.find(seen, {**test, **dev}), Contamination.find(selecting, test)


def report(training: Contamination, selection: Contamination | None = None) -> dict[str, Any]:
    """What `contamination.json` holds.

    Args:
        training: against the rows that the model is trained on.
        selection: of the test rows against the dev rows, which choose the checkpoint.
    """
    tables = {"training": training.data()}
    if selection is not None:
        tables["selection"] = selection.data()
    return {"schema": 1, "rule": _RULE, **tables}


def tell(folder: Path, training: Contamination, selection: Contamination | None = None) -> None:
    """Write `contamination.json` into a run directory, and say what was seen, if anything."""
    write_atomically(folder / FILE, to_json(report(training, selection)))
    for remark in remarks(training, selection):
        say(remark)
        _log.info("%s", remark)


def remarks(training: Contamination, selection: Contamination | None = None) -> list[str]:
    """A line for the person where rows were seen, a warning for those that were trained on."""
    said = []
    if found := training.summary():
        said.append(f"warning: {found} are in the training data; see {FILE}")
    if selection is not None and (found := selection.summary()):
        said.append(f"note: {found} are in the dev data, which selects the checkpoint; see {FILE}")
    return said


def plan_seen(checker: Checker, evaluation: Any) -> Any:
    """The data set of `evaluation.contamination`, or None; notes what is wrong with it.

    Args:
        checker: collects the faults.
        evaluation: that group of the composed configuration.
    """
    word = evaluation.get("contamination") if isinstance(evaluation, Mapping) else None
    if not isinstance(word, str):
        return None  # the schema has said so
    try:
        dataset = data_set(word)
    except ValueError as fault:
        checker.problems.append(f"evaluation.contamination: {fault}")
        return None
    if "train" not in dataset.splits:
        checker.problems.append(f"evaluation.contamination: {word} has no train split, so none trains on it")
    return dataset
