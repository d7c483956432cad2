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
from transformers import BertConfig, BertModel

from embedrun.backbone.unpadded import last_layer
from embedrun.devices import Operations
from embedrun.training.gradient import compiled, halved


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
        with Operations() as one_by_one:
            passes.step()
        passes.model.forward = compiled(passes.model)
        _, code = run_and_get_code(passes.step)
    called = r"^\s+(?:cpp_fused\w*\(|extern_kernels\.|(?:\w+ = )?torch\.ops\.)"
    joined = sum(len(re.findall(called, part[part.index("def call(") :], re.M)) for part in code)
    print(f"one by one {len(one_by_one.counted)}, compiled {joined}")


if __name__ == "__main__":
    main()
