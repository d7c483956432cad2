"""The configurations of the runs that a table needs, all checked before the first of them starts."""

import contextlib
from collections.abc import Sequence
from typing import Any

from embedrun.commands.reproduce_tasks import Known, Task
from embedrun.config.compose import Compositions
from embedrun.errors import ConfigError, DataError
from embedrun.experiment.plan import EvaluatePlan, TrainPlan, plan_evaluate, plan_train
from embedrun.table.scale import KEY, Scale


class Plans:
    """What is to be run with what.

    Args:
        stages: of the table.
        scale: the reduced setting, or None.

    Attributes:
        configs: of the tasks that are to be run, with `run:NAME` for what is not there yet.
        made: what they are made of.
        refused: why some cannot be run.
    """

    def __init__(self, stages: Sequence[Sequence[Task]], scale: Scale | None) -> None:
        self.configs: dict[Known, dict[str, Any]] = {}
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
                self.made[task.known] = (plan_train if task.command == "train" else plan_evaluate)(config)
            except ConfigError as fault:
                self.refused[task.known] = "; ".join(fault.problems)

    def notices(self) -> list[str]:
        """What the runs do otherwise than the files of their models say, each once."""
        from embedrun.experiment.notices import notices

        found: list[str] = []
        for known, plan in self.made.items():
            with contextlib.suppress(DataError):  # the run says so
                found += notices(plan.config, self._overrides[known])
        return list(dict.fromkeys(found))
