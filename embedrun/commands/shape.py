"""What is known of a backbone before anything is loaded: its configuration, and what weighs how much."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from embedrun.backbone.checkpoint import is_checkpoint, run_of
from embedrun.backbone.declared import Declared, read, read_json
from embedrun.backbone.files import base_of, has_weights, locate
from embedrun.backbone.published import CONFIGS
from embedrun.backbone.quantized import stored
from embedrun.backbone.recipe import in_place_of, recipe
from embedrun.backbone.scratch import configuration
from embedrun.backbone.size import Size, size_of
from embedrun.config import AdapterConfig, BackboneConfig
from embedrun.errors import DataError
from embedrun.prompt import Prompt
from embedrun.tokenizer import lacking

_TOKENIZER = "tokenizer.json"


@dataclass(frozen=True)
class Shape:
    """What is known of a backbone.

    Args:
        config: as `config.json` has it.
        source: where it is from, in words; empty for the model's own file.
        adapter: the options of its adapter, None without.
        declared: how the model's files want it used; None: they are not here.
        tokenizer: its `tokenizer.json` on this machine, None without.
    """

    config: Mapping[str, Any]
    source: str
    adapter: AdapterConfig | None
    declared: Declared | None = None
    tokenizer: Path | None = None

    @property
    def max_length(self) -> int | None:
        """Tokens, as the model's files say; None: they do not."""
        return None if self.declared is None else self.declared.max_length

    @property
    def prompt(self) -> Prompt | None:
        """As the model's files say; None: they do not."""
        return None if self.declared is None else self.declared.prompt


def shape_of(config: BackboneConfig) -> Shape | None:
    """What is known of the backbone, from files of this machine alone; None: nothing.

    Raises:
        DataError: if the model is here and its files are faulty, or those of its tokenizer are missing.
    """
    if config.scratch is not None:
        made = configuration(config.scratch, config.scratch.vocabulary)
        return Shape(made, ", at most", None, Declared(max_length=config.scratch.positions))
    name = config.name or ""
    folder = Path(name).expanduser()
    if not folder.exists():
        file = cached(name, "config.json", config.revision)
        if file is not None:
            words = cached(name, _TOKENIZER, config.revision)
            return Shape(read_json(file), "", config.adapter, _of_cache(file.parent), words)
        known = CONFIGS.get(name)
        return (
            None if known is None else Shape(known, " (as published; its files are not here)", config.adapter)
        )
    if not (folder / "config.json").is_file():
        try:
            folder = locate(name)  # the model of a run, an adapter, or a checkpoint
        except DataError:
            folder = folder / "model"  # of a run; what it lacks is said below
            if not (folder / "config.json").is_file():
                return None
    if is_checkpoint(folder):
        return _of_checkpoint(folder)
    declared, base = read(folder), base_of(folder)
    # A folder with config.json alone is priced; with weights it is a model, and a model has a tokenizer.
    if base is None and has_weights(folder) and (fault := lacking(folder)):
        raise DataError(fault)
    words = next((path for one in (folder, base) if one and (path := one / _TOKENIZER).is_file()), None)
    if base is None:
        return Shape(read_json(folder / "config.json"), "", config.adapter, declared, words)
    return Shape(read_json(base / "config.json"), "", _of_files(folder), declared, words)


def _of_checkpoint(folder: Path) -> Shape | None:
    """What is known of the model that the weights of a checkpoint are laid over."""
    run = run_of(folder)
    if (run / "model").is_dir():
        return shape_of(BackboneConfig(name=str(run / "model")))
    made = recipe(run)
    found = shape_of(made.backbone)
    if found is None or found.declared is None:
        return found
    return replace(found, declared=in_place_of(found.declared, made))


def _of_cache(folder: Path) -> Declared | None:
    """What the hub's files say, as far as they are here: a cache may hold any part of a model."""
    says = read(folder)
    return None if says.pooling is None else says


def _of_files(folder: Path) -> AdapterConfig:
    """The options of an adapter that training goes on with."""
    written, (told, _) = read_json(folder / "adapter_config.json"), stored(folder)
    return AdapterConfig(
        r=written["r"],
        dropout=written.get("lora_dropout", 0.0),
        targets=sorted(written["target_modules"]),
        quantize=told.quantize if told else None,
        double_quantize=told.double_quantize if told else True,
    )


def cached(name: str, file: str, revision: str | None) -> Path | None:
    """A file of a hub id, where the hub's cache on this machine has it."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(name, file, revision=revision)
    except HFValidationError:
        return None
    return Path(found) if isinstance(found, str) else None


def measured_size(config: Mapping[str, Any]) -> Size | None:
    """How many weights a `config.json` describes; None for a form that nothing here knows."""
    try:
        if (size := size_of(config)) is not None:
            return size
        from embedrun.backbone.measured import measured

        return measured(config)
    except (KeyError, ValueError, AttributeError):  # a file of a form that nothing here knows
        return None
