"""Token vectors and their mask to one vector a text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from embedrun.config import PoolingConfig, nearest

FIRST_LAST = "first_last_mean"


def widen(vectors: Tensor) -> Tensor:
    """Half-precision vectors as float32; float32 and float64 as they are."""
    return vectors if vectors.dtype == torch.float64 else vectors.float()


def first_token(tokens: Tensor, mask: Tensor) -> Tensor:
    """The vector of the first real token, wherever the padding stands.

    Args:
        tokens: ``(texts, tokens, dim)``.
        mask: 1 for a real token and 0 for padding, ``(texts, tokens)``.
    """
    place = mask.int().argmax(dim=1)  # (texts,); argmax gives the first of equal values
    return widen(tokens[torch.arange(len(tokens), device=tokens.device), place])  # (texts, dim)


def mean_of_tokens(tokens: Tensor, mask: Tensor) -> Tensor:
    """The mean over real tokens, summed in float32 or wider. Arguments as in `first_token`."""
    wide = widen(tokens)  # (texts, tokens, dim)
    weight = mask.unsqueeze(-1).to(wide.dtype)  # (texts, tokens, 1)
    return (wide * weight).sum(dim=1) / weight.sum(dim=1)  # (texts, dim)


def max_of_tokens(tokens: Tensor, mask: Tensor) -> Tensor:
    """The largest value of each dimension over real tokens. Arguments as in `first_token`."""
    padding = mask.unsqueeze(-1) == 0  # (texts, tokens, 1)
    return widen(tokens).masked_fill(padding, -torch.inf).max(dim=1).values  # (texts, dim)


def first_token_and_mean(tokens: Tensor, mask: Tensor) -> Tensor:
    """Half the first token's vector, half the mean. Arguments as in `first_token`."""
    return (first_token(tokens, mask) + mean_of_tokens(tokens, mask)) / 2  # (texts, dim)


_LAST_LAYER: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cls": first_token,
    "mean": mean_of_tokens,
    "max": max_of_tokens,
    "cls_last_mean": first_token_and_mean,
}
POOLINGS = (*_LAST_LAYER, FIRST_LAST)


@dataclass(frozen=True)
class Pooling:
    r"""One way to make a vector of a text from its token vectors.

    With :math:`h^l_t` the vector of real token *t* after layer *l* (layer 0: the embedding layer),
    *L* the last layer, *T* the number of real tokens and :math:`\bar h^l = \frac1T \sum_t h^l_t`:

    - ``cls``: :math:`h^L_1`
    - ``mean``: :math:`\bar h^L` (Reimers & Gurevych 2019, arXiv:1908.10084)
    - ``max``: :math:`\max_t h^L_t`, each dimension by itself (same source)
    - ``cls_last_mean``: :math:`(h^L_1 + \bar h^L) / 2`; AnglE's code calls it ``cls_avg``
    - ``first_last_mean``: :math:`(\bar h^f + \bar h^L) / 2` (Su et al. 2021, arXiv:2103.15316)

    Published code differs in which layer is the first, 0 or 1, and scores differ by points with it,
    so `first_layer` has no default. :math:`h^L_1` is the token vector itself, without BERT's pooler.

    Args:
        name: one of `POOLINGS`.
        first_layer: *f* above, 0 or 1; ``first_last_mean`` needs it, the others refuse it.

    Raises:
        ValueError: for an unknown name, or a `first_layer` that does not fit it.
    """

    name: str
    first_layer: int | None = None

    def __post_init__(self) -> None:
        if faults := _faults(self.name, self.first_layer):
            raise ValueError("; ".join(faults))

    @property
    def all_layers(self) -> bool:
        """Whether the vectors of every layer are needed, not only the last one's."""
        return self.name == FIRST_LAST

    def __call__(self, layers: Sequence[Tensor], mask: Tensor) -> Tensor:
        """One vector a text, ``(texts, dim)``, float32 or wider.

        Args:
            layers: ``(texts, tokens, dim)`` each: the embedding layer's and every layer's output if
                `all_layers`, else the last layer's alone.
            mask: 1 for a real token and 0 for padding, ``(texts, tokens)``; at least one 1 a text.
        """
        if self.first_layer is None:
            return _LAST_LAYER[self.name](layers[-1], mask)
        first, last = layers[self.first_layer], layers[-1]
        return (mean_of_tokens(first, mask) + mean_of_tokens(last, mask)) / 2  # (texts, dim)


def problems(config: PoolingConfig) -> list[str]:
    """What is wrong with the pooling that a configuration asks for."""
    if config.name == "auto":
        return _faults("mean", config.first_layer)
    return _faults(config.name, config.first_layer)


def _faults(name: str, first_layer: int | None) -> list[str]:
    if name not in POOLINGS:
        accepted = ", ".join(("auto", *POOLINGS))
        return [f"pooling.name: no pooling {name!r}{nearest(name, POOLINGS)} (accepted: {accepted})"]
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
