"""Flash attention where it can be, in 16 bits; sdpa where it cannot, in float32."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch


@contextlib.contextmanager
def fitting(model: Any) -> Iterator[None]:
    """Within it, a model with flash attention has sdpa if the pass is in float32, as all scoring is.

    Args:
        model: of transformers.
    """
    weight = model.get_input_embeddings().weight
    half = weight.dtype != torch.float32 or torch.is_autocast_enabled(weight.device.type)
    if half or model.config._attn_implementation != "flash_attention_2":
        yield
        return
    model.set_attn_implementation("sdpa")
    try:
        yield
    finally:
        model.set_attn_implementation("flash_attention_2")
