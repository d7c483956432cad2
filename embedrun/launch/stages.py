"""The stages of an experiment: command lines one after another, each from what those before it have made."""

import shlex
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from embedrun.config import presets
from embedrun.config.compose import composed
from embedrun.config.request import Composed, Request, task_overrides
from embedrun.console import fitted, room, say
from embedrun.errors import ConfigError, DataError
from embedrun.launch.job import Job, before, run_in_child
from embedrun.runs.directory import Outcome
from embedrun.runs.search import MARK, settled_for
from embedrun.store import Store, hub
from embedrun.table.cells import referred

_COMMANDS = ("train", "annotate")  # that a stage can be


@dataclass(frozen=True)
class Stage:
    """One command line of an experiment, `label`, and what came of composing it."""

    label: str
    command: str
    job: Composed


def stages_of(request: Request) -> list[Stage]:
    """The stages of the experiment of a request, composed; none where it is no list of stages.

    What the user typed beside the experiment holds for each training, behind what the stage says itself.

    Raises:
        ConfigError: for a stage that is no `train` or `annotate`, or options that are for one run.
    """
    folders = [presets.folder(), *([request.config_dir] if request.config_dir else [])]
    lines: list[str] = []
    for name in presets.chosen(request.overrides, "experiment"):
        lines += presets.stages(name, folders)
    if not lines:
        return []
    own = [one for one in task_overrides(request.overrides) if not one.lstrip("+").startswith("experiment=")]
    if request.multirun or request.show or len(own) < len(request.overrides) - 1:
        raise ConfigError("stages: run one after another; leave -m, --cfg and hydra options out")
    found = []
    for line in lines:
        command, *overrides = shlex.split(line)
        if command not in _COMMANDS:
            raise ConfigError(f"stages: {line!r} begins with none of {', '.join(_COMMANDS)}")
        overrides += own if command == "train" else []
        of_stage = Request.typed(command, overrides, request.config_dir)
        found.append(Stage(shlex.join([command, *overrides]), command, composed(of_stage)))
    return found


def check(stages: Sequence[Stage]) -> None:
    """Hold every stage against its rules; a `ConfigError` with the faults of all."""
    from embedrun.curation.annotate import plan_annotate
    from embedrun.experiment.plan import plan_train

    problems = []
    for stage in stages:
        try:
            if stage.command == "train":
                plan_train(stage.job.config, here=False)
            else:
                plan_annotate(stage.job.config, None)
        except ConfigError as fault:
            problems += [f"{stage.label}: {problem}" for problem in fault.problems]
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))


def absent(stages: Sequence[Stage]) -> list[str]:
    """Rows and models of all trainings that are not here, and that no stage before them makes."""
    from embedrun.backbone import files
    from embedrun.dataset.named import unreadable
    from embedrun.experiment import data, scoring
    from embedrun.experiment.plan import plan_train

    problems: list[str] = []
    made: list[str] = []  # what runs are called, and folders of rows
    splits, store = [], None
    for stage in stages:
        if stage.command == "annotate":
            made.append(str(stage.job.config["output"]))
            continue
        plan = plan_train(stage.job.config, here=False)
        store = store or Store.find(plan.config.data_dir)
        splits += data.read_splits(plan)
        problems += scoring.lacking(plan.tasks)
        if (backbone := plan.config.backbone).name not in made:
            try:
                files.require(backbone.name, backbone.revision)
            except DataError as fault:
                problems += fault.problems
        made.append(f"{MARK}{plan.config.name}")
    rows = [] if store is None else unreadable(splits, store)
    problems += [problem for problem in rows if not any(name in problem for name in made)]
    return list(dict.fromkeys(problems))


def run(stages: Sequence[Stage]) -> int:
    """Run what has not finished before, and print a line for each stage; returns the exit code.

    A stage that fails ends it. A training that starts from ``run:NAME`` gets the run that an earlier stage of
    this name has made, whatever else has finished since.
    """
    check(stages)
    if problems := absent(stages):
        raise DataError(problems)
    made: dict[str, str] = {}
    rows, code = [["stage", "state", "score", "result"]], 0
    for number, stage in enumerate(stages, 1):
        if code:
            rows.append([stage.label, "not started", "-", "-"])
            continue
        say(f"stage {number} of {len(stages)}: {stage.label}")
        outcome, state = _run(stage, made)
        code = max(outcome.code, 1) if outcome.error else 0
        value = (outcome.main or {}).get("value")
        score = f"{value:.2f}" if isinstance(value, int | float) else "-"
        rows.append([stage.label, "failed" if code else state, score, outcome.directory or "-"])
        if outcome.directory and stage.command == "train":
            made[f"{MARK}{stage.job.config.get('name')}"] = str(Path(outcome.directory).resolve())
    print(f"\n{fitted(rows, room())}", flush=True)
    if code:
        say(f"{shlex.join(['embedrun', *sys.argv[1:]])} runs what is left")
    return code


def _run(stage: Stage, made: dict[str, str]) -> tuple[Outcome, str]:
    """How a stage ended, and what that is called."""
    from embedrun.experiment.data import Fingerprints  # numpy comes with it

    config = referred(stage.job.config, made.get)
    job = Job(stage.command, config, list(stage.job.overrides), label=stage.label, choices=stage.job.choices)
    if stage.command == "train":
        settled = settled_for(config, None, hub.pinned)
        earlier = before("train", settled, None, Fingerprints())
        if (outcome := earlier.outcome) is not None:
            if outcome.error:
                say(outcome.error)
            return outcome, "finished before"
        if earlier.unfinished is not None:
            say(f"it resumes: {earlier.unfinished}")
            job = replace(job, config=settled, resumed=str(earlier.unfinished))
    else:
        job = replace(job, choices=None)
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch, "outcome.json")
        outcome = run_in_child(job, file)
        if outcome.error and not file.is_file():  # it was killed, and has said nothing itself
            say(str(outcome.error))
    return outcome, "finished"
