"""Layers of a BERT that encodes on a processor: fewer passes over memory, weights packed once."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from embedrun.backbone.bert import Layer

# From this many tokens on torch's own attention is as fast; below, its softmax is what takes long.
_LONG = 64  # tokens, measured with heads of 32 dimensions on AVX-512
_AT_ONCE = 3 * 2**16  # numbers of the queries of some texts: with keys and values, what a core's cache holds
_LANES = 16  # numbers that AVX-512 computes at once: a softmax over fewer is done one by one


def parts_of(layer: Layer) -> list[nn.Linear]:
    """The linear layers of a layer in their order; none where somebody has changed anything in it."""
    own, after, out = layer.attention.self, layer.attention.output, layer.output
    changed = any(_changed(module) for module in layer.modules())
    if changed or any(type(norm) is not nn.LayerNorm for norm in (after.LayerNorm, out.LayerNorm)):
        return []
    return [own.query, own.key, own.value, after.dense, layer.intermediate.dense, out.dense]


def _changed(module: nn.Module) -> bool:
    """Whether somebody has hooks on it, or a forward pass of his own."""
    return bool(module._forward_hooks or module._forward_pre_hooks) or "forward" in vars(module)


def forward_of(
    layer: Layer,
    linears: Sequence[nn.Linear],
    dtype: torch.dtype,
    pack: Callable[[Tensor], Tensor],
    linear: Callable[..., Tensor],
) -> Callable[..., Tensor]:
    """The forward pass of a layer, computed in `dtype`; what it adds to and normalises stays in float32.

    The values are those of the layer's own but for rounding. Query, key and value come from one product,
    and GELU is done where its product is.

    Args:
        linears: its `parts_of`.
        pack: brings weights into the layout that `linear` takes.
        linear: as `fast._linear`.
    """
    plain, (query, key, value, *others) = layer.forward, linears
    after, out = layer.attention.output.LayerNorm, layer.output.LayerNorm

    def packed(*linears: nn.Linear) -> tuple[Tensor, Tensor]:
        weight = torch.cat([one.weight.detach() for one in linears]).to(dtype)  # (out, in)
        return pack(weight), torch.cat([one.bias.detach() for one in linears]).to(dtype)

    mix = packed(query, key, value)
    join, widen, narrow = (packed(one) for one in others)

    def forward(vectors: Tensor, seen: Tensor | None) -> Tensor:
        if torch.is_grad_enabled():
            return plain(vectors, seen)
        with torch.autocast("cpu", enabled=False):
            three = linear(vectors.to(dtype), *mix)  # (texts, tokens, 3 * dim)
            found = linear(attention(three, layer.heads, seen), *join)  # (texts, tokens, dim)
            vectors = after(vectors + found)
            inner = linear(vectors.to(dtype), *widen, gelu=True)  # (texts, tokens, intermediate)
            return out(vectors.add_(linear(inner, *narrow)))

    return forward


def attention(three: Tensor, heads: int, seen: Tensor | None) -> Tensor:
    """What `scaled_dot_product_attention` computes of texts side by side, ``(texts, tokens, dim)``.

    Args:
        three: query, key and value, one behind the other, ``(texts, tokens, 3 * dim)``.
        seen: which tokens are no padding, bool, ``(texts, 1, 1, tokens)``; None: all.
    """
    texts, tokens, dim = three.shape[0], three.shape[1], three.shape[2] // 3
    own = three.view(texts, tokens, 3, heads, -1).permute(2, 0, 3, 1, 4)  # (3, texts, heads, tokens, head)
    if tokens >= _LONG:
        found = functional.scaled_dot_product_attention(*own, attn_mask=seen)
        return found.transpose(1, 2).reshape(texts, tokens, dim)
    width, head = max(tokens, _LANES), dim // heads
    some = min(texts, max(1, _AT_ONCE // (width * dim)))  # texts at once, in the same memory
    side = three.new_zeros(3, some, heads, width, head, dtype=torch.float32)
    far = three.new_zeros(some, width, dtype=torch.float32)  # (some, width), -inf where no token is
    far[:, tokens:] = -torch.inf
    out = three.new_empty(texts, tokens, heads, head)
    for start in range(0, texts, some):
        here = slice(start, min(start + some, texts))
        count = here.stop - start
        side[:, :count, :, :tokens] = own[:, here]
        query, key, value = (part[:count].flatten(0, 1) for part in side)  # (count * heads, width, head)
        if seen is not None:
            far[:count, :tokens] = 0
            far[:count, :tokens].masked_fill_(~seen[here, 0, 0], -torch.inf)
        weights = torch.baddbmm(
            far[:count].repeat_interleave(heads, dim=0)[:, None], query[:, :tokens], key.mT, alpha=head**-0.5
        )  # (count * heads, tokens, width)
        found = torch.bmm(torch.softmax(weights, dim=-1), value)  # (count * heads, tokens, head)
        out[here] = found.view(count, heads, tokens, head).transpose(1, 2)
    return out.view(texts, tokens, dim)
