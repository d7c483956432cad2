"""Scores before training, kept for every run that begins with the same one."""

import hashlib
import inspect
import json
import math
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

import embedrun
from embedrun.backbone.tokens import reading
from embedrun.console import say_and_log
from embedrun.encoder import Encoder
from embedrun.evaluation.scores import Scores, Task
from embedrun.experiment.scoring import Kept, Scorer
from embedrun.files import Plain, to_json
from embedrun.store import cache as store_cache
from embedrun.training.checkpoint.state import versions

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_SCORES = "scores.json"


def scored(
    scorer: Scorer, encoder: Encoder, options: Plain, label: str, *, kept: Kept, model: str
) -> dict[str, Scores]:
    """What `Scorer.score` gives, without predictions and intervals, from the cache where it is there.

    It is there if an earlier run has scored a model of the same weights in the same way: :func:`key` says
    what that is. Then that is reported. A task that brings rows of its own is scored anew. Warns where the
    cosines are as good as constant.

    Args:
        options: of the tasks, plain data.
        label: for the progress bar.
        kept: where the pieces of this scoring are stored, so that a killed run does not begin again.
        model: its name, for messages.
    """
    own = key(scorer, encoder, options)
    if own is None:
        found = scorer.score(encoder, label, kept=kept)
        _warn([line for one in found.values() for line in constant(one)])
        return found
    made = False

    def make(folder: Path) -> None:
        nonlocal made
        found = scorer.score(encoder, label, kept=kept)
        (folder / _SCORES).write_text(to_json({task: _plain(one) for task, one in found.items()}))
        made = True

    what = f"the scores of {model} before training ({', '.join(scorer.tasks)})"
    folder = store_cache.kept("baseline", own, make, what=what)
    if not made:
        line = f"{what} are those of an earlier run: model, rows and evaluation are the same"
        say_and_log(line)
    found = json.loads((folder / _SCORES).read_text())
    _warn([line for task in scorer.tasks for line in found[task]["constant"]])
    return {task: _scores(found[task]) for task in scorer.tasks}


def _plain(found: Scores) -> Plain:
    scores = {name: value if math.isfinite(value) else None for name, value in found.scores.items()}
    return {"main": found.main, "scores": list(scores.items()), "constant": constant(found)}


# Rounding to float32 moves a cosine near 1 by about eps, 1.2e-7; here that is a hundredth of the spread.
_LEAST_SPREAD = 100 * 2**-23


def constant(found: Scores) -> list[str]:
    """The predicted cosines whose standard deviation is below 100 eps of float32, 1.2e-5, each in words."""
    cosines = {name: np.array(columns.get("score", ())) for name, columns in found.predictions.items()}
    return [
        f"{name}, {len(np.unique(values)):,} distinct values in {len(values):,} pairs with a standard "
        f"deviation of {values.std():.1e}"
        for name, values in cosines.items()
        if len(values) > 1 and values.std() < _LEAST_SPREAD
    ]


def _warn(sets: list[str]) -> None:
    if sets:
        say_and_log(
            f"warning: the untrained cosines are as good as constant ({'; '.join(sets)}): below "
            f"{_LEAST_SPREAD:.1e}, 100 times what float32 rounds, their order is mostly rounding, and a gain "
            "over their scores is no merit of the loss; choose another pooling, or a model that is not cut"
        )


def _scores(found: Plain) -> Scores:
    values = {name: math.nan if value is None else value for name, value in found["scores"]}
    return Scores(scores=values, main=found["main"])


def key(scorer: Scorer, encoder: Encoder, options: Plain) -> Plain | None:
    """Everything that decides the scores of an encoder, each by a word or a hash.

    The weights are those in memory, so that a head or a model from scratch counts with the seed that made
    it. Of the code, every file of this package counts, and the file of a task from elsewhere; of the machine,
    what rounds in other ways.

    Returns:
        None where that cannot be told: of a task that brings rows of its own, or a tokenizer without a file.
    """
    tokens = reading(encoder.backbone, encoder.max_length, encoder.prompt)
    if tokens is None or not scorer.tasks or not all(task.sources() for task in scorer.tasks.values()):
        return None
    return {
        "weights": _weights(encoder),
        "architecture": _architecture(encoder.backbone.model),
        "tokens": tokens,
        "pooling": asdict(encoder.pooling),
        "head": encoder.keep_head,
        "normalize": encoder.normalize,
        "precision": scorer.precision,
        "batch_tokens": scorer.batch_tokens,
        "rows": {
            name: {source: rows.fingerprint() for source, rows in own.items()}
            for name, own in scorer.rows.items()
        },
        "clean": {
            name: {source: hashlib.sha256(mask.tobytes()).hexdigest() for source, mask in own.items()}
            for name, own in scorer.clean.items()
        },
        "tasks": {name: _source(type(task)) for name, task in scorer.tasks.items()},
        "options": hashlib.sha256(to_json(options).encode()).hexdigest(),
        "machine": encoder.backbone.device.type,
        "code": [versions(), version("scipy"), _package()],
    }


def _weights(encoder: nn.Module) -> str:
    from xxhash import xxh3_128

    digest = xxh3_128()
    for name, weight in encoder.state_dict().items():
        digest.update(f"{name} {weight.dtype} {tuple(weight.shape)} ".encode())
        digest.update(weight.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())  # (bytes,)
    return digest.hexdigest()


def _architecture(model: "PreTrainedModel") -> str:
    """The class of a model and its configuration, without the place that it was read from."""
    config = model.config.to_dict() | {"attention": model.config._attn_implementation}
    config.pop("_name_or_path", None)
    adapters = getattr(model, "peft_config", {})
    words = [type(model).__qualname__, config, {name: one.to_dict() for name, one in adapters.items()}]
    return hashlib.sha256(json.dumps(words, sort_keys=True, default=str).encode()).hexdigest()


@cache
def _package() -> str:
    """A hash of the code of this package."""
    folder = Path(embedrun.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"{path.relative_to(folder)} ".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _source(kind: type[Task]) -> str:
    """A class, and a hash of the file that it is in."""
    return f"{kind.__qualname__} {hashlib.sha256(Path(inspect.getfile(kind)).read_bytes()).hexdigest()}"
