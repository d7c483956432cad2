"""One vector a text from the vectors of its tokens, wherever the padding stands.

The arguments are the same everywhere: `tokens`, ``(texts, tokens, dim)``, and `mask`, ``(texts, tokens)``, 1
for a real token and 0 for padding, with at least one 1 a text. The vectors are float32 or wider,
``(texts, dim)``.
"""

import torch
from torch import Tensor


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
    """The mean over a text's real tokens and as much of the padding next to them as fills it to `padded_to`.

    A text of more tokens than that has the mean over its real tokens.

    Raises:
        ValueError: if there is less padding than that.
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
    return widen(tokens[torch.arange(len(tokens), device=tokens.device), place])  # (texts, dim)


def _weighted(tokens: Tensor, weights: Tensor) -> Tensor:
    """The mean with these weights, ``(texts, tokens)``, summed in float32 or wider."""
    wide = widen(tokens)  # (texts, tokens, dim)
    weight = weights.unsqueeze(-1).to(wide.dtype)  # (texts, tokens, 1)
    return (wide * weight).sum(dim=1) / weight.sum(dim=1)  # (texts, dim)
