"""The size of a model of any family, from its shapes alone: no weights are made or read."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from embedrun.backbone.size import Linear, Size


def measured(config: Mapping[str, Any]) -> Size:
    """The size of the model that a `config.json` describes, built of tensors without content.

    Args:
        config: of any model that transformers knows, or a RAN.

    Raises:
        ValueError: for a `model_type` that transformers does not know.
    """
    from transformers import AutoConfig, AutoModel

    from embedrun.backbone import ran  # noqa: F401, transformers knows RAN by it

    shape = AutoConfig.for_model(**{"model_type": "", **config})
    with torch.device("meta"):
        model = AutoModel.from_config(shape)
    linear = tuple(
        Linear(name, module.in_features, module.out_features, module.bias is not None)
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and not name.startswith("pooler.")
    )
    pooler = getattr(model, "pooler", None)
    beside = sum(weight.numel() for weight in pooler.parameters()) if isinstance(pooler, nn.Module) else 0
    every = sum(weight.numel() for weight in model.parameters())
    width = shape.hidden_size
    return Size(
        depth=getattr(shape, "num_hidden_layers", 1),
        copies=1,
        linear=linear,
        norms=0,
        embeddings=every - beside - sum(one.weights for one in linear),
        pooler=beside,
        width=width,
        heads=getattr(shape, "num_attention_heads", 1),
        intermediate=getattr(shape, "intermediate_size", 4 * width),
        gated=False,
        positions=getattr(shape, "max_position_embeddings", 0) or 0,
    )
