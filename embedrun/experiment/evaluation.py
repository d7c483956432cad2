"""One evaluation, and the plots of what was scored."""

import os
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from embedrun import gpu, plot
from embedrun.config import EvaluateConfig
from embedrun.console import say
from embedrun.encoder import Encoder
from embedrun.errors import ConfigError
from embedrun.evaluation.geometry import flatten, spread
from embedrun.evaluation.scores import CUT, Scores, Task
from embedrun.experiment import data, leaderboard, near, notices, scoring
from embedrun.experiment.contamination import Contamination, tell
from embedrun.experiment.outcome import open_run_directory
from embedrun.experiment.plan import plan_evaluate
from embedrun.experiment.scoring import Kept, finite_intervals
from embedrun.experiment.whitening import fitted_on, whiten
from embedrun.family import code_of
from embedrun.files import Plain
from embedrun.gpu import Compute
from embedrun.prompts import by_role, in_use
from embedrun.runs import search
from embedrun.runs.directory import Outcome, Run, config_hash, describe
from embedrun.runs.reading import LENGTH
from embedrun.store import Store, hub
from embedrun.training import workers
from embedrun.training.processes import Processes
from embedrun.training.together import Together


def run(
    plain: Plain,
    overrides: list[str],
    directory: str | None,
    *,
    resumed: Path | None = None,
    choices: Plain | None = None,
) -> Outcome:
    """Score the model of a composed configuration, in a new run directory or that of a `resumed` evaluation.

    `overrides` are what the user changed; `directory` is the run directory that the user named; `choices` are
    the presets behind the configuration, by group, which a new run records.
    """
    plain = search.settled(plain, pin=hub.pinned)
    plan = plan_evaluate(plain)
    config = plan.config
    if resumed is not None:
        search.same_config(resumed, plain)
    store = Store.find(config.data_dir)
    splits = scoring.splits_of(plan.tasks, plan.dataset)
    splits += plan.seen
    model = notices.model_of(config)
    data.check_places(splits, plan.tasks, model, None, store)
    scorer = scoring.Scorer.read(plan.tasks, plan.dataset, store, config.evaluation)
    seen = data.seen_rows(plan, store)
    fitted = fitted_on(config.whiten, store)
    shared = Contamination.find(seen, scorer.rows) if seen else None
    if shared is not None:
        scorer = scorer.without(near.clean(shared, config.evaluation.near))
    skipped = data.skipped_in([*seen, *scorer.every_rows()])
    read = scoring.fingerprints_of([*seen, *fitted]) | scorer.fingerprints() | code_of(plain)
    read |= data.of_models(model, None) | hub.commit_of(config.dataset)
    if resumed is not None:
        search.same_data(resumed, read)
    if workers.wanted(config.gpu):
        return workers.launch(
            config.gpu,
            plain,
            run=f"{__name__}:run",
            resumed=resumed,
            overrides=overrides,
            directory=directory,
            choices=choices,
        )
    workers.join(config.gpu, f"{config_hash(plain)} {resumed}")
    compute, processes = gpu.start(config.gpu, place=int(os.environ.get("LOCAL_RANK", "0"))), Processes()
    if processes.rank > 0:
        Together(_encoder(config, compute), processes).serve()
        processes.part()
        return Outcome()

    def open_run() -> Run:
        return Run.create(config.name, plain, directory=directory) if resumed is None else Run.claim(resumed)

    with open_run_directory(open_run) as directory_of_run:
        started, folder = time.monotonic(), directory_of_run.path
        if resumed is None:
            directory_of_run.start(plain, overrides, describe(read), choices)
        else:
            directory_of_run.go_on()
        workers.made(folder)
        encoder = _encoder(config, compute)
        whiten(encoder, fitted, config.whiten, folder / "model")
        loaded = time.monotonic()
        say(
            f"pooling {encoder.pooling.name}, texts of at most {encoder.max_length} tokens, "
            f"{compute.device.type} {config.evaluation.precision}"
        )
        notices.tell(config, overrides, encoder.backbone.declared)
        if shared is not None:
            tell(folder, shared)
        data.write_skipped(skipped, folder)
        if warning := data.skip_warning(skipped):
            say(f"warning: {warning}")
        with Together(encoder, processes).asking():
            scored = scorer.score(encoder, "score", kept=Kept(folder))
        processes.part()
        main = scoring.main_score(scored, {})
        draw(scored, plan.tasks, encoder, folder / "plots", plan.config.plots.format)
        leaderboard.write(folder, plan.tasks, scored, encoder)
        near.tell(shared, scored, folder, config.evaluation, config.plots.format)
        directory_of_run.results(
            {
                "main": main,
                "scores": scoring.flat(scored),
                "intervals": finite_intervals(scored),
                "baseline": {},
                "notes": {
                    "precision": config.evaluation.precision,
                    LENGTH: encoder.max_length,
                    **scoring.notes(scored),
                },
                "counts": scorer.counts() | ({"skipped_rows": len(skipped)} if skipped else {}),
                "seconds": {
                    "load": round(loaded - started, 3),
                    "evaluate": round(time.monotonic() - loaded, 3),
                },
            }
        )
        scoring.report(scored, {}, folder)
        return Outcome(str(folder), main)


