"""The rows that a run would read now, as fingerprints; those of many runs are read once."""

import json
from collections.abc import Mapping
from typing import Any

from embedrun.errors import ConfigError, DataError


class Fingerprints:
    """Reads each choice of data once."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, str]] = {}

    def changed(self, command: str, plain: Mapping[str, Any], begun: Mapping[str, Any]) -> list[str]:
        """The splits whose rows are not those that a run has read; empty where nobody can say.

        Args:
            command: `train` or `evaluate`.
            plain: its configuration.
            begun: the fingerprints in its `environment.json`.
        """
        found = self.of(command, plain)
        return [name for name, mark in found.items() if begun.get(name, mark) != mark]

    def of(self, command: str, plain: Mapping[str, Any]) -> dict[str, str]:
        """By name and split; empty where the data is not there or is faulty, which the run itself says."""
        training = plain.get("training")
        tasks = training.get("dev_tasks") if isinstance(training, Mapping) else None
        parts = [command, *(plain.get(key) for key in ("dataset", "evaluation", "data_dir")), tasks]
        known = json.dumps(parts, sort_keys=True)
        if known not in self._known:
            try:
                self._known[known] = _read(command, plain)
            except (ConfigError, DataError):
                self._known[known] = {}
        return self._known[known]


def _read(command: str, plain: Mapping[str, Any]) -> dict[str, str]:
    from embedrun.commands import dev, scoring
    from embedrun.commands.plan import plan_evaluate, plan_train
    from embedrun.store import Store

    if command == "evaluate":
        plan = plan_evaluate(plain)
        store = Store.find(plan.config.data_dir)
        seen = [] if plan.seen is None else [plan.seen.read("train", store)]
        test = scoring.Scorer.read(plan.tasks, plan.dataset, store, plan.config.evaluation)
        return scoring.fingerprints_of(seen) | test.fingerprints()
    plan = plan_train(plain)
    store, evaluation = Store.find(plan.config.data_dir), plan.config.evaluation
    seen = [] if plan.seen is None else [plan.seen.read("train", store)]
    own = dev.tasks(plan.dev_tasks)
    return (
        scoring.fingerprints_of([*seen, plan.dataset.read("train", store)])
        | scoring.Scorer.read(own, plan.dev, store, evaluation).fingerprints()
        | scoring.Scorer.read(plan.tasks, plan.dataset, store, evaluation).fingerprints()
    )
