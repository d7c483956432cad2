"""LoRA and QLoRA, and what they need of a machine."""

import json
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from embedrun.backbone.declared import held, read_mapping
from embedrun.config import AdapterConfig, BackboneConfig, nearest
from embedrun.config.options import option
from embedrun.console import say_and_log
from embedrun.errors import ConfigError, DataError, install_extra
from embedrun.files import Plain

if TYPE_CHECKING:
    from peft import LoraConfig
    from transformers import PreTrainedModel

NAME = "default"  # peft's own name of a model's only adapter
_PREFIX = "base_model.model."  # before every name in peft's files
_WEIGHTS = "adapter_model.safetensors"


def add(model: "PreTrainedModel", config: AdapterConfig) -> None:
    r"""Freeze a model and put new matrices beside its linear layers, in place.

    A layer :math:`y = W x + b` becomes

    .. math:: y = W x + b + \frac{\alpha}{r} B A\, \mathrm{dropout}(x)

    with *A* of *r* rows and *B* of *r* columns; *B* is zero at first, so that the model computes what it did.
    *A* is drawn from torch's global random state. Only *A* and *B* are trained, in float32 whatever the type
    of *W*.

    With `rs` the scale is :math:`\alpha / \sqrt{r}`. The variant ``dora`` then scales each row of the sum to
    a length :math:`m` of its own, which is trained and begins as that of *W*.

    Sources: Hu et al. 2021 (LoRA), arXiv:2106.09685, Eq. 3; Kalajdzievski 2023 (rsLoRA), arXiv:2312.03732;
    Liu et al. 2024 (DoRA), arXiv:2402.09353, Eq. 5. A model's pooler never has matrices: most poolings do
    without it, and matrices there would have no gradient.
    """
    from peft import LoraConfig

    linear = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    pooler = [name for name in linear if name.startswith("pooler.")]
    targets = target_names([name for name in linear if name not in pooler], config.targets)
    in_pooler = [name for name in pooler if any(ends(name, target) for target in targets)]
    _inject(
        model,
        LoraConfig(
            r=config.r,
            lora_alpha=config.alpha,  # type: ignore[arg-type]  # peft divides it by r, and takes any number
            lora_dropout=config.dropout,
            use_dora=config.variant == "dora",
            use_rslora=config.rs,
            target_modules=targets,
            exclude_modules=in_pooler or None,
            task_type="FEATURE_EXTRACTION",
        ),
    )


def target_names(linear: Sequence[str], targets: str | Sequence[str]) -> list[str]:
    """The ends of layer names that are adapted; `linear` are full names, `targets` ends or ``all-linear``."""
    last = sorted({name.rpartition(".")[2] for name in linear})
    wanted = last if targets == "all-linear" else list(dict.fromkeys(targets))
    there = f"the model's linear layers are: {', '.join(last) or 'none'}"
    problems = [
        f"backbone.adapter.targets: {target!r} is not a linear layer{nearest(target, last)} ({there})"
        for target in wanted
        if not any(ends(name, target) for name in linear)
    ]
    if not wanted:
        problems.append(f"backbone.adapter.targets: nothing would be trained ({there})")
    if problems:
        raise ConfigError(problems)
    return wanted


def read(model: "PreTrainedModel", folder: Path) -> None:
    """Put a folder's adapter, in peft's file format, into its base model, in place; it is trainable."""
    from peft import LoraConfig, PeftConfig

    config = PeftConfig.from_pretrained(str(folder))
    if not isinstance(config, LoraConfig) or config.trainable_token_indices is not None:
        raise DataError(f"{folder}: its adapter is not one of LoRA matrices alone; embedrun reads no other")
    config.inference_mode = False
    _inject(model, config)
    matrices, stored = weights(model), load_file(folder / _WEIGHTS)
    names = {_name_in(matrices, name): name for name in stored}
    if odd := sorted(matrices.keys() ^ names.keys()):
        raise DataError(
            f"{folder / _WEIGHTS}: does not fit its base model: {len(odd)} tensors are in only one of them "
            f"({', '.join(odd[:3])}); name the base it was trained on in adapter_config.json"
        )
    with torch.no_grad():
        for name, weight in matrices.items():
            weight.copy_(stored[names[name]])


