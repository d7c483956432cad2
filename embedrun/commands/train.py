"""Train, score and record one model; with -m, one for each combination."""

from collections.abc import Mapping, Sequence
from typing import Any

from embedrun.commands.arguments import parse
from embedrun.commands.outcome import Outcome, recorded
from embedrun.commands.start import start

_EXAMPLES = (
    "embedrun train +experiment=quickstart",
    "embedrun train +experiment=angle_stsb backbone.name=DIR training.lr=2e-5",
    "embedrun train -m +experiment=quickstart seed=1,2,3",
)


def main(argv: Sequence[str]) -> int:
    """Run `embedrun train`."""
    request = parse("train", __doc__ or "", argv, _EXAMPLES)
    return 0 if request is None else start(request)


def run(plain: Mapping[str, Any], overrides: list[str], directory: str | None) -> Outcome:
    """Train from a composed configuration.

    Args:
        plain: resolved plain data.
        overrides: what the user changed.
        directory: the run directory, where the user named one.

    Raises:
        ConfigError: with every fault of the configuration.
        DataError: with everything that is missing, before a run directory is made.
        RunFailed: if training fails.
    """
    from embedrun.commands.plan import plan_train

    plan = plan_train(plain)
    from embedrun import backbone, gpu
    from embedrun.backbone import machine
    from embedrun.commands import scoring
    from embedrun.errors import ConfigError, DataError
    from embedrun.run import Run
    from embedrun.store import Store

    config = plan.config
    if lacking := machine.problems(config.backbone):
        raise ConfigError(lacking)
    store = Store.find(config.data_dir)
    splits = [(plan.dataset, "train"), (plan.dev, "dev"), *scoring.splits_of(plan.tasks, plan.dataset)]
    splits += [] if plan.seen is None else [(plan.seen, "train")]
    problems = scoring.unreadable(splits, store) + scoring.lacking(plan.tasks)
    if config.backbone.name is not None:
        try:
            backbone.locate(config.backbone.name, config.backbone.revision)
        except DataError as fault:
            problems = fault.problems + problems
    for place, teacher in enumerate(config.training.teachers or ()):
        try:
            backbone.locate(teacher.name, teacher.revision)
        except DataError as fault:
            problems += [
                f"training.teachers[{place}]: {problem.split('. ')[0]}" for problem in fault.problems
            ]
    if problems:
        raise DataError(problems)
    from embedrun.commands.session import Session

    # Rows are read before there is a run directory: a faulty one should leave nothing behind.
    session = Session(plan, store, gpu.start(config.gpu))
    with recorded(lambda: Run.create(config.name, plain, directory=directory)) as record:
        return session.train(record, plain, overrides)
