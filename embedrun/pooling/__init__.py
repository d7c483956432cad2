"""Pooling: token vectors and their mask to one vector a text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from embedrun.config import PoolingConfig, nearest
from embedrun.pooling import tokens

__all__ = ["FIRST_LAST", "HEAD", "LEGACY", "POOLER", "POOLINGS", "Pooling", "problems"]

FIRST_LAST, POOLER, HEAD = "first_last_mean", "pooler", "cls_mlp"

_LAST_LAYER: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cls": tokens.first_token,
    POOLER: tokens.first_token,  # the encoder passes it on to the model's own pooler
    HEAD: tokens.first_token,  # and this to the head
    "mean": tokens.mean_of_tokens,
    "max": tokens.max_of_tokens,
    "last_token": tokens.last_token,
    "weighted_mean": tokens.weighted_mean_of_tokens,
    "cls_last_mean": tokens.first_token_and_mean,
    "cls_max": tokens.first_token_and_max,
}
_PADDED: dict[str, Callable[[Tensor, Tensor, int], Tensor]] = {
    "mean_padded_legacy": tokens.mean_of_padded,
    "cls_last_mean_padded_legacy": tokens.first_token_and_mean_of_padded,
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

    Raises:
        ValueError: for an unknown name, or an option that does not fit it.
    """

    name: str
    first_layer: int | None = None
    padded_to: int | None = None

    def __post_init__(self) -> None:
        if faults := _faults(self.name, self.first_layer, self.padded_to):
            raise ValueError("; ".join(faults))

    @property
    def all_layers(self) -> bool:
        """Whether the vectors of every layer are needed, not only the last one's."""
        return self.name == FIRST_LAST

    @property
    def warning(self) -> str:
        """Why vectors made this way are no good for other uses; empty where they are."""
        if self.name not in LEGACY:
            return ""
        return (
            f"pooling.name={self.name} averages over padding, up to {self.padded_to} tokens a text; it "
            "explains scores of AnglE's first release, and sentence-transformers cannot repeat it"
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
        return (tokens.mean_of_tokens(first, mask) + tokens.mean_of_tokens(last, mask)) / 2  # (texts, dim)


def problems(config: PoolingConfig) -> list[str]:
    """What is wrong with the pooling that a configuration asks for."""
    # `auto` is a pooling without options: the model's files have their own.
    name = "mean" if config.name == "auto" else config.name
    faults = _faults(name, config.first_layer, config.padded_to)
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
