"""How many kernels the passes of a BERT-base start in a step, one by one and compiled: forward and backward.

    python tests/pretend/compiled.py

Without padding, in bf16, with dropout, weights cast together. Inductor compiles for a processor here; what it
joins for a GPU may differ in detail. Attention is one call, and so is a product. Takes a minute and a half.
"""

import re
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[2])]

import numpy as np
import torch
from pretended_attention import on_a_processor
from torch import Tensor, nn
from torch._inductor.utils import run_and_get_code
from torch.func import functional_call
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import BertConfig, BertModel

from embedrun.backbone.unpadded import last_layer
from embedrun.training.gradient import compiled, halved

_FREE = ("empty", "new_empty", "detach", "_unsafe_view")


class Counted(TorchDispatchMode):
    """Counts the calls that compute."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        aliases = [returned.alias_info for returned in operator._schema.returns]
        views = any(alias is not None and not alias.is_write for alias in aliases)
        self.calls += not views and not operator.__name__.startswith(_FREE)
        return operator(*args, **kwargs or {})


class Passes(nn.Module):
    """A BERT-base with 2,000 word pieces, and a step's passes of six texts through it."""

    def __init__(self) -> None:
        super().__init__()
        config = BertConfig(vocab_size=2000, attn_implementation="sdpa")
        self.model = BertModel(config, add_pooling_layer=False).train()

    def forward(self, ids: np.ndarray, real: np.ndarray) -> Tensor:
        return last_layer(self.model, ids, real, None)

    def step(self) -> None:
        real = np.arange(19) < np.array([[19], [4], [12], [7], [17], [9]])  # (texts, width)
        ids = np.where(real, 1000 + np.arange(19), 0)  # (texts, width)
        with torch.autocast("cpu", torch.bfloat16):
            found = functional_call(self, halved(self, torch.bfloat16), (ids, real))
        found.float().square().mean().backward()


def main() -> None:
    """Print both counts."""
    passes = Passes()
    with on_a_processor():
        with Counted() as one_by_one:
            passes.step()
        passes.model.forward = compiled(passes.model)
        _, code = run_and_get_code(passes.step)
    called = r"^\s+(?:cpp_fused\w*\(|extern_kernels\.|(?:\w+ = )?torch\.ops\.)"
    joined = sum(len(re.findall(called, part[part.index("def call(") :], re.M)) for part in code)
    print(f"one by one {one_by_one.calls}, compiled {joined}")


if __name__ == "__main__":
    main()
