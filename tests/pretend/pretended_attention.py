"""Attention of the simulated CUDA device: which kernel torch would choose, and what it gives.

A torch built for processors has none of CUDA's fused attention, only the names of the operators with their
shapes and formulas of autograd. Here stand their results, computed plainly in float32 where the device has
values:

    weights = softmax(scale * query key^T + bias),   out = (weights * kept / (1 - p)) value

The mask of dropout follows a seed that the forward pass hands to the backward pass as its random state.
"""

import contextlib
import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.overrides import handle_torch_function

aten = torch.ops.aten
_HALF = (torch.bfloat16, torch.float16)


def arguments(operator: Any, args: tuple, kwargs: dict) -> SimpleNamespace:
    """The arguments of a call by the operator's own names, with its defaults."""
    schema = operator._schema.arguments
    named = {item.name: item.default_value for item in schema if item.has_default_value()}
    named |= {item.name: value for item, value in zip(schema, args, strict=False)}
    return SimpleNamespace(**named | kwargs)


def chosen_kernel(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float) -> str:
    """The kernel that `scaled_dot_product_attention` takes on a Hopper GPU with cuDNN 9.15 or later.

    The rules are those of aten/src/ATen/native/transformers/cuda/sdp_utils.cpp of torch 2.13, as far as our
    calls reach.
    """
    cuda = torch.backends.cuda
    half, width = query.dtype in _HALF, query.shape[-1]
    contiguous = all(part.stride(-1) == 1 for part in (query, key, value))
    by_cudnn = (
        cuda.cudnn_sdp_enabled()
        and half
        and contiguous
        and not torch.are_deterministic_algorithms_enabled()
        and (dropout * 16) % 1 == 0
        and width % 8 == 0
        and width <= 128
        and key.shape[2] != 1
        and (mask is None or mask.dim() in (2, 4))
    )
    if by_cudnn:
        return "cudnn"
    by_flash = cuda.flash_sdp_enabled() and half and contiguous and mask is None and width <= 256
    if by_flash and query.shape[2] and key.shape[2]:
        return "flash"
    aligned = width % (8 if half else 4) == 0 and query.dtype != torch.float64
    return "efficient" if cuda.mem_efficient_sdp_enabled() and aligned and contiguous else "math"


