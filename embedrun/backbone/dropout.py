"""Dropout that is a function of the text: the same in any batch, in any part of it, on any device."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from embedrun.batch import sent
from embedrun.errors import ConfigError

# Multipliers and shifts of MurmurHash3's 32-bit finaliser (Appleby, public domain), as signed numbers.
_STIR = ((16, 0x85EBCA6B - 2**32), (13, 0xC2B2AE35 - 2**32))
_GOLDEN = 0x9E3779B97F4A7C15 - 2**64  # 2^64 / golden ratio: spreads neighbouring numbers
_entered: list["SeededDropout"] = []  # innermost last
_NEXT = "leave training.micro_batch_size and training.seeded_dropout null, and train in one process"


def count_from(number: int) -> None:
    """Give the next dropout of the pass this number; does nothing outside `SeededDropout`.

    For a model that repeats a step as often as the longest text of a pass needs: otherwise the masks of every
    later dropout would depend on the other texts of the pass.
    """
    if _entered:
        _entered[-1]._calls = number - 1


def same_again() -> tuple[AbstractContextManager[object], AbstractContextManager[object]]:
    """Two contexts for a part of a pass: for its computation now, and again in the backward pass.

    In the second, dropout is numbered from where it stands now, so that the same elements are dropped.
    Outside `SeededDropout` both do nothing, and torch's random state, which gradient checkpointing restores,
    decides.
    """
    if not _entered:
        return nullcontext(), nullcontext()
    now = _entered[-1]
    again = SeededDropout(now._seeds, now._device, now._lengths)
    again._calls = now._calls
    return nullcontext(), again


class SeededDropout(TorchFunctionMode):
    r"""Within it, each dropout of a forward pass is decided by the seed of the text.

    Element :math:`(a, b, \ldots)` of text *t* in the *n*-th dropout of the pass is dropped where a hash of
    the seed of *t*, of *n*, and of the place :math:`(a, b, \ldots)` is below the probability. Neither the
    other texts of the pass nor the padding behind the text play a part. So a batch can be encoded in
    parts, twice, or on several processes, with one result; torch's random state is neither used nor moved.

    It reaches `torch.nn.functional.dropout` and the dropout inside `scaled_dot_product_attention`, whatever
    module calls them. The latter is computed step by step then: the fused kernels draw their own numbers.

    `seeds` are int64, ``(texts,)``: the first dimension of every tensor that meets dropout. With `lengths`,
    int64, ``(texts,)``, the texts lie one behind the other instead, so that the first two dimensions are 1
    and the tokens; the same elements are dropped.

    Raises:
        ConfigError: if a tensor's first dimensions are not these, or, at the end, if the model has drawn
            random numbers from torch.
    """

    def __init__(self, seeds: Tensor, device: torch.device, lengths: Tensor | None = None) -> None:
        super().__init__()
        self._seeds = sent(seeds, device)
        self._lengths = None if lengths is None else sent(lengths, device)
        self._device = device
        self._calls = 0
        self._places: dict[tuple[int, int], Tensor] = {}  # hashed, by axis and size

    def __enter__(self) -> "SeededDropout":
        self._before = self._random_state()
        super().__enter__()
        _entered.append(self)
        return self

    def __exit__(self, *failure: Any) -> None:
        _entered.remove(self)
        super().__exit__(*failure)
        if failure[0] is None and not torch.equal(self._before, self._random_state()):
            raise ConfigError(
                "backbone: this model draws its own random numbers, which cannot be repeated text by text; "
                f"{_NEXT}"
            )

    def _random_state(self) -> Tensor:
        cuda = self._device.type == "cuda"
        return torch.cuda.get_rng_state(self._device) if cuda else torch.get_rng_state()

    def __torch_function__(
        self, func: Callable, types: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is functional.dropout or func is torch.dropout:
            return self._dropout(*args, **kwargs)
        if func is functional.scaled_dot_product_attention:
            return self._attention(*args, **kwargs)
        return func(*args, **kwargs)

    def _dropout(
        self, vectors: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Tensor:
        if not training or p == 0:
            return vectors
        dropped = self._dropped(vectors.shape, p)  # the shape of vectors
        return (vectors / (1 - p)).masked_fill(dropped, 0)

    def _attention(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        if dropout_p == 0:
            return functional.scaled_dot_product_attention(
                query, key, value, attn_mask, 0.0, is_causal, scale=scale, enable_gqa=enable_gqa
            )
        if enable_gqa:  # fewer heads of keys than of queries
            groups = query.shape[-3] // key.shape[-3]
            key, value = (part.repeat_interleave(groups, dim=-3) for part in (key, value))
        # Half of the scale on either side, as torch's own: a product of unscaled halves overflows in float16.
        half = math.sqrt(scale or 1 / math.sqrt(query.shape[-1]))
        scores = (query * half) @ (key * half).transpose(-2, -1)  # (texts, heads, tokens, tokens)
        if is_causal:
            attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            scores = scores.masked_fill(~attn_mask, -torch.inf)
        elif attn_mask is not None:
            scores = scores + attn_mask
        # A padding token may see nothing at all, and then softmax is NaN where torch's attention is 0.
        nothing = (scores == -torch.inf).all(dim=-1, keepdim=True)  # (texts, heads, tokens, 1)
        weights = scores.softmax(dim=-1).masked_fill(nothing, 0)  # (texts, heads, tokens, tokens)
        return self._dropout(weights, dropout_p).to(value.dtype) @ value

    def _dropped(self, shape: Sequence[int], p: float) -> Tensor:
        """Which elements are dropped, bool, of this shape."""
        first = [len(self._seeds)] if self._lengths is None else [1, len(self._tokens)]
        if list(shape[: len(first)]) != first:
            raise ConfigError(
                f"backbone: its dropout acts on a tensor of shape {tuple(shape)} in a pass of "
                f"{len(self._seeds)} texts, so the dropout of one text cannot be told from another's; {_NEXT}"
            )
        call = self._call()
        if self._lengths is None:
            return _stirred(self._spread(self._texts + call, shape[1:])) < _threshold(p)
        return (_stirred(self._spread(self._tokens + call, shape[2:], before=2)) < _threshold(p))[None]

    def _call(self) -> int:
        """The hash of the number of the pass's next dropout, from the processor: a device need not wait."""
        self._calls += 1
        return int(_hashed(torch.tensor([self._calls])))

    @cached_property
    def _texts(self) -> Tensor:
        return _hashed(self._seeds)

    @cached_property
    def _tokens(self) -> Tensor:
        """With `lengths`, that of each token's text and of its place in it, ``(tokens,)``."""
        assert self._lengths is not None
        starts = self._lengths.cumsum(0) - self._lengths  # (texts,)
        start = starts.repeat_interleave(self._lengths)  # (tokens,)
        place = torch.arange(len(start), device=start.device) - start  # (tokens,)
        return self._texts.repeat_interleave(self._lengths) + _hashed(place + (1 << 32))

    def _spread(self, mixed: Tensor, places: Sequence[int], before: int = 1) -> Tensor:
        """Numbers of texts, ``(texts,)``, mixed with the place on each further axis, ``(texts, *places)``.

        There are `before` axes before these.
        """
        for key in enumerate(places, before):
            if key not in self._places:
                axis, size = key
                self._places[key] = _hashed(torch.arange(size, device=mixed.device) + (axis << 32))  # (size,)
            # A sum of hashes, which is hashed once more: one addition for each element and axis.
            mixed = mixed.unsqueeze(-1) + self._places[key]
        return mixed


