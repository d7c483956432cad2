"""Pooling: token vectors and their mask to one vector a text.

The arguments are the same everywhere: `tokens`, ``(texts, tokens, dim)``, and `mask`, ``(texts, tokens)``, 1
for a real token and 0 for padding, with at least one 1 a text. The vectors are float32 or wider,
``(texts, dim)``. Behind some of them stands a layer: BERT's pooler, or the head that is mostly used in
training alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from embedrun.config import PoolingConfig, nearest
from embedrun.errors import ConfigError, DataError
from embedrun.files import Plain

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def widen(vectors: Tensor) -> Tensor:
    """Half-precision vectors as float32; float32 and float64 as they are."""
    return vectors if vectors.dtype == torch.float64 else vectors.float()


def first_token(tokens: Tensor, mask: Tensor) -> Tensor:
    """The vector of the first real token."""
    return _pick(tokens, _first(mask))


def last_token(tokens: Tensor, mask: Tensor) -> Tensor:
    """The vector of the last real token."""
    return _pick(tokens, _last(mask))


def mean_of_tokens(tokens: Tensor, mask: Tensor) -> Tensor:
    """The mean over real tokens."""
    return _weighted(tokens, mask)


def weighted_mean_of_tokens(tokens: Tensor, mask: Tensor) -> Tensor:
    """The mean over real tokens, the first with weight 1, the second with weight 2 and so on."""
    return _weighted(tokens, mask.cumsum(dim=1) * mask)


def max_of_tokens(tokens: Tensor, mask: Tensor) -> Tensor:
    """The largest value of each dimension over real tokens."""
    padding = mask.unsqueeze(-1) == 0  # (texts, tokens, 1)
    return widen(tokens).masked_fill(padding, -torch.inf).max(dim=1).values  # (texts, dim)


def first_token_and_mean(tokens: Tensor, mask: Tensor) -> Tensor:
    """Half the first token's vector, half the mean."""
    return (first_token(tokens, mask) + mean_of_tokens(tokens, mask)) / 2  # (texts, dim)


def first_token_and_max(tokens: Tensor, mask: Tensor) -> Tensor:
    """Half the first token's vector, half the largest values."""
    return (first_token(tokens, mask) + max_of_tokens(tokens, mask)) / 2  # (texts, dim)


def mean_of_padded(tokens: Tensor, mask: Tensor, padded_to: int) -> Tensor:
    """The mean over a text's real tokens and as much of the adjacent padding as fills it to `padded_to`.

    A text of more tokens than that has the mean over its real tokens; less padding than that is a ValueError.
    """
    columns = tokens.shape[1]
    if columns < padded_to:
        raise ValueError(f"texts padded to {columns} tokens have no mean over {padded_to}")
    place = torch.arange(columns, device=mask.device)  # (tokens,)
    count = mask.sum(dim=1, keepdim=True)  # (texts, 1)
    before, behind = _first(mask)[:, None] - place, place - _last(mask)[:, None]  # (texts, tokens) each
    away = torch.maximum(before, behind).clamp(min=0)  # (texts, tokens), from the nearest real token
    return _weighted(tokens, (away == 0) | (count + away <= padded_to))


def first_token_and_mean_of_padded(tokens: Tensor, mask: Tensor, padded_to: int) -> Tensor:
    """Half the first token's vector, half the mean over padding too."""
    return (first_token(tokens, mask) + mean_of_padded(tokens, mask, padded_to)) / 2  # (texts, dim)


def _first(mask: Tensor) -> Tensor:
    return mask.int().argmax(dim=1)  # (texts,); argmax gives the first of equal values


def _last(mask: Tensor) -> Tensor:
    return mask.shape[1] - 1 - _first(mask.flip(1))  # (texts,)


def _pick(tokens: Tensor, place: Tensor) -> Tensor:
    return widen(tokens[torch.arange(tokens.shape[0], device=tokens.device), place])  # (texts, dim)


