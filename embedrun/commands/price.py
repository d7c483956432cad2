"""What a run weighs before anything is loaded: parameters and memory, from a local configuration."""

from collections.abc import Mapping
from typing import Any

from embedrun.backbone import adapter as adapters
from embedrun.backbone import memory
from embedrun.backbone.size import Size
from embedrun.commands.shape import Shape, measured_size, shape_of
from embedrun.config import BackboneConfig, TeacherConfig, TrainConfig
from embedrun.pooling import HEAD, POOLER

_NO_LIMIT = 512  # tokens taken for a model that reads texts of any length


def price(
    config: TrainConfig, passes: Mapping[str, Any], shape: Shape | None, size: Size | None, *, rows: int
) -> list[list[str]]:
    """Rows of what and how much: parameters, trained ones, memory.

    Args:
        config: the checked options.
        passes: the views that go through the encoder, by key.
        shape: of the backbone; None: not known.
        size: of the same.
        rows: that a process encodes at a time.

    Raises:
        ConfigError: for targets of an adapter that the model has not.
    """
    if shape is None or size is None:
        return [["parameters", f"not known: no configuration of {config.backbone.name} on this machine"]]
    adapter = shape.adapter
    names = adapters.target_names([one.name for one in size.linear], adapter.targets) if adapter else []
    adapted = [one for one in size.linear if any(adapters.ends(one.name, name) for name in names)]
    head = size.width * (size.width + 1) if config.pooling.name == HEAD else 0
    beside = size.copies * memory.adapter_weights(adapted, adapter.r) if adapter else 0
    unused = 0 if config.pooling.name == POOLER else size.pooler
    trained = head + (beside if adapter else size.weights - unused)
    step = _step(config, rows * len(passes), shape, size)
    found = memory.estimate(
        size,
        step,
        trained=trained,
        dtype_bytes=2 if config.backbone.dtype == "bfloat16" else 4,
        adapter=adapter,
        adapted=adapted,
    )
    frozen = [(one.name, _weights(one)) for one in config.training.teachers or ()]
    parts = {
        "weights": found.weights,
        "gradients": found.gradients,
        "optimizer": found.optimizer,
        "activations": found.activations,
        "SAM's copy": 4 * trained if config.training.optimizer == "sam" else 0,
        "teachers": 4 * sum(weights or 0 for _, weights in frozen),
    }
    each = " + ".join(f"{name} {_size_text(value)}" for name, value in parts.items() if value)
    unknown = ", ".join(name for name, weights in frozen if weights is None)
    return [
        ["parameters", f"{size.weights + beside + head:,}{shape.source}"],
        ["of them trained", f"{trained:,}"],
        ["memory, estimated", f"{_size_text(sum(parts.values()))}: {each}"],
        ["", f"for {step.texts} texts of {step.length} tokens at a time, in {16 if step.half else 32} bits"],
        *([["", f"without that of {unknown}, of which nothing is known here"]] if unknown else []),
    ]


def _weights(teacher: TeacherConfig) -> int | None:
    """Weights of a frozen encoder, which are in float32; None: not known."""
    shape = shape_of(BackboneConfig(name=teacher.name, revision=teacher.revision))
    size = None if shape is None else measured_size(shape.config)
    return None if size is None else size.weights


def longest(config: TrainConfig, shape: Shape | None, size: Size | None) -> int:
    """Tokens of the longest text that the backbone reads, as far as that is known."""
    limits = [config.backbone.max_length, shape and shape.max_length, size and size.positions]
    return next((one for one in limits if one), _NO_LIMIT)


def _step(config: TrainConfig, texts: int, shape: Shape, size: Size) -> memory.Step:
    return memory.Step(
        texts=texts,
        length=longest(config, shape, size),
        half=precision(config) in ("bf16", "fp16"),
        attention=config.backbone.attention,
        gradient_checkpointing=config.training.gradient_checkpointing,
    )


def precision(config: TrainConfig) -> str:
    """What the backbone computes in while it trains on this machine."""
    import torch

    asked = config.gpu.precision
    if asked != "auto":
        return asked
    if config.gpu.device == "cpu" or not torch.cuda.is_available():
        return "fp32"
    return "bf16" if torch.cuda.is_bf16_supported(False) else "fp16"


def _size_text(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 / 10 else f"{count / 2**20:.1f} MiB"
