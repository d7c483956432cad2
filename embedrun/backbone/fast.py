"""Linear layers from packed weights, and passes without padding."""

import contextlib
import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import torch
from torch import Tensor, nn

from embedrun.backbone import fused
from embedrun.backbone.attention import Layout, attend
from embedrun.backbone.bert import Layer
from embedrun.batch import sent

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

# For fewer tokens than this, making the copies takes longer than they save: about 40 ms for the 43 MB of a
# small model, where 1000 tokens take 250 ms and a seventh of that is saved.
_WORTH = 2048  # tokens
_MEMORY = 2**31  # bytes of all copies, at most; a model with more is computed as it is
_FAR = {torch.float32: 1e-5, torch.bfloat16: 0.05}  # what rounding may move a value of about 1


@contextlib.contextmanager
def packed(model: nn.Module, *, tokens: int, dtype: torch.dtype) -> Iterator[bool]:
    """Compute the linear layers of a model from copies of their weights in oneDNN's blocked layout.

    A matrix product brings its weights into this layout at every call; here that is done once. Values change
    by rounding alone. A layer computes in `dtype` (float32 or bfloat16) and returns it, as under autocast.
    Layers of :class:`~embedrun.backbone.bert.Bert` are `fused` as a whole; it yields whether they are.

    A layer computes as usual where torch's internal operators are missing or wrong, or where it is anything
    but a plain `nn.Linear` with float32 weights on the CPU. So do all layers while gradients are recorded,
    where few tokens will be computed (about `tokens`), and where the copies would take too much memory. The
    weights must not change inside; afterwards, also after an exception, no trace is left on the model.
    """
    worth = tokens >= _WORTH and not torch.is_grad_enabled()
    layers = _plain_layers(model, dtype) if worth and _available(dtype) else []
    whole = [(one, fused.parts_of(one)) for one in model.modules() if isinstance(one, Layer) and layers]
    blocks = {block: own for block, own in whole if own and {*own} <= {*layers}}
    alone = {*layers}.difference(*blocks.values())
    try:
        for block, own in blocks.items():
            block.forward = fused.forward_of(block, own, dtype, _pack, _linear)
        for layer in alone:
            layer.forward = _packed_forward(layer, dtype)  # of this layer alone, before that of its class
        yield bool(blocks)
    finally:
        for layer in (*blocks, *alone):
            vars(layer).pop("forward", None)


def _plain_layers(model: nn.Module, dtype: torch.dtype) -> list[nn.Linear]:
    """The layers to pack, or none of them where the copies would take too much memory."""
    found = [layer for layer in model.modules() if _plain(layer)]
    return found if sum(layer.weight.numel() for layer in found) * dtype.itemsize <= _MEMORY else []


def _plain(layer: nn.Module) -> TypeGuard[nn.Linear]:
    """Whether a module is a linear layer that nothing has changed: no subclass, no other kind of weight."""
    # Parametrised and most quantised layers are subclasses; others have weights that are no plain parameter.
    # A forward of the layer's own is somebody's patch, or another thread's packing.
    return (
        type(layer) is nn.Linear
        and "forward" not in vars(layer)
        and all(
            type(weight) is nn.Parameter
            and weight.dtype == torch.float32
            and weight.device.type == "cpu"
            and weight.layout == torch.strided
            for weight in (layer.weight, layer.bias)
            if weight is not None
        )
    )


def _packed_forward(layer: nn.Linear, dtype: torch.dtype) -> Callable[..., Tensor]:
    plain = layer.forward
    weight = _pack(layer.weight.detach().to(dtype))  # (out, in), opaque
    bias = None if layer.bias is None else layer.bias.detach().to(dtype)  # (out,)

    def forward(input: Tensor) -> Tensor:  # named as that of nn.Linear
        if input.dtype not in (torch.float32, dtype) or input.numel() == 0 or torch.is_grad_enabled():
            return plain(input)
        return _linear(input.to(dtype), weight, bias)  # (..., out)

    return forward


def _pack(weight: Tensor) -> Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight)


def _linear(vectors: Tensor, weight: Tensor, bias: Tensor | None, *, gelu: bool = False) -> Tensor:
    behind = ("gelu", [], "none") if gelu else ("none", [], "")  # GELU itself, not one of its approximations
    return torch.ops.mkldnn._linear_pointwise(vectors, weight, bias, *behind)


