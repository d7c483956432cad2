"""What the trials of a search read: all of it is there, and can be told from what is there another day."""

from embedrun.commands.tune_plan import TunePlan
from embedrun.errors import DataError
from embedrun.experiment.data import Fingerprints
from embedrun.experiment.plan import plan_train
from embedrun.experiment.training import check_places


def marks(plan: TunePlan) -> dict[str, list[str]]:
    """Fingerprints of what the trials at the ends of every range read, by name: one for each that differs.

    Raises:
        ConfigError: for what this machine lacks.
        DataError: with all data and models that are missing, or what is wrong with the first that is faulty.
    """
    from embedrun.runs import search

    configs = [search.settled(config) for config in plan.ends]
    problems: list[str] = []
    for config in configs:
        try:
            check_places(plan_train(config))
        except DataError as fault:
            problems += fault.problems
    if problems:
        raise DataError(list(dict.fromkeys(problems)))
    known, found = Fingerprints(strict=True), {}
    for config in configs:
        for name, mark in known.of("train", config).items():
            found.setdefault(name, set()).add(mark)
    return {name: sorted(every) for name, every in found.items()}
