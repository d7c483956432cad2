"""Steps of a BERT from nothing, of any shape, on random token ids: what only a real device can show."""

from collections.abc import Callable, Mapping

import numpy as np
import torch
from transformers import AutoModel, BertConfig

from embedrun.backbone import Backbone
from embedrun.backbone.declared import Declared
from embedrun.batch import Batch, Tokens, View
from embedrun.config import TrainingConfig
from embedrun.encoder import Encoder
from embedrun.gpu import Compute
from embedrun.loss.mix import Mix
from embedrun.pooling import Pooling
from embedrun.training.step import Stepper

VOCABULARY = 30522
# RAOE, first stage, as conf/loss/raoe.yaml has it.
RAOE = {"rank_margin": {"interval": 2, "scale": 20, "ties": "average"}, "gated_angular": {"gate": "both"}}
BASE = {"layers": 12, "width": 768, "heads": 12}
TINY = {"layers": 2, "width": 64, "heads": 2}


class Padding:
    pad_token_id, eos_token_id = 0, None


def encoder(*, layers: int, width: int, heads: int, dropout: float = 0.1) -> Encoder:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=VOCABULARY, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
        intermediate_size=4 * width, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
    )  # fmt: skip
    model = AutoModel.from_config(config, attn_implementation="sdpa")
    backbone = Backbone(model, Padding(), max_length=128, declared=Declared(), origin={})
    return Encoder(backbone, Pooling("mean")).train()


def stepper(
    device: str,
    precision: str,
    *,
    shape: dict[str, int],
    compiled: bool = False,
    dropout: float = 0.1,
    terms: Mapping[str, Mapping[str, object]] = RAOE,
    **options,
) -> Stepper:
    compute = Compute(torch.device(device), precision, compile=compiled)
    config = TrainingConfig(**{"lr": 5e-5, "warmup_ratio": 0.0, "schedule": "constant", **options})
    model = encoder(**shape, dropout=dropout).to(device)
    return Stepper(model, Mix(terms).to(device), compute, config)


def usual_lengths(random: np.random.Generator, rows: int) -> np.ndarray:
    """6 to 40 tokens, 19 on average, ``(rows,)``."""
    return 6 + random.binomial(34, random.beta(2, 3.2, rows))


def batch(
    rows: int,
    number: int = 0,
    lengths_of: Callable[[np.random.Generator, int], np.ndarray] = usual_lengths,
) -> Batch:
    """Pairs of texts, by default about as long as those of NLI; no two batches are alike."""
    random = np.random.default_rng(number)

    def view(place: int) -> View:
        lengths = lengths_of(random, rows)  # (rows,)
        ids = random.integers(1000, VOCABULARY, int(lengths.sum()))  # (tokens,)
        seeds = torch.arange(rows) + rows * (2 * number + place)
        return View(Tokens(torch.from_numpy(ids), torch.from_numpy(lengths)), seeds)

    targets = {
        "score": torch.from_numpy(random.random(rows)),
        "label": torch.from_numpy(random.integers(0, 3, rows)),
    }
    return Batch({"left": view(0), "right": view(1)}, targets, np.arange(rows))


def gradient(of: Stepper) -> torch.Tensor:
    """All gradients of the weights in a row, float32, on the CPU; those of the step that is being taken."""
    found = [weight.grad for weight in of.trained.parameters() if weight.grad is not None]
    return torch.cat([one.detach().float().flatten() for one in found]).cpu()