def _weighted(tokens: Tensor, weights: Tensor) -> Tensor:
    """The mean with these weights, ``(texts, tokens)``, summed in float32 or wider."""
    wide = widen(tokens)  # (texts, tokens, dim)
    weight = weights.unsqueeze(-1).to(wide.dtype)  # (texts, tokens, 1)
    return (wide * weight).sum(dim=1) / weight.sum(dim=1)  # (texts, dim)


SKIPPING = ("mean", "weighted_mean", "max")  # poolings that can leave the tokens of a prompt out
FIRST_LAST, POOLER, HEAD = "first_last_mean", "pooler", "cls_mlp"

_LAST_LAYER: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cls": first_token,
    POOLER: first_token,  # the encoder passes it on to the model's own pooler
    HEAD: first_token,  # and this to the head
    "mean": mean_of_tokens,
    "max": max_of_tokens,
    "last_token": last_token,
    "weighted_mean": weighted_mean_of_tokens,
    "cls_last_mean": first_token_and_mean,
    "cls_max": first_token_and_max,
}
_PADDED: dict[str, Callable[[Tensor, Tensor, int], Tensor]] = {
    "mean_padded_legacy": mean_of_padded,
    "cls_last_mean_padded_legacy": first_token_and_mean_of_padded,
}
LEGACY = tuple(_PADDED)
POOLINGS = (*_LAST_LAYER, FIRST_LAST, *LEGACY)


@dataclass(frozen=True)
class Pooling:
    r"""One way to make a vector of a text from its token vectors.

    With :math:`h^l_t` the vector of real token *t* after layer *l* (layer 0: the embedding layer),
    *L* the last layer, *T* the number of real tokens and :math:`\bar h^l = \frac1T \sum_t h^l_t`:

    - ``cls``: :math:`h^L_1`, without BERT's pooler
    - ``pooler``: :math:`\tanh(W h^L_1 + b)` with the model's own pooler (Devlin et al. 2019,
      arXiv:1810.04805)
    - ``cls_mlp``: the same with a layer that training alone has, unless it is kept (Gao et al. 2021,
      arXiv:2104.08821; ArcCSE)
    - ``mean``: :math:`\bar h^L` (Reimers & Gurevych 2019, arXiv:1908.10084)
    - ``max``: :math:`\max_t h^L_t`, each dimension by itself (same source)
    - ``last_token``: :math:`h^L_T`
    - ``weighted_mean``: :math:`\sum_t t\,h^L_t / \sum_t t` (Muennighoff 2022, arXiv:2202.08904)
    - ``cls_last_mean``: :math:`(h^L_1 + \bar h^L) / 2`; AnglE's code calls it ``cls_avg``
    - ``cls_max``: :math:`(h^L_1 + \max_t h^L_t) / 2`. AnglE's code multiplies by the mask before the maximum,
      so that a text with padding counts one vector of zeros more; here it does not
    - ``first_last_mean``: :math:`(\bar h^f + \bar h^L) / 2` (Su et al. 2021, arXiv:2103.15316)
    - ``mean_padded_legacy``: :math:`\frac1P \sum_{t \le P} h^L_t`, with the vectors of padding tokens, which
      the others do not attend to, at the places *T* + 1 to *P*
    - ``cls_last_mean_padded_legacy``: half of that and half :math:`h^L_1`

    Published code differs in which layer is the first, 0 or 1, and scores differ by points with it,
    so `first_layer` has no default.

    The last two explain the numbers published with AnglE's first release (0.1.1), whose ``avg`` and
    ``cls_avg`` they are. Departure from it: there *P* is the length of the longest text of the batch at hand,
    so that a text has another vector in another batch. Here it is :math:`P = \max(T, \text{padded\_to})` for
    every text, and its vector a function of the text and of `padded_to` alone.

    The layer and ``tanh`` are the encoder's part; here ``pooler`` and ``cls_mlp`` are ``cls``. All but the
    last two give one vector whichever side the padding stands on. Those two count the padding next to the
    text, on either side, but what a model computes there depends on the side: AnglE's first release pads
    BERT on the right, as embedrun pads every model.

    Args:
        name: one of `POOLINGS`.
        first_layer: *f* above, 0 or 1; ``first_last_mean`` needs it, the others refuse it.
        padded_to: tokens; the two ``_legacy`` poolings need it, the others refuse it.
        skip_prompt: leave out the tokens up to the text, of ``mean``, ``weighted_mean`` and ``max``.

    Raises:
        ValueError: for an unknown name, or an option that does not fit it.
    """

    name: str
    first_layer: int | None = None
    padded_to: int | None = None
    skip_prompt: bool = False

    def __post_init__(self) -> None:
        if faults := _faults(self.name, self.first_layer, self.padded_to):
            raise ValueError("; ".join(faults))

    @property
    def all_layers(self) -> bool:
        """Whether the vectors of every layer are needed, not only the last one's."""
        return self.name == FIRST_LAST

    @property
    def warning(self) -> str:
        """Why vectors made this way are unsuitable for other uses; empty where they are suitable."""
        if self.name not in LEGACY:
            return ""
        return (
            f"pooling.name={self.name} averages over padding, up to {self.padded_to} tokens a text; it "
            "explains scores of AnglE's first release, and sentence-transformers has no such pooling"
        )

    def __call__(self, layers: Sequence[Tensor], mask: Tensor) -> Tensor:
        """One vector a text, ``(texts, dim)``, float32 or wider.

        Args:
            layers: ``(texts, tokens, dim)`` each: the embedding layer's and every layer's output if
                `all_layers`, else the last layer's alone. Of at least `padded_to` tokens, if that is given.
            mask: 1 for a real token and 0 for padding, ``(texts, tokens)``; at least one 1 a text.
        """
        if self.padded_to is not None:
            return _PADDED[self.name](layers[-1], mask, self.padded_to)
        if self.first_layer is None:
            return _LAST_LAYER[self.name](layers[-1], mask)
        first, last = layers[self.first_layer], layers[-1]
        return (mean_of_tokens(first, mask) + mean_of_tokens(last, mask)) / 2  # (texts, dim)


