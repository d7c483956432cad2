"""The model of a run that has not finished: its checkpoint, and the recipe for the rest.

A folder `RUN_DIR/checkpoints/step-<number>` has the weights that were trained and nothing else of the model.
The rest is in the run directory: in `model/` once the run has finished, else in what its `config.yaml` names.
"""

import re
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

import torch
from safetensors import safe_open
from torch import nn

from embedrun.backbone.declared import RUN_FILE, Declared, held
from embedrun.backbone.transformer import USUAL
from embedrun.config import BackboneConfig, EvaluationConfig, PoolingConfig, PromptsConfig
from embedrun.errors import ConfigError, DataError
from embedrun.files import as_written, read_json, sha256
from embedrun.prompts import by_role, in_use, of
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
    """Check the weights against the manifest that was written with them."""
    place, weights = checkpoint / _MANIFEST, checkpoint / _WEIGHTS
    with as_written(place, "a checkpoint manifest", _ANOTHER):
        manifest = read_json(place)
        if manifest["schema"] != SCHEMA:
            raise ValueError(f"schema {manifest['schema']!r}, and this version of embedrun reads {SCHEMA}")
        entry = manifest["files"][_WEIGHTS]
        size, digest = entry["bytes"], entry["sha256"]
    if not weights.is_file() or weights.stat().st_size != size or sha256(weights) != digest:
        raise DataError(f"{weights}: is missing or damaged: it differs from its manifest; {_ANOTHER}")


def has_head(checkpoint: Path) -> bool:
    """Whether a layer behind the pooling was trained, too."""
    with safe_open(checkpoint / _WEIGHTS, framework="pt") as file:
        return any(name.startswith(_HEAD) for name in file.keys())  # noqa: SIM118, no mapping


def put(checkpoint: Path, model: nn.Module) -> None:
    """Copy a verified checkpoint's weights into a model of the trained shape, in place."""
    weights = model.state_dict()
    trained = {name for name, weight in model.named_parameters() if weight.requires_grad}
    with safe_open(checkpoint / _WEIGHTS, framework="pt") as file, torch.no_grad():
        stored = {
            key.removeprefix(_MODEL): key
            for key in file.keys()  # noqa: SIM118, no mapping
            if key.startswith(_MODEL)
        }
        # Most poolings do without the pooler, which is not trained then.
        odd = {name for name in trained - stored.keys() if not name.startswith("pooler.")}
        for name, key in stored.items():
            weight = file.get_tensor(key)
            if name in weights and weights[name].shape == weight.shape:
                weights[name].copy_(weight)
            else:
                odd.add(name)
    if odd:
        raise DataError(
            f"{checkpoint / _WEIGHTS}: belongs to another model than the run's: {len(odd)} of the weights "
            f"differ ({', '.join(sorted(odd)[:3])}); {_ANOTHER}"
        )


@dataclass(frozen=True)
class Recipe:
    """The options behind an encoder; prompt and length in use are among those of `evaluation`."""

    backbone: BackboneConfig
    pooling: PoolingConfig
    evaluation: EvaluationConfig
    prompts: PromptsConfig = field(default_factory=PromptsConfig)

    @property
    def drops_head(self) -> bool:
        """Whether a layer behind the pooling is there for training alone."""
        return self.pooling.name == "cls_mlp" and not self.pooling.keep_head


def recipe(run: Path) -> Recipe:
    """The recipe in a run's `config.yaml`; DataError if it is unreadable or of another version's options."""
    plain = RunFiles(run).config
    groups = {group.name: plain[group.name] for group in fields(Recipe) if group.name in plain}
    return held(run / "config.yaml", Recipe, groups)


def in_place_of(base: Declared, made: Recipe) -> Declared:
    """How the model is used: what the files of the finished run would say, given those of its base model."""
    pooling, says = made.pooling, base
    if pooling.name != "auto":
        says = replace(
            base,
            pooling="cls" if made.drops_head else pooling.name,
            first_layer=pooling.first_layer,
            padded_to=pooling.padded_to,
            foreign=(),
            head=None,
            dense=(),
        )
    try:
        trained = base.prompt if made.backbone.prompt is None else of(made.backbone.prompt)
        prompt = in_use(trained, made.evaluation.prompt, made.evaluation.text_edit)
        is_given = made.backbone.prompt is not None or made.evaluation.prompt is not None
        roles = by_role(asdict(made.prompts), {} if is_given else base.by_role)
    except ConfigError as fault:  # a file's, not the user's
        raise DataError(fault.problems) from fault
    skips = base.skip_prompt if pooling.skip_prompt is None else pooling.skip_prompt
    length = _length(base, made)
    return replace(
        says,
        files=dict.fromkeys(("pooling", "normalize", "max_length", "prompt"), RUN_FILE),
        normalize=base.normalize if pooling.normalize is None else pooling.normalize,
        max_length=length,
        prompt=prompt,
        named=base.named if prompt == base.prompt else {},
        by_role=roles,
        skip_prompt=skips,
    )


def _length(base: Declared, made: Recipe) -> int | None:
    """Tokens of a text; None: no file says, and the model decides."""
    backbone = made.backbone
    if made.evaluation.max_length is not None:
        return made.evaluation.max_length
    if backbone.scratch is not None:
        return backbone.scratch.positions
    if base.is_ours:
        return base.max_length
    most = max(USUAL, backbone.max_length or 0)
    if base.max_length is None:
        return most if most > USUAL else None
    return min(base.max_length, most)
