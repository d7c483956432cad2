"""The first layers of a pretrained model, as a smaller model."""

from typing import Any

from torch import nn

from embedrun.backbone.adapter import has_adapter
from embedrun.config import BackboneConfig, PoolingConfig
from embedrun.errors import ConfigError
from embedrun.files import Plain

_DEPTHS = ("num_hidden_layers", "n_layers", "n_layer", "num_layers")  # as configurations call their number


def depth_of(config: Plain) -> int | None:
    """The number of layers that a `config.json` describes; None where it does not say."""
    depth = next((config[name] for name in _DEPTHS if name in config), None)
    return depth if isinstance(depth, int) else None


def shortened(config: Plain, layers: int) -> dict[str, Any]:
    """A `config.json` with so many layers, where it has any; lists of one entry a layer are cut likewise."""
    depth = depth_of(config)
    cut = {
        key: value[:layers]
        for key, value in config.items()
        if isinstance(value, list) and len(value) == depth
    }
    return {**config, **cut, **{name: layers for name in _DEPTHS if name in config}}


def problems(config: BackboneConfig, pooling: PoolingConfig) -> list[str]:
    """Options that contradict the number of layers, before any model is read."""
    if config.layers is None:
        return []
    wrong = []
    if config.scratch is not None:
        wrong.append(
            "backbone.layers: cuts a pretrained model, and backbone.scratch makes a new one; leave it null, "
            "and give backbone.scratch.layers"
        )
    if config.adapter is not None:
        wrong.append("backbone.layers: an adapter is for a whole model; leave one of the two null")
    return wrong + dropped(config.layers, pooling, "backbone.layers")


def dropped(layers: int | None, pooling: PoolingConfig, option: str) -> list[str]:
    """Whether a pooling names a layer that the option of this name drops."""
    first = pooling.first_layer
    if layers is None or first is None or first <= layers:
        return []
    return [
        f"pooling.first_layer: layer {first} is dropped by {option}={layers}; raise that, or choose "
        "pooling.first_layer=0"
    ]


def too_many(layers: int, config: Plain) -> list[str]:
    """Whether more layers are asked for than a `config.json` describes."""
    depth = depth_of(config)
    if depth is None or layers <= depth:
        return []
    return [f"backbone.layers: {layers} asked for, and the model has {depth}; lower it, or leave it null"]


def cut(model: Any, layers: int | None) -> None:
    r"""Drop all but the first layers of a model, in place; None drops nothing.

    Token vectors are then those of layer :math:`N =` `layers` of the whole model, :math:`h^N_t`, and for 0
    those of the embedding layer. Where a model has a norm behind its last layer, as decoders and ModernBERT
    do, it stands behind layer *N* now. A pooler stays, and is of no use: it was trained on the last layer.
    The configuration says the new number, so that what is saved agrees with the weights.

    Args:
        model: of transformers, or a :class:`~embedrun.backbone.bert.Bert`.
    """
    if layers is None:
        return
    config = model.config
    plain = config.to_dict() if hasattr(config, "to_dict") else vars(config)
    if wrong := too_many(layers, plain):
        raise ConfigError(wrong)
    depth = depth_of(plain)
    lists = [part for part in model.modules() if isinstance(part, nn.ModuleList) and len(part) == depth]
    if has_adapter(model) or len(lists) != 1:
        why = "it has an adapter" if has_adapter(model) else "it has no list of its layers"
        raise ConfigError(f"backbone.layers: this model cannot be cut ({why}); leave it null")
    del lists[0][layers:]
    for key, value in shortened(plain, layers).items():
        if value != plain[key]:
            setattr(config, key, value)


_DECODERS = ("llama", "mistral", "qwen2", "qwen3")  # whose masks follow `is_causal` of the configuration


def see_both_ways(model: Any) -> None:
    """Let each token of a decoder see the whole text, in place; what is saved says so.

    Such a model needs training: its weights have never seen what follows a token. Source: BehnamGhader et al.
    2024 (LLM2Vec), arXiv:2404.05961; Li and Li 2023 (BeLLM), arXiv:2311.05296, does so in the last
    layers alone.
    """
    kind = model.config.model_type
    if kind not in _DECODERS:
        raise ConfigError(
            f"backbone.bidirectional: known for {', '.join(_DECODERS)}, and this model is {kind}; leave it "
            "false"
        )
    model.config.is_causal = False