@functools.cache
def _available(dtype: torch.dtype) -> bool:
    """Whether these operators, which torch does not guarantee, are there and compute the right values."""
    vectors = torch.linspace(-1, 1, 80, dtype=dtype).reshape(2, 5, 8)
    weight = torch.linspace(-1, 1, 24, dtype=dtype).reshape(3, 8)
    for bias, gelu in itertools.product((None, torch.ones(3, dtype=dtype)), (False, True)):
        expected = vectors.double() @ weight.double().T + (0 if bias is None else bias.double())  # (2, 5, 3)
        expected = nn.functional.gelu(expected) if gelu else expected
        try:
            found = _linear(vectors, _pack(weight), bias, gelu=gelu)  # (2, 5, 3)
        except (AttributeError, RuntimeError, TypeError):
            return False
        if found.shape != expected.shape or found.dtype != dtype:
            return False
        if not torch.allclose(found.double(), expected, rtol=0, atol=_FAR[dtype]):
            return False
    return True


# Model types whose unpadded passes are tested against padded ones; any other type pads.
FAMILIES = ("bert", "roberta", "modernbert", "llama", "qwen2")
_DECODERS = ("llama", "qwen2")
# What one more pass costs, in tokens: no other grouping of texts saves anything.
OVERHEAD = 2**40
_NAME = "embedrun_unpadded"  # of the attention, among those of transformers
_ATTENTION_DROPOUT = ("attention_probs_dropout_prob", "attention_dropout")  # options of configurations
_LARGEST_HEAD, _HEAD_STEP = 256, 8  # dimensions; of flash attention
_LEAST_DEVICE = (8, 0)  # compute capability, of the same


def usable(model: "PreTrainedModel") -> bool:
    """Whether the next pass of a transformers model can do without padding, in its mode, precision and place.

    It cannot with dropout inside the attention, where torch's operator lacks it; with gradient checkpointing,
    whose second pass would not know of it; compiled; or where only deterministic kernels are asked for.
    """
    return _safe(model, with_dropout=_operator() is not None) and computable(model)


def computable(model: Any) -> bool:
    """Whether torch has a kernel for it here: CUDA, 16 bits, heads of a size that it takes."""
    weight, config = model.get_input_embeddings().weight, model.config
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return (
        weight.is_cuda
        and _computed_in(weight) in (torch.bfloat16, torch.float16)
        and torch.cuda.get_device_capability(weight.device) >= _LEAST_DEVICE
        and head <= _LARGEST_HEAD
        and head % _HEAD_STEP == 0
        and not torch.are_deterministic_algorithms_enabled()
        and _kernel() is not None
    )


def trainable(model: "PreTrainedModel") -> bool:
    """The same of a pass of training on a processor, in any precision, with dropout inside the attention."""
    return model.get_input_embeddings().weight.device.type == "cpu" and _safe(model, with_dropout=True)


def last_layer(
    model: Any, ids: np.ndarray, real: np.ndarray, groups: Sequence[np.ndarray] | None = None
) -> Tensor:
    """The last layer's token vectors as a padded pass gives them, ``(texts, width, dim)``; padding is zeros.

    Args:
        model: must be `usable` now, or `trainable`.
        ids: token ids, padded on the right, ``(texts, width)``.
        real: which of them are no padding, bool, ``(texts, width)``; at least one a text.
        groups: on a processor, the texts that attention computes side by side, ``(group,)`` each.
    """
    device = model.get_input_embeddings().weight.device
    lengths = real.sum(axis=1)  # (texts,)
    ends = np.concatenate([[0], np.cumsum(lengths)])  # (texts + 1,)

    def there(numbers: np.ndarray) -> Tensor:
        return sent(torch.from_numpy(numbers), device)

    with _attention_of(model):
        output = model(
            input_ids=there(ids[real])[None],  # (1, tokens)
            position_ids=there(_positions(model.config, ids)[real])[None],  # (1, tokens)
            return_dict=True,
            cu_seq_lens_q=there(ends.astype(np.int32)),  # as transformers calls it; reaches _attend
            max_length_q=int(lengths.max()),
            layout=None if groups is None else Layout(lengths, groups, model.config.num_attention_heads),
        )
    flat = output.last_hidden_state[0]  # (tokens, dim)
    empty = flat.new_zeros(real.size, flat.shape[1])  # (texts * width, dim)
    return empty.index_copy(0, there(np.flatnonzero(real)), flat).view(*real.shape, -1)


def mask_for(model: Any, mask: Tensor) -> Tensor:
    """A mask, ``(texts, width)``, as layers take it: bool, ``(texts, 1, 1 or width, width)``, query by key.

    Of the mask as it is, transformers asks whether it hides anything, and so waits for a device. That one is
    returned where layers differ in what they see, or where it is not sure what transformers makes of it.
    """
    if not _known(model) or "sliding_attention" in (getattr(model.config, "layer_types", None) or ()):
        return mask
    seen = mask.bool()[:, None, None]  # (texts, 1, 1, width)
    if model.config.model_type not in _DECODERS:
        return seen
    return seen & seen.new_ones(mask.shape[1], mask.shape[1]).tril()  # (texts, 1, width, width)


