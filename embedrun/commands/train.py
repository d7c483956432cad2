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
    from embedrun.commands import scoring
    from embedrun.errors import DataError
    from embedrun.run import Run
    from embedrun.store import Store

    config = plan.config
    store = Store.find(config.data_dir)
    problems = plan.dataset.problems("train", store) + plan.dev.problems("dev", store)
    problems += scoring.problems(plan.tasks, plan.dataset, store)
    if config.backbone.name is not None:
        try:
            backbone.locate(config.backbone.name, config.backbone.revision)
        except DataError as fault:
            problems = fault.problems + problems
    if problems:
        raise DataError(list(dict.fromkeys(problems)))
    compute = gpu.start(config.gpu)
    with recorded(lambda: Run.create(config.name, plain, directory=directory)) as run_directory:
        from embedrun.commands.session import Session

        return Session(plan, store, compute, run_directory).train(plain, overrides)
