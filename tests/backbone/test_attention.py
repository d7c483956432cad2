from types import SimpleNamespace

import pytest
import torch
from torch import nn

from embedrun.backbone.transformer import fitting


class Model:
    """As much of a model of transformers as is asked; no CPU has flash attention."""

    def __init__(self, attention: str, dtype: torch.dtype) -> None:
        self.config = SimpleNamespace(_attn_implementation=attention)
        self.embeddings = nn.Embedding(2, 2, dtype=dtype)

    def get_input_embeddings(self) -> nn.Module:
        return self.embeddings

    def set_attn_implementation(self, name: str) -> None:
        self.config._attn_implementation = name


@pytest.mark.parametrize(
    ("attention", "dtype", "autocast", "within"),
    [
        ("flash_attention_2", torch.float32, False, "sdpa"),
        ("flash_attention_2", torch.float32, True, "flash_attention_2"),
        ("flash_attention_2", torch.bfloat16, False, "flash_attention_2"),
        ("eager", torch.float32, False, "eager"),
    ],
)
def test_flash_attention_gives_way_in_float32_alone(attention, dtype, autocast, within):
    model = Model(attention, dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast), fitting(model):
        assert model.config._attn_implementation == within
    assert model.config._attn_implementation == attention


def test_it_is_back_after_a_failure():
    model = Model("flash_attention_2", torch.float32)
    with pytest.raises(KeyError), fitting(model):
        raise KeyError
    assert model.config._attn_implementation == "flash_attention_2"
