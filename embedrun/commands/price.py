"""What a run weighs before anything is loaded: parameters and memory, from a local configuration."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedrun.backbone import adapter as adapters
from embedrun.backbone import memory
from embedrun.backbone.checkpoint import is_checkpoint, run_of
from embedrun.backbone.declared import read, read_json
from embedrun.backbone.files import base_of, locate
from embedrun.backbone.published import CONFIGS
from embedrun.backbone.quantized import stored
from embedrun.backbone.recipe import recipe
from embedrun.backbone.scratch import configuration
from embedrun.backbone.size import Size, size_of
from embedrun.config import AdapterConfig, BackboneConfig, TrainConfig
from embedrun.errors import DataError
from embedrun.pooling import HEAD, POOLER

_NO_LIMIT = 512  # tokens taken for a model that reads texts of any length


@dataclass(frozen=True)
class Shape:
    """What is known of a backbone.

    Args:
        config: as `config.json` has it.
        source: where it is from, in words; empty for the model's own file.
        adapter: the options of its adapter, None without.
        max_length: tokens, as the model's files say; None: they do not.
    """

    config: Mapping[str, Any]
    source: str
    adapter: AdapterConfig | None
    max_length: int | None = None


def price(config: TrainConfig, passes: Mapping[str, Any]) -> list[list[str]]:
    """Rows of what and how much: parameters, trained ones, memory.

    Args:
        config: the checked options.
        passes: the views that go through the encoder, by key.

    Raises:
        ConfigError: for targets of an adapter that the model has not.
    """
    shape = _shape(config.backbone)
    size = None if shape is None else _size(shape.config)
    if shape is None or size is None:
        return [["parameters", f"not known: no configuration of {config.backbone.name} on this machine"]]
    adapter = shape.adapter
    names = adapters.target_names([one.name for one in size.linear], adapter.targets) if adapter else []
    adapted = [one for one in size.linear if any(adapters.ends(one.name, name) for name in names)]
    head = size.width * (size.width + 1) if config.pooling.name == HEAD else 0
    beside = size.copies * memory.adapter_weights(adapted, adapter.r) if adapter else 0
    unused = 0 if config.pooling.name == POOLER else size.pooler
    trained = head + (beside if adapter else size.weights - unused)
    step = _step(config, passes, shape, size)
    found = memory.estimate(
        size,
        step,
        trained=trained,
        dtype_bytes=2 if config.backbone.dtype == "bfloat16" else 4,
        adapter=adapter,
        adapted=adapted,
    )
    return [
        ["parameters", f"{size.weights + beside + head:,}{shape.source}"],
        ["of them trained", f"{trained:,}"],
        ["memory, estimated", f"{_size_text(found.total)}: {_parts(found)}"],
        ["", f"for {step.texts} texts of {step.length} tokens at a time, in {16 if step.half else 32} bits"],
    ]


def _shape(config: BackboneConfig) -> Shape | None:
    if config.scratch is not None:
        positions = config.scratch.positions
        return Shape(configuration(config.scratch, config.scratch.vocabulary), ", at most", None, positions)
    name = config.name or ""
    folder = Path(name).expanduser()
    if not folder.exists():
        cached = _cached(name, config.revision)
        if cached is not None:
            return Shape(read_json(cached), "", config.adapter)
        known = CONFIGS.get(name)
        return (
            None if known is None else Shape(known, " (as published; its files are not here)", config.adapter)
        )
    if not (folder / "config.json").is_file():
        try:
            folder = locate(name)  # the model of a run, an adapter, or a checkpoint
        except DataError:
            return None
    if is_checkpoint(folder):
        return _of_checkpoint(folder)
    declared = read(folder).max_length
    base = base_of(folder)
    if base is None:
        return Shape(read_json(folder / "config.json"), "", config.adapter, declared)
    return Shape(read_json(base / "config.json"), "", _of_files(folder), declared)


def _of_checkpoint(folder: Path) -> Shape | None:
    """What is known of the model that the weights of a checkpoint are laid over."""
    run = run_of(folder)
    if (run / "model").is_dir():
        return _shape(BackboneConfig(name=str(run / "model")))
    return _shape(recipe(run).backbone)


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


def _cached(name: str, revision: str | None) -> Path | None:
    """The `config.json` of a hub id, where the hub's cache on this machine has it."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(name, "config.json", revision=revision)
    except HFValidationError:
        return None
    return Path(found) if isinstance(found, str) else None


def _size(config: Mapping[str, Any]) -> Size | None:
    try:
        if (size := size_of(config)) is not None:
            return size
        from embedrun.backbone.measured import measured

        return measured(config)
    except (KeyError, ValueError, AttributeError):  # a file of a form that nothing here knows
        return None


def _step(config: TrainConfig, passes: Mapping[str, Any], shape: Shape, size: Size) -> memory.Step:
    training = config.training
    rows = min(training.micro_batch_size or training.batch_size, training.batch_size)
    limits = [limit for limit in (shape.max_length, size.positions) if limit]
    length = config.backbone.max_length or min(limits, default=_NO_LIMIT)
    return memory.Step(
        texts=rows * len(passes),
        length=length,
        half=_half(config.gpu.device, config.gpu.precision),
        attention=config.backbone.attention,
        gradient_checkpointing=training.gradient_checkpointing,
    )


def _half(device: str, precision: str) -> bool:
    import torch

    if precision == "auto":
        return device != "cpu" and torch.cuda.is_available()
    return precision not in ("fp32", "tf32")


def _parts(found: memory.Memory) -> str:
    parts = {
        "weights": found.weights,
        "gradients": found.gradients,
        "optimizer": found.optimizer,
        "activations": found.activations,
    }
    return " + ".join(f"{name} {_size_text(value)}" for name, value in parts.items())


def _size_text(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 / 10 else f"{count / 2**20:.1f} MiB"
