"""Train, score and record one model; with -m, one for each combination."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedrun import signals
from embedrun.commands.arguments import parse
from embedrun.commands.outcome import recorded
from embedrun.commands.start import start
from embedrun.runs.directory import Outcome

if TYPE_CHECKING:
    from embedrun.commands.plan import TrainPlan
    from embedrun.store import Store

_EXAMPLES = (
    "embedrun train +experiment=quickstart",
    "embedrun train +experiment=angle_stsb backbone.name=DIR pooling=auto",
    "embedrun train -m +experiment=quickstart seed=1,2,3",
)


def main(argv: Sequence[str]) -> int:
    """Run `embedrun train`."""
    request = parse("train", __doc__ or "", argv, _EXAMPLES)
    # A signal that asks for an end says so by its exit code before there is a run directory, too.
    with signals.raised():
        return 0 if request is None else start(request)


def run(
    plain: Mapping[str, Any],
    overrides: list[str],
    directory: str | None,
    *,
    resumed: Path | None = None,
    asked: str | None = None,
) -> Outcome:
    """Train from a composed configuration.

    Args:
        plain: resolved plain data.
        overrides: what the user changed.
        directory: the run directory, where the user named one.
        resumed: the directory of a run to go on with, instead of a new one.
        asked: hash of the configuration before it was settled, where another process has done that.

    Raises:
        ConfigError: with every fault of the configuration, or what has changed since the run began.
        DataError: with everything that is missing, before a run directory is made.
        RunFailed: if training fails.
        KeyboardInterrupt: on a signal, once the step is done and saved.
    """
    from embedrun.commands.plan import plan_train

    plan = plan_train(plain)
    from embedrun import gpu
    from embedrun.commands import workers
    from embedrun.commands.session import Session
    from embedrun.runs import search
    from embedrun.runs.directory import Run, check_links, config_hash
    from embedrun.training.processes import Processes

    # A worker is told by the process that has started it what there is to go on with.
    automatic = plan.config.training.resume == "auto" and resumed is None
    looks = automatic and workers.PLACE not in os.environ
    # A run that goes on is to find the model that it began with, whatever has finished since.
    settled = search.settled_as_begun(plain, directory) if looks else search.settled_for(plain, resumed)
    if settled != plain:
        asked, plain, plan = config_hash(plain), settled, plan_train(settled)
    config = plan.config
    if looks:
        done, resumed = _look(config.name, plain, directory)
        if done is not None:
            return done
    if resumed is not None:
        check_links(resumed)
        search.same_config(resumed, plain)
    if workers.wanted(config.gpu):
        check_places(plan)
        return workers.launch(config.gpu, plain, overrides, directory, resumed, asked)
    store = check_places(plan)
    processes = Processes()
    # Rows are read before there is a run directory: a faulty one should leave nothing behind.
    compute = gpu.start(config.gpu, place=int(os.environ.get("LOCAL_RANK", "0")))
    session = Session(plan, store, compute, processes)
    session.check_alike()
    if resumed is not None:
        session.check_data(resumed)
    if processes.rank > 0:
        session.follow(resumed)
        return Outcome()

    def open_run() -> Run:
        if resumed is not None:
            return Run.claim(resumed)
        run = Run.create(config.name, plain, directory=directory, again=automatic)
        run.known |= {} if asked is None else {search.ASKED: asked}  # goes into its first status
        return run

    with recorded(open_run) as record:
        workers.made(record.path)
        return session.train(record, plain, overrides, resumed=resumed is not None)


def _look(name: str, plain: Mapping[str, Any], directory: str | None) -> tuple[Outcome | None, Path | None]:
    """How the run that the user means has ended, or the one to go on with; neither where there is none."""
    from embedrun.commands import outcome
    from embedrun.runs import search

    done = outcome.finished(directory, plain)
    found = search.unfinished(name, plain, directory) if done is None else None
    return (done if found is None else outcome.ended(found, plain)), found


def check_places(plan: "TrainPlan") -> "Store":
    """The data store; everything that the run needs and is not there is refused together.

    Raises:
        ConfigError: for what this machine lacks.
        DataError: for data and models.
    """
    from embedrun import backbone
    from embedrun.backbone import machine
    from embedrun.commands import scoring
    from embedrun.errors import ConfigError, DataError
    from embedrun.store import Store

    config = plan.config
    if lacking := machine.problems(config.backbone):
        raise ConfigError(lacking)
    store = Store.find(config.data_dir)
    splits = [(plan.dataset, "train"), (plan.dev, "dev"), *scoring.splits_of(plan.tasks, plan.dataset)]
    splits += scoring.splits_of(plan.dev_tasks, plan.dev)
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
    return store
