"""Where the steps of a run begin: at the first, or behind the newest checkpoint that is whole."""

import contextlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedrun.commands.build import Built
from embedrun.runs.directory import PARTS, Run
from embedrun.runs.search import note_resumed
from embedrun.tracking import cut
from embedrun.training import checkpoint
from embedrun.training.loop import Begun, restore
from embedrun.training.processes import Processes
from embedrun.training.selection import Selection

TRAINED_TEST, TRAINED_DEV = "trained-test", "trained-dev"  # what is kept of the scores at the end


@dataclass(frozen=True)
class Begin:
    """Where it is.

    Args:
        begun: how far the run has come.
        state: what the checkpoint says; empty where there is none.
        warnings: a line for whatever keeps the run from ending as it would have without a stop.
    """

    begun: Begun
    state: Mapping[str, Any]
    warnings: list[str]


def begin(built: Built, selection: Selection, folder: Path, path: Path | None, processes: Processes) -> Begin:
    """Make all parts what they were at a checkpoint; every process must call this.

    Args:
        built: what trains.
        selection: of the checkpoint.
        folder: of the checkpoints.
        path: the checkpoint, or None for the first step; only what the first process gives is looked at.
        processes: that train together.

    Raises:
        RunFailed: if the checkpoint is of another model (exit 7).
    """
    (step,) = processes.share([0.0 if path is None else float(path.name.rpartition("-")[2])])
    if not step:
        return Begin(Begun(), {}, [])
    begun, state = restore(built.stepper, selection, checkpoint.path_of(folder, int(step)))
    lost = []
    if processes.rank == 0 and selection.step is not None:
        lost = checkpoint.best_of(folder, selection.step)
    (is_lost,) = processes.share([float(bool(lost))])
    if is_lost:
        selection.best = selection.step = None
    versions = checkpoint.differences(state)
    then, now = (one.get("precision") for one in (state["stepper"], built.stepper.state()))
    if then not in (None, now):
        versions.append(f"precision {then} then, {now} now")
    if versions:
        lost.append(f"{'; '.join(versions)}: steps may round in another way from here on")
    return Begin(begun, state, lost)


def record(run: Run, found: Begin) -> None:
    """Take back what was logged after the checkpoint, and note where and with what the run goes on.

    Scores of an earlier attempt's last weights are forgotten, unless the weights are sure to be the same.

    Raises:
        RunFailed: if metrics from before the checkpoint are gone (exit 7).
    """
    cut(run.path, found.state.get("metrics_bytes", 0))
    if found.warnings or found.begun.step != run.known.get("checkpoint"):
        for stage in (TRAINED_TEST, TRAINED_DEV):
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(run.path / PARTS / stage)
    note_resumed(run.path, found.begun.step, found.warnings)
    if found.warnings:
        run.status(exact_resume=False)
