"""LoRA: low-rank matrices beside frozen linear layers, through peft."""

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from embedrun.config import AdapterConfig, nearest
from embedrun.errors import ConfigError, DataError

NAME = "default"  # peft's own name of a model's only adapter
_PREFIX = "base_model.model."  # before every name in peft's files
_WEIGHTS = "adapter_model.safetensors"


def add(model: Any, config: AdapterConfig) -> None:
    r"""Freeze a model and put new matrices beside its linear layers, in place.

    A layer :math:`y = W x + b` becomes

    .. math:: y = W x + b + \frac{\alpha}{r} B A\, \mathrm{dropout}(x)

    with *A* of *r* rows and *B* of *r* columns; *B* is zero at first, so that the model computes what it did.
    Only *A* and *B* are trained, in float32 whatever the type of *W*.

    Source: Hu et al. 2021 (LoRA), arXiv:2106.09685, Eq. 3. A model's pooler never has matrices: most
    poolings do without it, and matrices there would have no gradient.

    Args:
        model: of transformers, without an adapter; *A* comes from torch's global random state.
        config: rank, alpha, dropout, targets.

    Raises:
        ConfigError: if a target names no linear layer of the model, or there is none at all.
    """
    from peft import LoraConfig

    linear = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    targets = target_names([name for name in linear if not _in_pooler(name)], config.targets)
    pooler = [name for name in linear if _in_pooler(name) and any(ends(name, target) for target in targets)]
    _inject(
        model,
        LoraConfig(
            r=config.r,
            lora_alpha=config.alpha,  # type: ignore[arg-type]  # peft divides it by r, and takes any number
            lora_dropout=config.dropout,
            target_modules=targets,
            exclude_modules=pooler or None,
            task_type="FEATURE_EXTRACTION",
        ),
    )


def target_names(linear: Sequence[str], targets: str | Sequence[str]) -> list[str]:
    """Which ends of names say what is adapted.

    Args:
        linear: full names of the layers that can be.
        targets: ends of names, or ``all-linear``.

    Raises:
        ConfigError: for a target that is no end of any name.
    """
    last = sorted({name.rpartition(".")[2] for name in linear})
    wanted = last if targets == "all-linear" else list(dict.fromkeys(targets))
    there = f"the model's linear layers are: {', '.join(last) or 'none'}"
    problems = [
        f"backbone.adapter.targets: {target!r} is no linear layer{nearest(target, last)} ({there})"
        for target in wanted
        if not any(ends(name, target) for name in linear)
    ]
    if not wanted:
        problems.append(f"backbone.adapter.targets: nothing would be trained ({there})")
    if problems:
        raise ConfigError(problems)
    return wanted


def read(model: Any, folder: Path) -> None:
    """Put the adapter of a folder into its base model, in place; it is trainable.

    Args:
        model: the base, of transformers.
        folder: with `adapter_config.json` and `adapter_model.safetensors`, as peft writes them.

    Raises:
        DataError: if it is no LoRA adapter, or does not fit the model.
    """
    from peft import LoraConfig, PeftConfig

    config = PeftConfig.from_pretrained(str(folder))
    if not isinstance(config, LoraConfig):
        raise DataError(f"{folder}: its adapter is {config.peft_type}, and embedrun reads LoRA only")
    config.inference_mode = False
    _inject(model, config)
    wanted = weights(model)
    with safe_open(folder / _WEIGHTS, framework="pt") as file, torch.no_grad():
        found = {_own_name(name, wanted): name for name in file.keys()}  # noqa: SIM118, no mapping
        if odd := sorted(wanted.keys() ^ found.keys()):
            raise DataError(
                f"{folder / _WEIGHTS}: does not fit its base model: {len(odd)} tensors are in one only "
                f"({', '.join(odd[:3])}, ...); name the base that it was trained on in adapter_config.json"
            )
        for name, weight in wanted.items():
            weight.copy_(file.get_tensor(found[name]))


def save(model: Any, folder: Path) -> None:
    """Write the adapter alone, as peft does: `adapter_config.json` and `adapter_model.safetensors`."""
    model.peft_config[NAME].save_pretrained(str(folder))
    path = folder / "adapter_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    # peft holds them as a set, whose order is another in every process.
    config |= {"target_modules": sorted(config["target_modules"]), "inference_mode": True}
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    tensors = {
        f"{_PREFIX}{name}": weight.detach().cpu().contiguous() for name, weight in weights(model).items()
    }
    save_file(tensors, folder / _WEIGHTS, metadata={"format": "pt"})


def name_base(model: Any, *, name: str, revision: str | None) -> None:
    """Say in the adapter's configuration which model it belongs to: a hub id or a folder."""
    config = model.peft_config[NAME]
    config.base_model_name_or_path, config.revision = name, revision


def merge(model: Any) -> None:
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
        parent, _, own = name.rpartition(".")
        setattr(model.get_submodule(parent), own, module.get_base_layer())
    del model.peft_config
    model._hf_peft_config_loaded = False


def has_adapter(model: Any) -> bool:
    """Whether a model of transformers has an adapter."""
    return bool(getattr(model, "peft_config", None))


def weights(model: nn.Module) -> dict[str, Tensor]:
    """The matrices by the name that peft's files give them, without the prefix."""
    return {
        name.replace(f".{NAME}.", "."): weight
        for name, weight in model.named_parameters()
        if ".lora_" in name
    }


def _inject(model: Any, config: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of peft, on versions and layouts that are checked here
        model.add_adapter(config, adapter_name=NAME)
    # peft makes them of the type of the frozen weights; AdamW's steps are lost in bfloat16.
    for weight in weights(model).values():
        weight.data = weight.data.float()


def _own_name(name: str, wanted: dict[str, Tensor]) -> str:
    """A name as the model has it; one that was trained under a language-model head has a word before it."""
    short = name.removeprefix(_PREFIX)
    shorter = short.partition(".")[2]
    return shorter if shorter in wanted else short


def _in_pooler(name: str) -> bool:
    return name.startswith("pooler.")


def ends(name: str, target: str) -> bool:
    """Whether a name is that of a target, as peft understands it."""
    return name == target or name.endswith(f".{target}")
