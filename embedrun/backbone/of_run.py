"""The model of a run that has not finished: its checkpoint, and the recipe for the rest.

A folder `RUN_DIR/checkpoints/step-<number>` has the weights that were trained and nothing else of the model.
The rest is in the run directory: in `model/` once the run has finished, else in what its `config.yaml` names.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors import safe_open
from torch import nn

from embedrun.backbone.declared import RUN_FILE, Declared, read_json
from embedrun.backbone.length import USUAL
from embedrun.config import BackboneConfig, Checker, EvaluationConfig, PoolingConfig
from embedrun.errors import ConfigError, DataError
from embedrun.files import sha256
from embedrun.prompt import in_use, of
from embedrun.runs.reading import RunFiles

SCHEMA = 2  # of manifest.json
_FOLDER, _STEP = "checkpoints", re.compile(r"step-\d{8,}")
_WEIGHTS, _MANIFEST = "model.safetensors", "manifest.json"
# Prefixes of the weights' names: of the model inside the trained encoder, and of its head.
_MODEL, _HEAD = "encoder.backbone.model.", "encoder.head."
_ANOTHER = "name another checkpoint of the run, or the run directory once it has finished"


def is_checkpoint(folder: Path) -> bool:
    """Whether a folder is a published checkpoint of a run, by its name and place; a model folder is none."""
    whole = folder.resolve()
    named = whole.parent.name == _FOLDER and bool(_STEP.fullmatch(whole.name))
    return named and not (folder / "config.json").is_file()


def run_of(checkpoint: Path) -> Path:
    """The directory of the run that a checkpoint is of."""
    return checkpoint.resolve().parent.parent


def verify(checkpoint: Path) -> None:
    """Check the weights against the manifest that was written with them.

    Raises:
        DataError: if they differ, or the manifest does not say what they should be.
    """
    manifest, weights = read_json(checkpoint / _MANIFEST), checkpoint / _WEIGHTS
    try:
        schema, entry = manifest["schema"], manifest["files"][_WEIGHTS]
        size, digest = entry["bytes"], entry["sha256"]
    except (LookupError, TypeError) as fault:
        raise DataError(f"{checkpoint / _MANIFEST}: is not a checkpoint manifest; {_ANOTHER}") from fault
    if schema != SCHEMA:
        raise DataError(
            f"{checkpoint / _MANIFEST}: schema {schema!r}, and this version of embedrun reads {SCHEMA}; "
            f"{_ANOTHER}"
        )
    try:
        whole = weights.stat().st_size == size and sha256(weights) == digest
    except OSError as fault:
        raise DataError(f"{weights}: cannot be read ({fault.strerror}); {_ANOTHER}") from fault
    if not whole:
        raise DataError(f"{weights}: is damaged, it differs from its manifest; {_ANOTHER}")


def has_head(checkpoint: Path) -> bool:
    """Whether a layer behind the pooling was trained, too."""
    with safe_open(checkpoint / _WEIGHTS, framework="pt") as file:
        return any(name.startswith(_HEAD) for name in file.keys())  # noqa: SIM118, no mapping


def put(checkpoint: Path, model: nn.Module) -> None:
    """Copy a verified checkpoint's weights into a model of the trained shape, in place.

    Raises:
        DataError: if a weight does not fit, or one is missing.
    """
    weights = model.state_dict()
    trained = {name for name, weight in model.named_parameters() if weight.requires_grad}
    # Most poolings do without the pooler, which is not trained then.
    lacking = {name for name in trained if not name.startswith("pooler.")}
    odd = []
    with safe_open(checkpoint / _WEIGHTS, framework="pt") as file, torch.no_grad():
        for stored in file.keys():  # noqa: SIM118, no mapping
            if not stored.startswith(_MODEL):
                continue
            name, weight = stored.removeprefix(_MODEL), file.get_tensor(stored)
            lacking.discard(name)
            if name in weights and weights[name].shape == weight.shape:
                weights[name].copy_(weight)
            else:
                odd.append(name)
    if odd := sorted([*odd, *lacking]):
        raise DataError(
            f"{checkpoint / _WEIGHTS}: belongs to another model than the run's: {len(odd)} of the weights "
            f"differ ({', '.join(odd[:3])}{', ...' if len(odd) > 3 else ''}); {_ANOTHER}"
        )


_TRAINING_HEAD = "cls_mlp"
_GROUPS = ("backbone", "pooling", "evaluation")  # of a `Recipe`


@dataclass(frozen=True)
class Recipe:
    """The options behind an encoder; prompt and length in use are among those of `evaluation`."""

    backbone: BackboneConfig
    pooling: PoolingConfig
    evaluation: EvaluationConfig

    @property
    def drops_head(self) -> bool:
        """Whether a layer behind the pooling is there for training alone."""
        return self.pooling.name == _TRAINING_HEAD and not self.pooling.keep_head


def recipe(run: Path) -> Recipe:
    """The recipe in a run's `config.yaml`; DataError if it is unreadable or of another version's options."""
    path, plain = run / "config.yaml", RunFiles(run).config
    checker = Checker()
    made = checker.build(Recipe, {name: plain[name] for name in _GROUPS if name in plain})
    if made is None:
        raise DataError([f"{path}: {problem}" for problem in checker.problems])
    return made


def in_place_of(base: Declared, made: Recipe) -> Declared:
    """How the model is used: what the files of the finished run would say, given those of its base model.

    Raises:
        DataError: if the prompt of the recipe is invalid.
    """
    pooling, says = made.pooling, base
    if pooling.name != "auto":
        says = replace(
            base,
            pooling="cls" if made.drops_head else pooling.name,
            first_layer=pooling.first_layer,
            padded_to=pooling.padded_to,
            foreign=(),
            head=None,
        )
    try:
        trained = base.prompt if made.backbone.prompt is None else of(made.backbone.prompt)
        prompt = in_use(trained, made.evaluation.prompt, made.evaluation.text_edit)
    except ConfigError as fault:  # a file's, not the user's
        raise DataError(fault.problems) from fault
    length = _length(base, made)
    given = {
        "pooling": pooling.name != "auto",
        "normalize": pooling.normalize is not None,
        "max_length": length != base.max_length,
        "prompt": prompt != base.prompt,
    }
    return replace(
        says,
        files={**base.files, **{name: RUN_FILE for name, is_given in given.items() if is_given}},
        normalize=base.normalize if pooling.normalize is None else pooling.normalize,
        max_length=length,
        prompt=prompt,
        named=base.named if prompt == base.prompt else {},
    )


def _length(base: Declared, made: Recipe) -> int | None:
    """Tokens of a text; None: no file says, and the model decides."""
    backbone, asked = made.backbone, made.evaluation.max_length
    if asked is not None:
        return asked
    if backbone.scratch is not None:
        return backbone.scratch.positions
    most = max(USUAL, backbone.max_length or 0)
    if base.max_length is None:
        return most if most > USUAL else None
    return base.max_length if base.is_ours else min(base.max_length, most)
