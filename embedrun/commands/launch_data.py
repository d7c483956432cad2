"""The rows and models that a run would read now, as fingerprints; those of many runs are read once."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from embedrun.errors import ConfigError, DataError


class Fingerprints:
    """Reads each choice of data, and each of models, once.

    Args:
        strict: whether what is not there or faulty is a `DataError` here, too, and not left to the run.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict
        self._known: dict[str, dict[str, str]] = {}

    def changed(self, command: str, plain: Mapping[str, Any], begun: Mapping[str, Any]) -> list[str]:
        """The splits and models that are not those which a run has read; empty where nobody can say.

        Args:
            command: `train` or `evaluate`.
            plain: its configuration.
            begun: the fingerprints in its `environment.json`; what is not among them counts as unchanged.
        """
        found = self.of(command, plain)
        return [name for name, mark in found.items() if begun.get(name, mark) != mark]

    def of(self, command: str, plain: Mapping[str, Any]) -> dict[str, str]:
        """By name and split, and by model; without what is not there or faulty, which the run itself says."""
        training, backbone = _group(plain, "training"), _group(plain, "backbone")
        rows = [*map(plain.get, ("dataset", "evaluation", "data_dir")), training.get("dev_tasks")]
        names = [backbone.get("name"), backbone.get("revision"), plain.get("model"), plain.get("revision")]
        models = [*names, training.get("teachers")]
        return self._once(_rows, rows, command, plain) | self._once(_models, models, command, plain)

    def _once(
        self,
        read: Callable[[str, Mapping[str, Any]], dict[str, str]],
        parts: list[Any],
        command: str,
        plain: Mapping[str, Any],
    ) -> dict[str, str]:
        """What is read of a configuration, by the parts of it that decide that."""
        known = json.dumps([read.__name__, command, *parts], sort_keys=True)
        if known not in self._known:
            try:
                self._known[known] = read(command, plain)
            except (ConfigError, DataError, OSError):
                if self._strict:
                    raise
                self._known[known] = {}
        return self._known[known]


def _group(plain: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = plain.get(name)
    return found if isinstance(found, Mapping) else {}


def _models(command: str, plain: Mapping[str, Any]) -> dict[str, str]:
    from embedrun.commands.fingerprint import of_models
    from embedrun.commands.plan import plan_evaluate, plan_train
    from embedrun.config import BackboneConfig

    if command == "evaluate":
        scored = plan_evaluate(plain).config
        return of_models(BackboneConfig(name=scored.model, revision=scored.revision), None)
    trained = plan_train(plain).config
    return of_models(trained.backbone, trained.training.teachers)


def _rows(command: str, plain: Mapping[str, Any]) -> dict[str, str]:
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
