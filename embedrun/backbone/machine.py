"""What a machine must have for a backbone."""

from importlib.util import find_spec

import torch

from embedrun.backbone import quantized
from embedrun.config import BackboneConfig


def problems(config: BackboneConfig) -> list[str]:
    """What this machine lacks for what a configuration asks for."""
    found = [] if config.adapter is None else quantized.problems(config.adapter)
    if config.attention == "flash_attention_2":
        where = "backbone.attention: flash_attention_2"
        if not torch.cuda.is_available():
            found.append(f"{where} needs a CUDA device, and this machine has no usable one; choose sdpa")
        if find_spec("flash_attn") is None:
            found.append(f"{where} needs the package flash-attn, which is not installed; choose sdpa")
    return found


def contradictions(config: BackboneConfig, *, device: str, precision: str) -> list[str]:
    """What of a configuration cannot go together on any machine.

    Args:
        config: the backbone.
        device: as `gpu.device` asks for it.
        precision: as `gpu.precision` asks for it.
    """
    found = []
    if config.attention == "flash_attention_2" and device == "cpu":
        found.append(
            "backbone.attention: flash_attention_2 needs a CUDA device, and gpu.device is cpu; choose sdpa"
        )
    elif config.attention == "flash_attention_2" and precision in ("fp32", "tf32"):
        found.append(
            f"backbone.attention: flash_attention_2 computes in 16 bits, and gpu.precision is {precision}; "
            "choose sdpa, or gpu.precision bf16 or fp16"
        )
    if config.adapter is None and config.dtype == "bfloat16":
        found.append(
            "backbone.dtype: weights in bfloat16 are not trained: it keeps 8 bits of a number, so that a "
            "step of less than 1/256 of a weight is lost. Leave it null (gpu.precision=bf16 computes in "
            "bfloat16 all the same, and under a model that is an adapter the weights keep their type), or "
            "put a new adapter on a whole model with 'backbone.adapter={}'"
        )
    if config.name is None:
        found += [
            f"backbone.{name}: goes with a model that has a name, and backbone.name is null; leave it null"
            for name in ("adapter", "dtype")
            if getattr(config, name) is not None
        ]
    quantize = config.adapter is not None and config.adapter.quantize is not None
    if quantize and device == "cpu":
        found.append(
            "backbone.adapter.quantize: 4 bits need a CUDA device, and gpu.device is cpu; pass "
            "backbone.adapter.quantize=null"
        )
    return found