def _encoder(config: EvaluateConfig, compute: Compute) -> Encoder:
    """The encoder that is scored, on its device, with its prompts."""
    on_cpu = compute.device.type == "cpu"
    encoder = Encoder.build(notices.model_of(config), config.pooling, seed=config.seed, encodes_only=on_cpu)
    encoder.score_at(config.evaluation.max_length)
    encoder.use(
        in_use(encoder.prompt, config.evaluation.prompt, config.evaluation.text_edit),
        by_role(asdict(config.prompts), {} if config.evaluation.prompt is not None else encoder.roles),
    )
    return encoder.to(compute.device)


_SPREAD = 1e-5  # samples that differ by less, relative to their numbers, differ by rounding alone
_PASS_TOKENS = 4096  # of one forward pass, about
_SEED = 0  # of the dropout: the same map for the same model, whatever the run's seed


def draw(
    scored: Mapping[str, Scores], tasks: Mapping[str, Task], encoder: Encoder, folder: Path, format: str
) -> None:
    """The plots of every prediction file that has gold scores and cosines, and of dropout samples.

    `<file>_density.png`, in the groups that the task notes, and `<file>_scores.png`; `<file>_saturation.png`
    of a task whose notes say where the saturation zone begins. A pair without a finite cosine is left out; a
    file without any other has no plot.
    """
    for task in scored.values():
        _draw_cuts(task, encoder.dim, folder, format)
        for name, columns in task.predictions.items():
            if {"gold", "score"} <= columns.keys():
                _draw_pairs(name, columns, task.notes, folder, format)
    for task in tasks.values():
        if draws := getattr(task, "dropout_samples", 0):
            _draw_dropout_map(getattr(task, "related", []), draws, encoder, folder, format)


def _draw_cuts(task: Scores, dim: int, folder: Path, format: str) -> None:
    """`<key>_cuts.png`: the score of a task by how its vectors are cut or stored, with its intervals."""
    bars = {
        key.removeprefix(task.main).removeprefix(CUT) or str(dim): (task.scores[key], ends)
        for key, ends in task.intervals.items()
        if key == task.main or key.startswith(f"{task.main}{CUT}")
    }
    if len(bars) > 1:
        stem = folder / f"{task.main.replace('/', '_')}_cuts"
        for path in plot.paths(stem, format):
            plot.forest(bars, f"{task.main} by numbers a vector", path, beside=task.scores[task.main])


def _draw_pairs(name: str, columns: Plain, notes: Plain, folder: Path, format: str) -> None:
    gold, cosine = (np.array(columns[key], dtype=np.float64) for key in ("gold", "score"))
    finite = np.isfinite(gold) & np.isfinite(cosine)  # (pairs,)
    if not finite.any():
        return
    gold, cosine = gold[finite], cosine[finite]  # (finite pairs,) each
    for path in plot.paths(folder / f"{name}_density", format):
        by = notes.get("rating_groups", "floor")
        plot.density(gold, cosine, f"{name}: cosine by gold score", path, by)
    for path in plot.paths(folder / f"{name}_scores", format):
        plot.distribution(gold, cosine, f"{name}: cosine and gold score", path)
    if (begins := notes.get("saturated_from")) is not None:
        for path in plot.paths(folder / f"{name}_saturation", format):
            plot.saturation(cosine, begins, f"{name}: saturation of the cosine", path)


def _draw_dropout_map(texts: list[str], draws: int, encoder: Encoder, folder: Path, format: str) -> None:
    """`dropout_map.png`, and in `format`: related sentences under many dropout masks (ArcCSE Figure 1)."""
    try:
        samples = dropout_samples(encoder, texts, draws, _SEED)  # (sentences, draws, dim)
    except ConfigError:
        say("no map of dropout samples: the dropout of this model cannot be seeded text by text")
        return
    if not np.isfinite(samples).all() or spread(samples) < _SPREAD:
        say("no map of dropout samples: all samples of a sentence are equal, or not finite")
        return
    title = f"{draws} dropout samples of each sentence"
    for path in plot.paths(folder / "dropout_map", format):
        plot.dropout_map(flatten(samples), texts, title, path)


def dropout_samples(encoder: Encoder, texts: list[str], draws: int, seed: int) -> np.ndarray:
    """Vectors of texts under `draws` dropout masks each, float32, ``(texts, draws, dim)``.

    Each mask is a function of the seed, the text's place and the draw's number alone
    (:class:`~embedrun.backbone.dropout.SeededDropout`); a ConfigError where the dropout cannot be seeded.
    """
    table = encoder.tokenize(texts)
    many = len(texts)
    seeds = np.random.default_rng(seed).integers(2**63, size=(draws, many))  # (draws, texts)
    at_once = max(1, _PASS_TOKENS // max(1, int(table.lengths.sum())))  # draws of one pass
    parts = []
    training, device = encoder.training, encoder.backbone.device
    encoder.train()
    try:
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            for start in range(0, draws, at_once):
                part_seeds = seeds[start : start + at_once]  # (part of draws, texts)
                tokens = table.take(np.tile(np.arange(many), len(part_seeds)))
                vectors = encoder(tokens, dropout=True, seeds=torch.from_numpy(part_seeds.ravel()))
                parts.append(vectors.float().cpu().numpy().reshape(len(part_seeds), many, -1))
    finally:
        encoder.train(training)
    return np.concatenate(parts).transpose(1, 0, 2)