def save(model: "PreTrainedModel", folder: Path) -> None:
    """Write the adapter alone, as peft does: `adapter_config.json` and `adapter_model.safetensors`."""
    model.peft_config[NAME].save_pretrained(str(folder))
    path = folder / "adapter_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    # peft holds them as a set, whose order differs between processes.
    config |= {"target_modules": sorted(config["target_modules"]), "inference_mode": True}
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    tensors = {
        f"{_PREFIX}{name}": weight.detach().cpu().contiguous() for name, weight in weights(model).items()
    }
    save_file(tensors, folder / _WEIGHTS, metadata={"format": "pt"})


def merge(model: "PreTrainedModel") -> None:
    r"""Add :math:`\frac{\alpha}{r} B A` to each *W* and take the matrices out, in place.

    What is left is a plain model that computes the same but for rounding, in the type of *W*.

    Raises:
        ConfigError: if the frozen weights are in 4 bits, which cannot hold the sum.
    """
    from peft.tuners.lora import LoraLayer

    if getattr(model, "is_quantized", False):
        raise ConfigError(
            "an adapter cannot be merged into weights of 4 bits; load its base in float32 first"
        )
    adapted = [(name, module) for name, module in model.named_modules() if isinstance(module, LoraLayer)]
    for name, module in adapted:
        module.merge(safe_merge=True)  # type: ignore[operator]  # of every kind of layer that is adapted
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, module.get_base_layer())
    model.delete_adapter(NAME)  # whose matrices are gone


def has_adapter(model: "PreTrainedModel") -> bool:
    """Whether a model of transformers has an adapter."""
    return bool(getattr(model, "peft_config", None))


def weights(model: nn.Module) -> dict[str, Tensor]:
    """The matrices by the name that peft's files give them, without the prefix."""
    return {
        name.replace(f".{NAME}.", "."): weight
        for name, weight in model.named_parameters()
        if ".lora_" in name
    }


def _inject(model: "PreTrainedModel", config: "LoraConfig") -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of peft, on versions and layouts that are checked here
        model.add_adapter(config, adapter_name=NAME)
    # peft makes them of the type of the frozen weights; AdamW's steps are lost in bfloat16.
    for weight in weights(model).values():
        weight.data = weight.data.float()


def _name_in(wanted: dict[str, Tensor], name: str) -> str:
    """A name as the model has it; one that was trained under a language-model head has a prefix."""
    short = name.removeprefix(_PREFIX)
    short += ".weight" if short.endswith(".lora_magnitude_vector") else ""  # as peft itself writes it
    shorter = short.partition(".")[2]
    return shorter if shorter in wanted else short


def ends(name: str, target: str) -> bool:
    """Whether a name is that of a target, as peft understands it."""
    return name == target or name.endswith(f".{target}")


BLOCK = 64  # numbers that share a scale, in bitsandbytes' 4-bit type


@dataclass
class _Base(AdapterConfig):
    """The base of an adapter as `embedrun.json` has it: 4-bit options, and the type of the other weights."""

    dtype: Literal["float32", "bfloat16"] = option(unit="of weights that are not in 4 bits")
    bidirectional: bool = option(False, unit="whether its tokens saw the whole text")


def cannot_quantize(config: AdapterConfig) -> list[str]:
    """What this machine lacks for 4-bit weights; empty where the options ask for none."""
    if config.quantize is None:
        return []
    where = f"backbone.adapter.quantize: {config.quantize}"
    return _lacking(where, "bitsandbytes", install_extra("qlora"), "backbone.adapter.quantize=null")


def _lacking(where: str, package: str, install: str, instead: str) -> list[str]:
    problems = []
    if not torch.cuda.is_available():
        problems.append(f"{where} needs a CUDA device, and this machine has no usable one; pass {instead}")
    if find_spec(package.replace("-", "_")) is None:
        problems.append(f"{where} needs {package}; {install}, or pass {instead}")
    return problems