class Attention:
    """Stands for the choice inside `scaled_dot_product_attention`, which a torch for processors leaves out.

    It takes the function's place, not that of a mode: torch's engine does not carry function modes into the
    thread that computes a layer again whose activations were not kept.

    Args:
        note: is told which kernel a call takes, and in which type.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._plain = torch.nn.functional.scaled_dot_product_attention

    def install(self) -> None:
        """Take the place of torch's function."""

        def attention(query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Any:
            if torch._C._is_torch_function_mode_enabled():  # seeded dropout, which must see the call
                return handle_torch_function(
                    attention, (query, key, value), query, key, value, *args, **kwargs
                )
            return (self._attend if query.is_cuda else self._plain)(query, key, value, *args, **kwargs)

        torch.nn.functional.scaled_dot_product_attention = attention

    def _attend(
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
        if torch.is_autocast_enabled("cuda"):  # the function is on autocast's list of 16 bits
            dtype = torch.get_autocast_dtype("cuda")
            query, key, value = (part.to(dtype) for part in (query, key, value))
            if attn_mask is not None and attn_mask.is_floating_point():
                attn_mask = attn_mask.to(dtype)
        if not query.dtype == key.dtype == value.dtype:
            types = f"{query.dtype}, {key.dtype}, {value.dtype}"
            raise RuntimeError(f"Expected query, key, and value to have the same dtype, but got {types}")
        if enable_gqa and key.shape[1] != query.shape[1]:
            key, value = (part.repeat_interleave(query.shape[1] // part.shape[1], 1) for part in (key, value))
        kernel = chosen_kernel(query, key, value, attn_mask, dropout_p)
        self._note(f"{kernel}, {str(query.dtype).removeprefix('torch.')}")
        with torch.autocast("cuda", enabled=False):
            mask = None if attn_mask is None else _bias(attn_mask, query, key, kernel)
            return _call(kernel, query, key, value, mask, dropout_p, is_causal, scale)


def _bias(mask: Tensor, query: Tensor, key: Tensor, kernel: str) -> Tensor:
    """The mask as a bias of the scores, ``(texts, heads, queries, keys)``, as torch makes it."""
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill_(~mask, -math.inf)
    keys = mask.shape[-1]
    if kernel == "efficient" and keys % 16:  # which reads rows of whole blocks
        mask = torch.nn.functional.pad(mask, (0, 16 - keys % 16))[..., :keys]
    return mask.expand(*query.shape[:3], key.shape[2])


def _call(
    kernel: str,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout: float,
    causal: bool,
    scale: float | None,
) -> Tensor:
    grad = torch.is_grad_enabled() and any(part.requires_grad for part in (query, key, value))
    three = (query, key, value)
    if kernel == "cudnn":
        call = aten._scaled_dot_product_cudnn_attention
        return call(*three, mask, grad, dropout, causal, False, scale=scale)[0]
    if kernel == "flash":
        return aten._scaled_dot_product_flash_attention(*three, dropout, causal, False, scale=scale)[0]
    if kernel == "efficient":
        call = aten._scaled_dot_product_efficient_attention
        return call(*three, mask, grad, dropout, causal, scale=scale)[0]
    root = math.sqrt(scale or query.shape[-1] ** -0.5)
    scores = (query * root) @ (key * root).mT
    if causal:
        past = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~past, -math.inf)
    scores = scores if mask is None else scores + mask
    return torch.nn.functional.dropout(scores.softmax(-1), dropout) @ value


def _weights(
    query: Tensor, key: Tensor, bias: Tensor | None, call: SimpleNamespace, seed: int
) -> tuple[Tensor, Tensor, float]:
    """Weights ``(..., heads, queries, keys)``, what dropout multiplies them by, and the scores' scale."""
    scale = call.scale or query.shape[-1] ** -0.5
    scores = query.float() @ key.float().mT * scale
    if call.is_causal:
        past = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = scores.masked_fill(~past, -math.inf)
    if bias is not None:
        scores = scores + bias.float()
    weights = scores.softmax(-1).nan_to_num()  # a row that sees nothing has weights of 0
    dropout = getattr(call, "dropout_p", 0.0)
    if not dropout:
        return weights, torch.ones(()), scale
    generator = torch.Generator().manual_seed(seed)
    return (
        weights,
        torch.empty(weights.shape).bernoulli_(1 - dropout, generator=generator) / (1 - dropout),
        scale,
    )


def _forward(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, call: SimpleNamespace, seed: int
) -> Tensor:
    groups = query.shape[-3] // key.shape[-3]
    key, value = (part.repeat_interleave(groups, -3) for part in (key, value))
    weights, factor, _ = _weights(query, key, bias, call, seed)
    return ((weights * factor) @ value.float()).to(query.dtype)


def _backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    call: SimpleNamespace,
    seed: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, key and value; a head of keys sums over the heads of queries that share it."""
    groups = query.shape[-3] // key.shape[-3]
    keys, values = (part.repeat_interleave(groups, -3).float() for part in (key, value))
    weights, factor, scale = _weights(query, keys, bias, call, seed)
    grad = grad.float()
    to_value = (weights * factor).mT @ grad
    to_weights = grad @ values.mT * factor
    to_scores = weights * (to_weights - (to_weights * weights).sum(-1, keepdim=True)) * scale
    to_key = to_scores.mT @ query.float()
    shared = (to_key.unflatten(-3, (-1, groups)).sum(-3), to_value.unflatten(-3, (-1, groups)).sum(-3))
    return (to_scores @ keys).to(query.dtype), shared[0].to(key.dtype), shared[1].to(value.dtype)


def _seed(device: Any, call: SimpleNamespace) -> Tensor:
    """Of the mask of dropout; without dropout the device's random numbers stay where they are."""
    if not getattr(call, "dropout_p", 0.0):
        return torch.zeros((), dtype=torch.int64)
    return torch.randint(2**31, (), generator=device.generator)


def _fused(device: Any, call: SimpleNamespace) -> tuple[Tensor, Tensor, Tensor]:
    """Result, logarithms of the sums (which nothing here reads) and seed."""
    seed = _seed(device, call)
    bias = getattr(call, "attn_bias", None)
    out = _forward(call.query, call.key, call.value, bias, call, int(seed))
    return out, torch.zeros(call.query.shape[:-1]), seed


def _efficient(device: Any, call: SimpleNamespace) -> tuple:
    return *_fused(device, call), torch.zeros((), dtype=torch.int64)


def _flash(device: Any, call: SimpleNamespace) -> tuple:
    out, sums, seed = _fused(device, call)
    none = torch.empty(0, dtype=torch.int64)
    lengths = (call.query.shape[-2], call.key.shape[-2])
    return out, sums, none, none, *lengths, seed, torch.zeros((), dtype=torch.int64), torch.empty(0)


def _fused_backward(_: Any, call: SimpleNamespace) -> tuple[Tensor, Tensor, Tensor]:
    grad = call.grad_out if hasattr(call, "grad_out") else call.grad_out_
    bias = getattr(call, "attn_bias", None)
    return _backward(grad, call.query, call.key, call.value, bias, call, int(call.philox_seed))


def _efficient_backward(device: Any, call: SimpleNamespace) -> tuple:
    return *_fused_backward(device, call), torch.empty(0)


def _texts(call: SimpleNamespace) -> list[SimpleNamespace]:
    """The parts of a call over texts one behind the other, each as ``(heads, tokens, dim)`` of its text."""
    ends = call.cum_seq_q.tolist()
    assert call.cum_seq_q.dtype == torch.int32
    assert ends[-1] == len(call.query)
    assert call.max_q == max(end - start for start, end in pairwise(ends))
    left, right = call.window_size_left, call.window_size_right
    parts = []
    for start, end in pairwise(ends):
        far = torch.arange(end - start)[None] - torch.arange(end - start)[:, None]  # (queries, keys)
        unseen = (far > right if right >= 0 else False) | (
            far < -left if left >= 0 else torch.zeros_like(far).bool()
        )
        bias = torch.zeros(far.shape).masked_fill_(unseen, -math.inf)
        sides = {side: getattr(call, side)[start:end].transpose(0, 1) for side in ("query", "key", "value")}
        parts.append(SimpleNamespace(**{**vars(call), **sides, "bias": bias, "is_causal": False}))
    return parts


def _flash_texts(device: Any, call: SimpleNamespace) -> tuple:
    seed = _seed(device, call)
    found = [
        _forward(part.query, part.key, part.value, part.bias, part, int(seed) + place).transpose(0, 1)
        for place, part in enumerate(_texts(call))
    ]
    state, unused = seed.to(torch.uint64).repeat(2), torch.zeros((), dtype=torch.uint64)
    sums = torch.zeros(call.query.shape[1], len(call.query))
    return torch.cat(found), sums, state, unused, torch.empty(0)


def _flash_texts_backward(_: Any, call: SimpleNamespace) -> tuple[Tensor, ...]:
    starts = call.cum_seq_q.tolist()
    found = [
        _backward(
            call.grad_out[start:end].transpose(0, 1),
            part.query, part.key, part.value, part.bias, part, int(call.rng_state[0]) + place,
        )
        for place, (part, (start, end)) in enumerate(zip(_texts(call), pairwise(starts), strict=True))
    ]  # fmt: skip
    grads = [torch.cat([part.transpose(0, 1) for part in side]) for side in zip(*found, strict=True)]
    sides = (call.query, call.key, call.value)
    return tuple(torch.empty_like(side).copy_(grad) for side, grad in zip(sides, grads, strict=True))


# Results by operator; as shapes alone torch itself has them.
VALUES: dict[str, Callable[[Any, SimpleNamespace], tuple]] = {
    "_scaled_dot_product_cudnn_attention": _flash,
    "_scaled_dot_product_cudnn_attention_backward": _fused_backward,
    "_scaled_dot_product_efficient_attention": _efficient,
    "_scaled_dot_product_efficient_attention_backward": _efficient_backward,
    "_flash_attention_backward": _flash_texts_backward,
    "_flash_attention_forward": _flash_texts,
    "_scaled_dot_product_flash_attention": _flash,
    "_scaled_dot_product_flash_attention_backward": _fused_backward,
}


@contextlib.contextmanager
def on_a_processor() -> Iterator[None]:
    """Within it, a processor has the flash kernel over texts one behind the other, without dropout."""
    library = torch.library.Library("aten", "IMPL")
    for name in ("_flash_attention_forward", "_flash_attention_backward"):
        operator = getattr(aten, name).default

        def called(*args: Any, name: str = name, operator: Any = operator, **kwargs: Any) -> tuple:
            return VALUES[name](None, arguments(operator, args, kwargs | {"dropout_p": 0.0}))

        library.impl(name, called, "CPU")
    try:
        yield
    finally:
        library._destroy()
