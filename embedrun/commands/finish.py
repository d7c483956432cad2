"""What a finished training run leaves: model, predictions, plots, results."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedrun import card, plot
from embedrun.commands import drawing, score_table, scoring
from embedrun.commands.active import sources
from embedrun.commands.kept import finite_intervals, write_predictions
from embedrun.commands.plan import TrainPlan
from embedrun.encoder import Encoder
from embedrun.evaluation.source import Scores
from embedrun.files import fsync
from embedrun.runs.directory import Outcome, Run, to_yaml
from embedrun.runs.reading import SELECTED_BY


@dataclass(frozen=True)
class Found:
    """What a run has found.

    Args:
        test: scores of the evaluation tasks, by task.
        dev: scores of the tasks that select.
        baseline: scores of the untrained model, by key.
        metric: key of the score that selected.
        notes: what decided the result and is no option.
        counts: rows and steps.
        seconds: by part of the work.
    """

    test: Mapping[str, Scores]
    dev: Mapping[str, Scores]
    baseline: Mapping[str, float]
    metric: str
    notes: Mapping[str, Any]
    counts: Mapping[str, int]
    seconds: Mapping[str, float]


def finish(
    run: Run, plan: TrainPlan, plain: Mapping[str, Any], encoder: Encoder, dataset: str, found: Found
) -> Outcome:
    """Write everything; `results.json` comes last, so that where it is, all is there.

    Args:
        run: the run directory.
        plan: the checked configuration.
        plain: the composed one.
        encoder: with the weights that were selected.
        dataset: name of the training rows.
        found: the scores, and what goes with them.
    """
    config, folder = plan.config, run.path
    both = {**found.test, **found.dev}
    scores = scoring.flat(both)
    main = scoring.main_score(found.test, scoring.flat(found.dev))
    _publish(encoder, plan, plain, dataset, scores, folder)
    for one in both.values():
        write_predictions(one, folder / "predictions")
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    plot.curves(metrics, found.metric, folder / "plots" / "curves.png")
    drawing.draw(both, folder / "plots")
    for task in plan.tasks.values():
        drawing.draw_dropout_map(task, encoder, folder / "plots")
    kept = {key: found.baseline[key] for key in scores if key in found.baseline}
    run.results(
        {
            "main": main,
            "scores": scores,
            "intervals": finite_intervals(both),
            "baseline": kept,
            "notes": {
                "precision": config.evaluation.precision,
                SELECTED_BY: found.metric,
                **found.notes,
                **scoring.notes(both),
            },
            "counts": dict(found.counts),
            "seconds": dict(found.seconds),
        }
    )
    score_table.report(both, kept, folder)
    return Outcome(str(folder), main)


def _publish(
    encoder: Encoder,
    plan: TrainPlan,
    plain: Mapping[str, Any],
    dataset: str,
    scores: Mapping[str, float],
    folder: Path,
) -> None:
    """Write `model/` aside, and rename it once it is on the disk; an attempt's that was killed goes."""
    aside, model = folder / ".tmp-model", folder / "model"
    for path in (aside, model):
        shutil.rmtree(path, ignore_errors=True)
    encoder.save(aside)
    card.write_card(
        aside,
        title=plan.config.name,
        base_model=plan.config.backbone.name,
        dataset=dataset,
        scores=scores,
        config_yaml=to_yaml(dict(plain)),
        citations=sources(plan.losses),
    )
    for path in (*aside.rglob("*"), aside):
        fsync(path)
    aside.rename(model)
    fsync(folder)
