from collections.abc import Callable

import pytest
import torch

from embedrun.backbone.ran import RanConfig, RanModel

Make = Callable[..., RanModel]


@pytest.fixture
def config() -> Callable[..., RanConfig]:
    """A configuration of windows of 8 tokens, the last of at least 3."""

    def make(**changes) -> RanConfig:
        shape = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
        windows = {"head_size": 6, "window": 8, "min_window": 3}
        return RanConfig(**{**shape, **windows, **changes})

    return make


@pytest.fixture
def make(config) -> Make:
    """A model in evaluation mode, with weights so large that every part of it matters."""

    def model(**changes) -> RanModel:
        torch.manual_seed(5)
        return RanModel(config(**{"initializer_range": 0.3, **changes})).eval()

    return model
