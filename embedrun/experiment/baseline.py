"""Scores of a model before training: computed once, then taken from the cache by all that decides them."""

import hashlib
import json
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from torch import nn

import embedrun
from embedrun.backbone.tokens import reading
from embedrun.console import say_and_log
from embedrun.encoder import Encoder
from embedrun.evaluation.scores import Scores
from embedrun.experiment.scoring import Kept, Scorer, from_plain, to_plain
from embedrun.files import Plain, to_json
from embedrun.store import cache as store_cache
from embedrun.training.checkpoint import versions

_SCORES = "scores.json"
_LABEL = "score before training"


def scored(
    scorer: Scorer, encoder: Encoder, options: Plain, *, kept: Kept, model: str, predictions: bool = False
) -> dict[str, Scores]:
    """What `Scorer.score` gives, without intervals, from the cache where it is there.

    It is there if an earlier run has scored a model of the same weights in the same way: :func:`key` says
    what that is. Then that is reported. A task that brings rows of its own is scored anew. Warns where the
    cosines are as good as constant.

    Args:
        options: of the tasks, and marks of the code of those from elsewhere, plain data.
        model: its name, for messages.
        predictions: whether they are wanted.
    """

    def score() -> Plain:
        scores = scorer.score(encoder, _LABEL, kept=kept)
        return {
            name: {
                "main": task.main,
                "scores": to_plain(task.scores),
                "constant": constant(task),
                "predictions": _finite(task) if predictions else {},
            }
            for name, task in scores.items()
        }

    def make(folder: Path) -> None:
        (folder / _SCORES).write_text(to_json(score()))
        made.append(folder)

    identity, made = key(scorer, encoder, {**options, "predictions": predictions}), []
    if identity is None:
        plain = score()
    else:
        what = f"the scores of {model} before training ({', '.join(scorer.tasks)})"
        folder = store_cache.kept("baseline", identity, make, what=what)
        if not made:
            say_and_log(f"{what} are those of an earlier run: model, rows and evaluation are the same")
        plain = json.loads((folder / _SCORES).read_text())
    if sets := [line for task in plain.values() for line in task["constant"]]:
        say_and_log(
            f"warning: the untrained cosines are as good as constant ({'; '.join(sets)}), so their order is "
            "mostly rounding, and a gain over their scores is no merit of the loss; choose another pooling, "
            "or a model that is not cut"
        )
    return {
        name: Scores(from_plain(task["scores"]), task["main"], task["predictions"])
        for name, task in plain.items()
    }


def _finite(task: Scores) -> Plain:
    """The prediction files without a number that JSON lacks; what is not finite is no score either."""
    return {
        name: columns
        for name, columns in task.predictions.items()
        if all(
            np.isfinite(values).all() for key, values in columns.items() if key in ("gold", "score", "value")
        )
    }


# Rounding to float32 moves a cosine near 1 by about eps, 1.2e-7; here that is a hundredth of the spread.
_LEAST_SPREAD = 100 * 2**-23


def constant(task: Scores) -> list[str]:
    """The prediction files whose cosines have a standard deviation below 100 eps of float32, 1.2e-5."""
    cosines = {name: np.array(columns.get("score", ())) for name, columns in task.predictions.items()}
    return [
        f"{name}, standard deviation {values.std():.1e}"
        for name, values in cosines.items()
        if len(values) > 1 and values.std() < _LEAST_SPREAD
    ]


def key(scorer: Scorer, encoder: Encoder, options: Plain) -> Plain | None:
    """Everything that decides the scores of an encoder, each by a word or a hash.

    The weights are those in memory, so that a head or a model from scratch counts with the seed that made
    it. Of the code, every file of this package counts, and with `options` that of a task from elsewhere; of
    the machine, what rounds in other ways. None where that cannot be told: of a task that brings rows of its
    own, or a tokenizer without a file.
    """
    if encoder.backbone.one_pass or (known := identity(encoder)) is None:
        return None
    if not scorer.tasks or not all(task.sources() for task in scorer.tasks.values()):
        return None
    return {
        **known,
        "roles": {role: prompt and prompt.template for role, prompt in encoder.roles.items()},
        "precision": scorer.precision,
        "batch_tokens": scorer.batch_tokens,
        "dims": [*scorer.dims, *scorer.vectors],
        "rows": {
            name: {source: [rows.fingerprint(), dict(rows.roles)] for source, rows in sources.items()}
            for name, sources in scorer.rows.items()
        },
        "clean": {
            name: {source: hashlib.sha256(mask.tobytes()).hexdigest() for source, mask in sources.items()}
            for name, sources in scorer.clean.items()
        },
        "tasks": {name: type(task).__qualname__ for name, task in scorer.tasks.items()},
        "options": _digest(options),
    }


def identity(encoder: Encoder) -> Plain | None:
    """What decides the vectors of an encoder, each by a word or a hash; None where that cannot be told."""
    tokens = reading(encoder.backbone, encoder.max_length, encoder.prompt)
    if tokens is None:
        return None
    model = encoder.backbone.model
    architecture = model.config.to_dict() | {"attention": encoder.backbone.attention}
    architecture.pop("_name_or_path", None)  # the place that it was read from
    adapters = {name: adapter.to_dict() for name, adapter in getattr(model, "peft_config", {}).items()}
    return {
        "weights": _weights(encoder),
        "architecture": _digest([type(model).__qualname__, architecture, adapters]),
        "tokens": tokens,
        "pooling": asdict(encoder.pooling),
        "head": encoder.keep_head,
        "normalize": encoder.normalize,
        "machine": encoder.backbone.device.type,
        "code": [versions(), version("scipy"), _package()],
    }


def _digest(plain: object) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True, default=str).encode()).hexdigest()


def _weights(encoder: nn.Module) -> str:
    from xxhash import xxh3_128

    digest = xxh3_128()
    for name, weight in encoder.state_dict().items():
        digest.update(f"{name} {weight.dtype} {tuple(weight.shape)} ".encode())
        digest.update(weight.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())  # (bytes,)
    return digest.hexdigest()


@cache
def _package() -> str:
    folder = Path(embedrun.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"{path.relative_to(folder)} ".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
