"""Frozen weights in 4 bits (QLoRA), through bitsandbytes."""

import logging
import math
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from embedrun.backbone.declared import read_json
from embedrun.backbone.stated import held
from embedrun.config import AdapterConfig
from embedrun.config.options import option
from embedrun.console import say

_log = logging.getLogger("embedrun")
BLOCK = 64  # numbers that share a scale, in bitsandbytes' 4-bit type


@dataclass
class _Base(AdapterConfig):
    """The base of an adapter as `embedrun.json` has it: 4-bit options, and the type of the other weights."""

    dtype: Literal["float32", "bfloat16"] = option(unit="of weights that are not in 4 bits")


def problems(config: AdapterConfig) -> list[str]:
    """What this machine lacks for it; empty where 4 bits are not asked for."""
    if config.quantize is None:
        return []
    where = f"backbone.adapter.quantize: {config.quantize}"
    found = []
    if not torch.cuda.is_available():
        found.append(
            f"{where} needs a CUDA device, and this machine has no usable one; pass "
            "backbone.adapter.quantize=null"
        )
    if find_spec("bitsandbytes") is None:
        found.append(
            f"{where} needs bitsandbytes; pip install 'embedrun[qlora]', or pass "
            "backbone.adapter.quantize=null"
        )
    return found


def loading(config: AdapterConfig) -> dict[str, Any]:
    """What `from_pretrained` is told, so that it reads linear layers into 4 bits on the CUDA device.

    Source: Dettmers et al. 2023 (QLoRA), arXiv:2305.14314: 4-bit numbers spaced as the quantiles of a normal
    distribution, each block of 64 with a scale, and the scales in 8 bits with a scale for 256 of them
    (`double_quantize`).
    """
    from transformers import BitsAndBytesConfig

    quantized = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type=str(config.quantize),
        bnb_4bit_use_double_quant=config.double_quantize,
        bnb_4bit_compute_dtype=getattr(torch, config.compute_dtype),
    )
    return {"quantization_config": quantized, "device_map": {"": torch.cuda.current_device()}}


def count(model: nn.Module) -> int:
    """The weights of a model; one in 4 bits, of which two share a stored number, counts as one."""
    # bitsandbytes keeps the shape that a weight had.
    states = [(weight, getattr(weight, "quant_state", None)) for weight in model.parameters()]
    return sum(weight.numel() if state is None else math.prod(state.shape) for weight, state in states)


def describe(model: Any) -> dict[str, Any]:
    """The type of a model's frozen weights, and how they are in 4 bits, as `embedrun.json` has it.

    Args:
        model: of transformers, with an adapter.
    """
    # Weights in 4 bits are stored as whole numbers; the embedding layer never is.
    dtype = model.get_input_embeddings().weight.dtype
    found: dict[str, Any] = {"dtype": str(dtype).removeprefix("torch."), "quantize": None}
    if getattr(model, "is_quantized", False):
        told = model.config.quantization_config
        found |= {
            "quantize": told.bnb_4bit_quant_type,
            "double_quantize": told.bnb_4bit_use_double_quant,
            "compute_dtype": str(told.bnb_4bit_compute_dtype).removeprefix("torch."),
        }
    return found


def stored(folder: Path) -> tuple[AdapterConfig | None, str | None]:
    """How the base under the adapter of a folder was loaded, so that it is loaded so again.

    A machine that cannot have weights in 4 bits gets them as they were before, and a warning.

    Returns:
        4-bit options, and the type of the other weights; None each where nothing is said.

    Raises:
        DataError: for options that are not known, or cannot have their value.
    """
    path = folder / "embedrun.json"
    data = read_json(path) if path.is_file() else {}
    said = data.get("base") if isinstance(data, dict) else None  # what is no mapping `declared.read` refuses
    if not said:
        return None, None
    config = held(path, _Base, said, under="base.")
    dtype = config.dtype
    if problems(config):
        warning = (
            f"{folder}: the adapter was trained on weights of 4 bits ({config.quantize}), which need CUDA "
            "and bitsandbytes; here they are not rounded, and vectors differ a little"
        )
        say(f"warning: {warning}")
        _log.info("%s", warning)
        config = replace(config, quantize=None)
    return config, dtype