@dataclass(frozen=True)
class OfLayers:
    """The pooling of several layers, side by side: of every so many inner ones, and last of the last."""

    pooling: Pooling
    every: int
    all_layers = True

    @property
    def padded_to(self) -> int | None:
        """As of the pooling."""
        return self.pooling.padded_to

    @property
    def skip_prompt(self) -> bool:
        """As of the pooling."""
        return self.pooling.skip_prompt

    def __call__(self, layers: Sequence[Tensor], mask: Tensor) -> Tensor:
        """One vector a text and layer, ``(texts, layers * dim)``; arguments as of `Pooling`."""
        last = len(layers) - 1
        places = [*range(self.every, last, self.every), last]
        return torch.cat([self.pooling(layers[: place + 1], mask) for place in places], dim=-1)


def problems(config: PoolingConfig) -> list[str]:
    """What is wrong with the pooling that a configuration asks for."""
    # `auto` is a pooling without options: the model's files have their own.
    name = "mean" if config.name == "auto" else config.name
    faults = _faults(name, config.first_layer, config.padded_to)
    if config.skip_prompt and name not in SKIPPING:
        faults.append(
            f"pooling.skip_prompt: only pooling.name={', '.join(SKIPPING)} can leave tokens out, got {name}"
        )
    if name in POOLINGS and name != HEAD and config.keep_head:
        faults.append(f"pooling.keep_head: only pooling.name={HEAD} has a head, got true; leave it false")
    return faults


def _faults(name: str, first_layer: int | None, padded_to: int | None) -> list[str]:
    if name not in POOLINGS:
        accepted = ", ".join(("auto", *POOLINGS))
        return [f"pooling.name: no pooling {name!r}{nearest(name, POOLINGS)} (accepted: {accepted})"]
    return _layer_faults(name, first_layer) + _width_faults(name, padded_to)


