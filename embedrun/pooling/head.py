"""The layer behind a pooled vector: BERT's pooler, or the head that is mostly used in training alone."""

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from embedrun.errors import ConfigError, DataError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_OTHER_STREAM = 2**31  # above every seed of a run: no other weight is drawn from the same numbers


def behind(layer: nn.Linear, vectors: Tensor) -> Tensor:
    r"""The layer's output :math:`\tanh(W v + b)`, ``(texts, dim)``, float32 or wider under any autocast."""
    # In half precision the layer would round the vectors just before the losses, and save next to no time.
    with torch.autocast(vectors.device.type, enabled=False):
        return torch.tanh(layer(vectors.to(layer.weight.dtype)))  # (texts, dim)


def new_head(model: "PreTrainedModel", *, seed: int) -> nn.Linear:
    """A new layer of unsupervised SimCSE and ArcCSE: normal weights, zero biases.

    Source: Gao et al. 2021, arXiv:2104.08821, whose code initialises it as the model initialises any layer:
    for BERT with a standard deviation of 0.02. Width and deviation are the model's. `seed`, 0 to 2^31 - 1,
    decides the weights; the global random state plays no part.
    """
    layer = _empty(model.config.hidden_size)
    random = torch.Generator().manual_seed(seed + _OTHER_STREAM)
    with torch.no_grad():
        layer.weight.normal_(std=getattr(model.config, "initializer_range", 0.02), generator=random)
        layer.bias.zero_()
    return layer


def read_head(folder: Path, *, dim: int) -> nn.Linear:
    """The layer in the folder of a `Dense` module of sentence-transformers, for vectors of length `dim`.

    Raises:
        DataError: if its weights are not readable or do not fit.
    """
    path = folder / "model.safetensors"
    try:
        found = load_file(path)
    except Exception as fault:  # a damaged file fails in any way
        raise DataError(f"{path}: not readable as weights: {str(fault).splitlines()[0]}") from fault
    shapes = {name: tuple(tensor.shape) for name, tensor in found.items()}
    if shapes != {"linear.weight": (dim, dim), "linear.bias": (dim,)}:
        raise DataError(f"{path}: not a layer from {dim} to {dim} dimensions with a bias: {shapes}")
    layer = _empty(dim)
    layer.load_state_dict({name.removeprefix("linear."): tensor.float() for name, tensor in found.items()})
    return layer


def pooler_layer(model: "PreTrainedModel") -> nn.Linear:
    """The layer of a model's own pooler; ConfigError if it is not like BERT's, or its weights are missing."""
    kind = model.config.model_type
    pooler = getattr(model, "pooler", None)
    layer = getattr(pooler, "dense", None)
    if not isinstance(layer, nn.Linear) or not isinstance(getattr(pooler, "activation", None), nn.Tanh):
        raise ConfigError(
            f"pooling.name: this model ({kind}) has no pooler like BERT's, one layer and tanh; choose "
            "pooling=cls, or pooling=cls_mlp for a new layer"
        )
    if getattr(pooler, "is_random", False):
        raise ConfigError(
            "pooling.name: the model's files lack the weights of its pooler, which would be random; choose "
            "pooling=cls, or pooling=cls_mlp for a new layer"
        )
    return layer


def _empty(dim: int) -> nn.Linear:
    # On no device first: the usual initial weights would be drawn from the global random state.
    return nn.Linear(dim, dim, device="meta").to_empty(device="cpu")
