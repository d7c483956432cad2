"""All jobs of a sweep, composed and validated, and the first of them priced."""

from collections.abc import Callable

from embedrun.config.compose import Composed, Request, composed, sweep
from embedrun.console import aligned
from embedrun.errors import ConfigError
from embedrun.runs.directory import Outcome


def check_sweep(request: Request, report: Callable[[Composed], Outcome]) -> int:
    """Check every job of a multirun; none is started.

    Args:
        request: the command line.
        report: prints what one job would do.

    Returns:
        The exit code: 0.

    Raises:
        ConfigError: with the faults of every job, each with its number.
        DataError: if a model is here and faulty.
    """
    from embedrun.experiment.notices import notices
    from embedrun.experiment.plan import plan_train
    from embedrun.runs.search import settled

    jobs, faults = [], []
    first: dict[str, int] = {}  # the first job that each line is of
    for number, overrides in enumerate(sweep(request)):
        try:
            job = composed(request, overrides, job=number)
            for line in notices(plan_train(settled(job.config)).config, job.overrides):
                first.setdefault(line, number)
            jobs.append(job)
        except ConfigError as fault:
            faults += [f"job {number}: {problem}" for problem in fault.problems]
    if faults:
        raise ConfigError(list(dict.fromkeys(faults)))
    report(jobs[0])
    cells = [["job", "overrides"]]
    cells += [[str(number), " ".join(job.overrides)] for number, job in enumerate(jobs)]
    others = [f"job {number}: {line}" for line, number in first.items() if number]
    end = f"{len(jobs)} jobs, all valid; above is what job 0 would do"
    print("\n".join(["", aligned(cells, right=[0]), "", *others, end]))
    return 0