def kept(groups: Sequence[tuple[Tensor, Sequence[int]]], p: float, *, dtype: torch.dtype) -> Tensor:
    """What the dropout of attention weights multiplies them with: 0, or what makes up for it, flat.

    Each group has the positions of its texts, ``(texts,)``, and the shape of the weights of one of them;
    together they are one dropout of the pass. Inside `SeededDropout` it is that of the padded pass.
    """
    if _entered:
        now, mixed = _entered[-1], _entered[-1]._texts + _entered[-1]._call()  # (texts,)
        parts = [_stirred(now._spread(mixed[texts], places)) >= _threshold(p) for texts, places in groups]
        factors = torch.cat([part.flatten() for part in parts]).to(dtype)
    else:
        size = sum(len(texts) * math.prod(places) for texts, places in groups)
        factors = torch.empty(size, dtype=dtype).bernoulli_(1 - p)
    return factors.div_(1 - p)  # (weights,)


def _threshold(p: float) -> int:
    """A 32-bit random number below it is dropped."""
    return round(p * 2**32) - 2**31


def _hashed(wide: Tensor) -> Tensor:
    """64-bit numbers as 32 random bits, int32."""
    spread = (wide + 1) * _GOLDEN
    return _stirred(((spread ^ (spread >> 32)) & 0xFFFFFFFF).sub_(2**31).int())


def _stirred(bits: Tensor) -> Tensor:
    """Every bit of the result depends on every bit given; int32, of the same shape."""
    for shift, factor in _STIR:
        # A right shift drags the sign along; the mask takes it off again.
        bits = (bits ^ ((bits >> shift) & ((1 << (32 - shift)) - 1))) * factor
    return bits ^ ((bits >> 16) & 0xFFFF)
