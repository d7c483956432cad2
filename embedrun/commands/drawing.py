"""Plots of an evaluation: from what the tasks found, and from an encoder, to files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from embedrun.console import say
from embedrun.encoder import Encoder
from embedrun.errors import ConfigError
from embedrun.evaluation.source import Scores

_SPREAD = 1e-5  # samples that differ by less, relative to their numbers, differ by rounding alone
_PASS_TOKENS = 4096  # of one forward pass, about
_SEED = 0  # of the dropout: the same map for the same model, whatever the run's seed


def draw(scored: Mapping[str, Scores], folder: Path) -> None:
    """The plots of every prediction file that has gold scores and cosines.

    `<file>_density.png` and `<file>_scores.png`; `<file>_saturation.png` of a task whose notes say where the
    saturation zone begins. A pair without a finite cosine is left out; a file without any other has no plot.

    Args:
        scored: by task.
        folder: of the plots.
    """
    from embedrun import plot

    for task in scored.values():
        for name, columns in task.predictions.items():
            if not {"gold", "score"} <= columns.keys():
                continue
            gold, cosine = (np.array(columns[key], dtype=np.float64) for key in ("gold", "score"))
            finite = np.isfinite(gold) & np.isfinite(cosine)  # (pairs,)
            if not finite.any():
                continue
            gold, cosine = gold[finite], cosine[finite]  # (finite pairs,) each
            plot.density(gold, cosine, f"{name}: cosine by gold score", folder / f"{name}_density.png")
            plot.distribution(gold, cosine, f"{name}: cosine and gold score", folder / f"{name}_scores.png")
            if (begins := task.notes.get("saturated_from")) is not None:
                title = f"{name}: saturation of the cosine"
                plot.saturation(cosine, begins, title, folder / f"{name}_saturation.png")


def draw_dropout_map(task: Any, encoder: Encoder, folder: Path) -> None:
    """`dropout_map.png`: related sentences under many dropout masks (ArcCSE Figure 1).

    Nothing is drawn for a task that asks for no samples; nor, and then it says so, for an encoder without
    dropout or with one that cannot be seeded.

    Args:
        task: an evaluation task; `related` sentences and number of `dropout_samples` of `geometry`.
        encoder: its mode and torch's random state are left as they are.
        folder: of the plots.
    """
    draws = getattr(task, "dropout_samples", 0)
    if not draws:
        return
    from embedrun import plot
    from embedrun.evaluation.dropout_map import flatten, spread

    try:
        samples = dropout_samples(encoder, task.related, draws, _SEED)  # (sentences, draws, dim)
    except ConfigError:
        say("no map of dropout samples: the dropout of this model cannot be seeded text by text")
        return
    if not np.isfinite(samples).all():
        say("no map of dropout samples: the model gives numbers that are not finite")
    elif spread(samples) < _SPREAD:
        say(
            "no map of dropout samples: the model has no dropout, so that all samples of a sentence are equal"
        )
    else:
        title = f"{draws} dropout samples of each sentence"
        plot.dropout_map(flatten(samples), task.related, title, folder / "dropout_map.png")


def dropout_samples(encoder: Encoder, texts: list[str], draws: int, seed: int) -> np.ndarray:
    """Vectors of texts under different dropout masks, float32, ``(texts, draws, dim)``.

    Each mask is a function of the seed, the text's place and the draw's number alone
    (:class:`~embedrun.backbone.dropout.SeededDropout`).

    Args:
        encoder: its mode and torch's random state are left as they are.
        texts: any number.
        draws: masks of each text.
        seed: of the masks.

    Raises:
        ConfigError: if the model's dropout is none that can be seeded.
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
                own = seeds[start : start + at_once]  # (part of draws, texts)
                tokens = table.take(np.tile(np.arange(many), len(own)))
                vectors = encoder(tokens, dropout=True, seeds=torch.from_numpy(own.ravel()))
                parts.append(vectors.float().cpu().numpy().reshape(len(own), many, -1))
    finally:
        encoder.train(training)
    return np.concatenate(parts).transpose(1, 0, 2)