def _safe(model: "PreTrainedModel", *, with_dropout: bool) -> bool:
    """Whether the pass computes what the padded one does; false for a model of any other type."""
    drops = not with_dropout and any(getattr(model.config, name, 0.0) for name in _ATTENTION_DROPOUT)
    return _known(model) and not (model.training and (drops or _computes_again(model)))


def _known(model: Any) -> bool:
    """Whether masks and attention are those of its type, as transformers has them."""
    config = model.config
    return (
        config.model_type in FAMILIES
        and config._attn_implementation == "sdpa"  # another one is the user's wish, or all that there is
        and getattr(model, "_supports_attention_backend", False)
        # An encoder made a decoder or the other way round has masks of its own kind.
        and not getattr(config, "is_decoder", False)
        and getattr(config, "is_causal", None) is None
        and "forward" not in vars(model)  # somebody's own, such as a compiled one
    )


def _computes_again(model: "PreTrainedModel") -> bool:
    # Renamed in the course of transformers 5.
    now = getattr(model, "is_activation_checkpointing", None)
    return model.is_gradient_checkpointing if now is None else now


def _positions(config: "PreTrainedConfig", ids: np.ndarray) -> np.ndarray:
    """The position of each token in its text, ``(texts, width)``."""
    if config.model_type != "roberta":
        return np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
    # RoBERTa counts from the row behind the padding's, and leaves out padding tokens inside a text.
    counted = ids != config.pad_token_id
    return np.cumsum(counted, axis=1) * counted + config.pad_token_id


@contextlib.contextmanager
def _attention_of(model: "PreTrainedModel") -> Iterator[None]:
    """Within it, the model's layers call `_attend`; transformers makes no masks for a custom attention."""
    _register()
    model.set_attn_implementation(_NAME)
    try:
        yield
    finally:
        model.set_attn_implementation("sdpa")


@functools.cache
def _register() -> None:
    from transformers import AttentionInterface

    AttentionInterface.register(_NAME, _attend)


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: None,
    *,
    cu_seq_lens_q: Tensor,
    max_length_q: int,
    layout: Layout | None = None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **_: object,
) -> tuple[Tensor, None]:
    """Attention of each text to itself, ``(1, tokens, heads, dim)``, as transformers calls it.

    Args:
        module: the layer; says whether attention is causal.
        query: ``(1, heads, tokens, dim)``.
        key: as `query`, with as many heads or fewer.
        value: as `key`.
        cu_seq_lens_q: where each text begins, and where the last one ends, int32, ``(texts + 1,)``.
        max_length_q: tokens of the longest text.
        layout: of the texts; on a processor alone.
        dropout: of the weights; in training alone.
        scaling: of the products; None: one by the root of `dim`.
        sliding_window: tokens to either side that one sees, itself counted; None: all.
    """
    heads = query.shape[1]
    own = [
        part if part.shape[1] == heads else part.repeat_interleave(heads // part.shape[1], dim=1)
        for part in (query, key, value)
    ]
    own = [part.squeeze(0).transpose(0, 1) for part in own]  # (tokens, heads, dim) each
    left = -1 if sliding_window is None else sliding_window - 1  # -1: no limit
    window = (left, 0 if module.is_causal else left)
    if layout is not None:
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        own_query, own_key, own_value = own
        found = attend(own_query, own_key, own_value, layout, scale=scale, window=window, dropout=dropout)
        return found[None], None  # (1, tokens, heads, dim)
    # Rotated queries and keys are in float32, also under autocast, which does not know this kernel.
    half = [part.to(_computed_in(query)) for part in own]
    ends, longest = cu_seq_lens_q, max_length_q
    kernel = _operator() if dropout > 0 else _kernel()
    assert kernel is not None, "usable() has asked"
    given: list[Any] = [*half, ends, ends, longest, longest]
    if dropout > 0:
        given += [dropout, window == (-1, 0), False]  # the last: no mask to look at
        left, right = window
        found = kernel(*given, scale=scaling, window_size_left=left, window_size_right=right)[0]
    else:
        found = kernel(*given, scale=scaling, window_size=window)
    return found[None], None


def _computed_in(tensor: Tensor) -> torch.dtype:
    """The type that products with a tensor are computed in."""
    kind = tensor.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else tensor.dtype


@functools.cache
def _kernel() -> Any:
    """Torch's variable-length attention; None where this version has none with windows."""
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    return varlen_attn if {"scale", "window_size"} <= set(inspect.signature(varlen_attn).parameters) else None


@functools.cache
def _operator() -> Any:
    """The operator beneath it, which has dropout as well; None where this version has another one."""
    operator = getattr(torch.ops.aten, "_flash_attention_forward", None)
    names = {argument.name for argument in operator.default._schema.arguments} if operator else set()
    return operator if {"dropout_p", "scale", "window_size_left", "window_size_right"} <= names else None