def _layer_faults(name: str, first_layer: int | None) -> list[str]:
    if name == FIRST_LAST and first_layer not in (0, 1):
        return [
            "pooling.first_layer: first_last_mean needs 0 (the embedding layer) or 1 (the first "
            f"transformer layer), got {first_layer}"
        ]
    if name != FIRST_LAST and first_layer is not None:
        return [
            f"pooling.first_layer: only pooling.name={FIRST_LAST} has one, got {first_layer}; leave it null"
        ]
    return []


def _width_faults(name: str, padded_to: int | None) -> list[str]:
    if name in LEGACY and (padded_to is None or padded_to < 1):
        return [f"pooling.padded_to: {name} needs a number of tokens, at least 1, got {padded_to}"]
    if name not in LEGACY and padded_to is not None:
        return [
            f"pooling.padded_to: only pooling.name={' and '.join(LEGACY)} average over padding, "
            f"got {padded_to}; leave it null"
        ]
    return []


_OTHER_STREAM = 2**31  # above every seed of a run: no other weight is drawn from the same numbers


def behind(layer: nn.Linear, vectors: Tensor) -> Tensor:
    r"""The layer's output :math:`\tanh(W v + b)`, ``(texts, dim)``, float32 or wider under any autocast."""
    # In half precision the layer would round the vectors just before the losses, and save next to no time.
    with torch.autocast(vectors.device.type, enabled=False):
        return torch.tanh(layer(vectors.to(layer.weight.dtype)))  # (texts, dim)


ACTIVATIONS = {"Identity": nn.Identity, "Tanh": nn.Tanh, "ReLU": nn.ReLU, "GELU": nn.GELU}


class Dense(nn.Module):
    """A linear layer behind the pooling and its activation, as of sentence-transformers; never trained here.

    Args:
        linear: from pooled vectors.
        activation: a name of `ACTIVATIONS`.
    """

    def __init__(self, linear: nn.Linear, activation: str) -> None:
        super().__init__()
        self.linear, self.activation = linear.requires_grad_(False), activation
        self.function = ACTIVATIONS[activation]()

    def forward(self, vectors: Tensor) -> Tensor:
        """``(..., out)`` of vectors ``(..., in)``, float32 or wider under any autocast."""
        with torch.autocast(vectors.device.type, enabled=False):
            return self.function(self.linear(vectors.to(self.linear.weight.dtype)))


def read_dense(folder: Path, config: Plain, activation: str, *, dim: int) -> Dense:
    """The `Dense` module in a folder, for vectors of length `dim`; `config` is its `config.json`."""
    path = folder / "model.safetensors"
    try:
        tensors = {name.removeprefix("linear."): one.float() for name, one in load_file(path).items()}
        linear = nn.Linear(dim, config["out_features"], bias="bias" in tensors)
        linear.load_state_dict(tensors)
    except Exception as fault:  # a damaged file, or one of another shape, fails in any way
        why = " ".join(str(fault).split())[:200]
        raise DataError(f"{path}: not a layer for {dim} dimensions: {why}") from fault
    return Dense(linear, activation)


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
    """The layer in the folder of a `Dense` module of sentence-transformers, for vectors of length `dim`."""
    path = folder / "model.safetensors"
    try:
        tensors = load_file(path)
    except Exception as fault:  # a damaged file fails in any way
        raise DataError(f"{path}: not readable as weights: {str(fault).splitlines()[0]}") from fault
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if shapes != {"linear.weight": (dim, dim), "linear.bias": (dim,)}:
        raise DataError(f"{path}: not a layer from {dim} to {dim} dimensions with a bias: {shapes}")
    layer = _empty(dim)
    layer.load_state_dict({name.removeprefix("linear."): tensor.float() for name, tensor in tensors.items()})
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
