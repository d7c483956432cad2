"""Several runs from one command line: all checked first, then launched by Hydra, one process each."""

import contextlib
import io
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from embedrun.commands.arguments import Request
from embedrun.commands.compose import Composed, composed, loosened, sweep
from embedrun.commands.job import run_in_child
from embedrun.commands.outcome import Outcome
from embedrun.commands.start import hydra_main
from embedrun.console import aligned, say
from embedrun.errors import USAGE, ConfigError, RunFailed
from embedrun.training import interrupt


def launch(request: Request) -> int:
    """Run every job; one that fails leaves the others running. Returns 1 if any failed.

    Raises:
        ConfigError: if no job has a configuration that can run, or two would share a run directory.
        KeyboardInterrupt: on a signal, once the running job has saved and ended; no other is started.
    """
    if any(override.lstrip("+").startswith("hydra.run.dir=") for override in request.overrides):
        raise ConfigError("hydra.run.dir: names the directory of one run; with -m, give hydra.sweep.dir")
    jobs = [composed(request, overrides, job=number) for number, overrides in enumerate(sweep(request))]
    _check_directories(jobs)
    refused = _refused(request, jobs)
    for number, fault in refused.items():
        say(f"job {number} ({_label(jobs[number])}) will not run: {fault}")
    if len(refused) == len(jobs):
        raise ConfigError(
            [problem for fault in refused.values() for problem in dict.fromkeys(fault.problems)]
        )
    with tempfile.TemporaryDirectory(prefix="embedrun-") as scratch:
        outcomes = _launch(request, jobs, refused, Path(scratch))
    print(_summary(jobs, outcomes))
    return 1 if any(outcome.error for outcome in outcomes) else 0


def _check_directories(jobs: Sequence[Composed]) -> None:
    places = [str(Path(job.directory).resolve()) for job in jobs if job.directory is not None]
    shared = {place for place in places if places.count(place) > 1}
    parents = [job.parent for job in jobs if job.parent is not None]
    taken = [place for place in dict.fromkeys([*parents, *places]) if Path(place).exists()]
    if all(_goes_on(job) for job in jobs):
        taken = []
    problems = [
        f"hydra.sweep.subdir: several jobs would share {place}; use ${{hydra:job.num}} in it"
        for place in shared
    ]
    problems += [f"hydra.sweep.dir: {place} exists; name one that does not" for place in taken]
    if problems:
        raise ConfigError(problems)


def _goes_on(job: Composed) -> bool:
    """Whether the job takes up a run that it finds in its directory."""
    training = job.config.get("training")
    return isinstance(training, dict) and training.get("resume") == "auto"


def _refused(request: Request, jobs: Sequence[Composed]) -> dict[int, ConfigError]:
    """The jobs whose configuration is wrong, by number."""
    from embedrun.commands import generate_plan, plan

    check = {
        "train": plan.plan_train,
        "evaluate": plan.plan_evaluate,
        "annotate": plan.plan_annotate,
        "generate": generate_plan.plan_generate,
    }[request.root]
    refused = {}
    for number, job in enumerate(jobs):
        try:
            check(job.config)
        except ConfigError as fault:
            refused[number] = fault
    return refused


def _launch(
    request: Request, jobs: Sequence[Composed], refused: dict[int, ConfigError], scratch: Path
) -> list[Outcome]:
    person = sys.stderr

    def task(_: object) -> None:
        """Called by Hydra for each job; never exits, so that no job can end the sweep."""
        from hydra.core.hydra_config import HydraConfig

        number = int(HydraConfig.get().job.num)
        job, place = jobs[number], scratch / f"{number}.json"
        if number in refused:
            outcome = Outcome(error=str(refused[number]), code=USAGE)
        else:
            with contextlib.redirect_stderr(person):
                say(f"job {number} ({number + 1} of {len(jobs)}): {_label(job)}")
            outcome = run_in_child(request.command, job.config, list(job.overrides), job.directory, place)
        place.write_text(json.dumps(asdict(outcome)), encoding="utf-8")
        if outcome.error:
            raise RunFailed(outcome.error, exit_code=outcome.code)

    # Hydra makes these folders itself and leaves files there; the run directories are ours to make.
    # A key that only a refused job lacks must not stop Hydra from going through the others.
    arguments = ["--multirun", *loosened(request, request.overrides)]
    arguments += [
        f"hydra.sweep.dir={scratch}/hydra",
        f"hydra.run.dir={scratch}/hydra",
        "hydra.sweep.subdir=${hydra:job.num}",
    ]
    if request.config_dir is not None:
        arguments += ["--config-dir", str(request.config_dir)]
    words = io.StringIO()  # Hydra's own report of a failed job is a traceback; ours is the summary
    with contextlib.redirect_stderr(words), interrupt.raised():
        hydra_main(request, arguments, task)
    files = [scratch / f"{number}.json" for number in range(len(jobs))]
    if not any(file.is_file() for file in files):
        raise RunFailed(f"the launcher started no job:\n{words.getvalue().strip()}")
    return [
        Outcome(**json.loads(file.read_text(encoding="utf-8")))
        if file.is_file()
        else Outcome(error="not started", code=1)
        for file in files
    ]


def _label(job: Composed) -> str:
    return " ".join(job.overrides) or "no overrides"


def _summary(jobs: Sequence[Composed], outcomes: Sequence[Outcome]) -> str:
    rows = [["job", "overrides", "state", "score", "run directory or reason"]]
    for number, (job, outcome) in enumerate(zip(jobs, outcomes, strict=True)):
        value = (outcome.main or {}).get("value")
        score = "" if value is None else f"{(outcome.main or {})['name']} {value:.2f}"
        reason = " ".join((outcome.error or outcome.directory or "").split())
        rows.append([str(number), _label(job), "failed" if outcome.error else "finished", score, reason])
    failed = sum(1 for outcome in outcomes if outcome.error)
    return aligned(rows) + f"\n\n{len(jobs) - failed} finished, {failed} failed"