def loading(config: AdapterConfig) -> dict[str, object]:
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


def describe(model: "PreTrainedModel") -> Plain:
    """The type of a model's frozen weights and its 4-bit options, as `embedrun.json` has them."""
    # Weights in 4 bits are stored as whole numbers; the embedding layer never is.
    dtype = str(model.get_input_embeddings().weight.dtype).removeprefix("torch.")
    known: Plain = {"dtype": dtype}
    if getattr(model.config, "is_causal", None) is False:
        known["bidirectional"] = True
    if not getattr(model, "is_quantized", False):
        return {**known, "quantize": None}
    config = model.config.quantization_config
    return {
        **known,
        "quantize": config.bnb_4bit_quant_type,
        "double_quantize": config.bnb_4bit_use_double_quant,
        "compute_dtype": str(config.bnb_4bit_compute_dtype).removeprefix("torch."),
    }


def stored(folder: Path) -> tuple[AdapterConfig | None, str | None]:
    """How the base under a folder's adapter was loaded: 4-bit options, and the type of the other weights.

    Each is None where nothing is recorded. A machine without support for 4 bits gets the options with
    `quantize` null, and a warning.
    """
    path = folder / "embedrun.json"
    base = read_mapping(path).get("base") if path.is_file() else None
    if not base:
        return None, None
    config = held(path, _Base, base, under="base.")
    if cannot_quantize(config):
        say_and_log(
            f"warning: {folder}: the adapter was trained on weights of 4 bits ({config.quantize}), which "
            "need CUDA and bitsandbytes; here they are not rounded, and vectors differ a little"
        )
        config = replace(config, quantize=None)
    return config, config.dtype


def was_bidirectional(folder: Path) -> bool:
    """Whether a folder's adapter was trained on a decoder whose tokens see the whole text."""
    path = folder / "embedrun.json"
    return path.is_file() and bool(read_mapping(path).get("base", {}).get("bidirectional"))


def machine_problems(config: BackboneConfig) -> list[str]:
    """What this machine lacks for the options of a backbone."""
    problems = [] if config.adapter is None else cannot_quantize(config.adapter)
    if config.attention == "flash_attention_2":
        where = "backbone.attention: flash_attention_2"
        problems += _lacking(where, "flash-attn", "install it", "backbone.attention=sdpa")
    return problems


def contradictions(config: BackboneConfig, *, device: str, precision: str) -> list[str]:
    """Options of a backbone that cannot go together on any machine.

    `device` and `precision` are `gpu.device` and `gpu.precision` as asked for, unresolved.
    """
    problems = []
    flash = config.attention == "flash_attention_2"
    if flash and config.bidirectional:
        problems.append("backbone.bidirectional: flash_attention_2 hides what follows a token; choose sdpa")
    if flash and device == "cpu":
        problems.append(
            "backbone.attention: flash_attention_2 needs a CUDA device, and gpu.device is cpu; choose sdpa"
        )
    elif flash and precision in ("fp32", "tf32"):
        problems.append(
            f"backbone.attention: flash_attention_2 computes in 16 bits, and gpu.precision is {precision}; "
            "choose sdpa, or gpu.precision bf16 or fp16"
        )
    if config.adapter is None and config.dtype == "bfloat16":
        problems.append(
            "backbone.dtype: weights in bfloat16 cannot be trained: they have 8 significant bits, so that an "
            "update below 1/256 of a weight is lost. Leave it null (gpu.precision=bf16 still computes in "
            "bfloat16), or train a new adapter on a whole model with 'backbone.adapter={}'"
        )
    if config.name is None:
        problems += [
            f"backbone.{name}: needs a pretrained model, and backbone.name is null; leave it null"
            for name in ("adapter", "dtype")
            if getattr(config, name) is not None
        ]
    if config.adapter is not None and config.adapter.quantize is not None and device == "cpu":
        problems.append(
            "backbone.adapter.quantize: 4 bits need a CUDA device, and gpu.device is cpu; pass "
            "backbone.adapter.quantize=null"
        )
    return problems
