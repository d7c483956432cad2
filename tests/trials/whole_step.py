"""One gradient of every mix in conf/loss, of a small BERT in float64 with dropout."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from omegaconf import OmegaConf
from torch import Tensor

from embedrun.backbone import Backbone
from embedrun.backbone.declared import Declared
from embedrun.batch import VISIBLE, Batch, TokenTable
from embedrun.config import TrainingConfig
from embedrun.config.compose import register_resolvers
from embedrun.config.presets import folder
from embedrun.dataset.masking import Masking
from embedrun.encoder import Encoder
from embedrun.gpu import Compute
from embedrun.loss.mix import Mix
from embedrun.loss.terms import masked_passes, used
from embedrun.pooling import Pooling
from embedrun.rows import MASKED, Rows
from embedrun.training.feed import Feed
from embedrun.training.order import Draw
from embedrun.training.processes import Processes
from embedrun.training.step import Stepper

register_resolvers()  # presets refer to them

MIXES = sorted(path.stem for path in (folder() / "loss").glob("*.yaml"))
BY_ROWS = ["angle", "arccse", "raoe", "rankcse", "sbert", "simcse_supervised", "simcse_unsupervised_mlm"]
ROWS = 7  # of a batch: odd, so that neither two nor three processes have equal shares
VOCABULARY = 40
TEACHER_DIMS = (5, 3)
VIEWS = ("left", "right", "negative", "text", "negative_1", "negative_2")


def terms(mix: str) -> dict[str, Any]:
    """The terms of a file in conf/loss, with those of the files that it builds on."""
    own = OmegaConf.load(folder() / "loss" / f"{mix}.yaml")
    parts = [name for name in own.pop("defaults", []) if name != "_self_"]
    merged = OmegaConf.merge(*[OmegaConf.create({"terms": terms(name)}) for name in parts], own)
    return OmegaConf.to_container(merged, resolve=True)["terms"]  # type: ignore[call-overload, index, return-value]


class AnyRows(Rows):
    """Rows of words w0 to w36 that have every view and every target at once; targets repeat every 7 rows."""

    def __init__(self, rows: int = ROWS) -> None:
        random = np.random.default_rng(11)
        texts = {
            view: [
                " ".join(f"w{random.integers(37)}" for _ in range(random.integers(2, 12)))
                for _ in range(rows)
            ]
            for view in VIEWS
        }
        texts["left"][1] = texts["left"][0]  # an identical text
        targets = {
            "score": np.array([1.0, 0.0, 0.5, 0.0, 1.0, 0.25, 0.75]),
            "label": np.array([0, 2, 1, 2, 0, 1, 0]),
            "hard_negatives": np.array([2, 1, 2, 2, 1, 2, 1]),
            "maskable": np.array([True, True, False, True, True, False, True]),
            "category": np.array([0, 1, 0, 2, 1, 0, 2]),
            "scores": np.array(
                [[0.9, 0.1], [0.5, 0.6], [1.0, 0.0], [0.2, 0.3], [0.7, 0.1], [0.4, 0.4], [0.8, 0.2]]
            ),
        }
        object.__setattr__(self, "texts", texts)
        targets = {name: np.resize(column, (rows, *column.shape[1:])) for name, column in targets.items()}
        object.__setattr__(self, "targets", targets)
        object.__setattr__(self, "masked", Masking(least_words=3, first=0.4, second=0.7, kind="delete"))


def tokenize(texts: list[str], max_length: int | None, prompt: object = None) -> TokenTable:
    # Two special tokens around the words, so that an empty text has a vector too.
    split = [[1, *(int(word[1:]) + 3 for word in text.split()), 2][:max_length] for text in texts]
    ids = np.array([word for text in split for word in text], dtype=np.int32)
    return TokenTable(ids, np.cumsum([0, *map(len, split)]))


def hide(ids: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Half of the words, whatever the share, so that a batch of few has some: in their place is word 0."""
    chosen = (torch.rand(len(ids), generator=torch.Generator().manual_seed(seed)) < 0.5) & (ids > 2)
    return ids.masked_fill(chosen, 3), ids.masked_fill(~chosen, VISIBLE)


class Tokenizer:
    pad_token_id, eos_token_id = 0, None


class Words:
    """Teachers that know a fixed vector for each text."""

    dims = TEACHER_DIMS

    def __init__(self, dtype: torch.dtype = torch.float64) -> None:
        self._dtype = dtype

    def vectors(self, index: Tensor) -> Tensor:
        found = torch.zeros(len(index), len(self.dims), max(self.dims), dtype=torch.float64)
        for place, text in enumerate(index.tolist()):
            generator = torch.Generator().manual_seed(text)
            for teacher, dim in enumerate(self.dims):
                found[place, teacher, :dim] = torch.randn(dim, generator=generator, dtype=torch.float64)
        return found.to(self._dtype)


def encoder(attention: str = "sdpa", dropout: float = 0.1, dtype: torch.dtype = torch.float64) -> Encoder:
    """A BERT of 16 dimensions."""
    from transformers import AutoModel, BertConfig

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=16, initializer_range=0.3,
        hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
    )  # fmt: skip
    model = AutoModel.from_config(config, dtype=dtype, attn_implementation=attention)
    backbone = Backbone(model, Tokenizer(), max_length=16, declared=Declared(), origin={})
    return Encoder(backbone, Pooling("mean")).train()


class Trial:
    """One step's loss and gradient.

    Args:
        mix: a file of conf/loss.
        micro_batch_size: rows encoded at a time; as many as there are is the whole batch.
        rows: of the batch.
        precision: of the forward pass.
        seeded_dropout: as the option.
        negatives: numbered hard negatives of a row, at most two; 0 for the one without a number.
        device: that computes.
        dtype: of the weights.
        options: of the encoder.
    """

    def __init__(
        self,
        mix: str,
        micro_batch_size: int | None = ROWS,
        rows: int = ROWS,
        precision: str = "fp32",
        seeded_dropout: bool | None = None,
        negatives: int = 0,
        device: str = "cpu",
        dtype: torch.dtype = torch.float64,
        **options: Any,
    ) -> None:
        chosen = terms(mix)
        self.encoder = encoder(dtype=dtype, **options).to(device)
        processes = Processes()
        torch.manual_seed(1)
        head = torch.nn.Linear(16, VOCABULARY)
        self.mix = Mix(chosen, dim=16, teacher_dims=TEACHER_DIMS, negatives=negatives, head=head)
        self.mix = self.mix.to(device, dtype)
        wanted = {way.view for ways in self.mix.ways.values() for way in ways.values()}
        passes = {key: way for ways in self.mix.ways.values() for key, way in used(ways, wanted).items()}
        for key in self.mix.on_tokens:
            passes |= {way.key: way for way in masked_passes(self.mix.terms[key], ["text"]).values()}
        targets = ["score", "label", "hard_negatives", "maskable", "category", "scores"]
        if mix == "sbert_binary":  # two classes, by score
            targets.remove("label")
        every = AnyRows(max(rows, ROWS))
        self.feed = Feed(every, tokenize, passes, targets, seed=5, processes=processes, hide=hide)
        config = TrainingConfig(
            micro_batch_size=micro_batch_size,
            seeded_dropout=seeded_dropout,
            clip=None,
            lr=1e-3,
            warmup_ratio=0.0,
        )
        self.stepper = Stepper(
            self.encoder, self.mix, Compute(torch.device(device), precision), config,
            teachers=Words(dtype), taught=sorted(wanted - set(MASKED)), processes=processes,  # type: ignore[arg-type]
        )  # fmt: skip
        self.batch = self.feed.batch(Draw(3, 0, np.arange(rows)))

    def step(self, *batches: Batch, watch: bool = False) -> dict[str, Tensor]:
        """The loss, and the gradient of every weight that the optimizer gets; of its own batch, or these."""
        found: dict[str, Tensor] = {}
        stepper = self.stepper

        def keep(*_: Any, **__: Any) -> None:
            for name, weight in stepper.trained.named_parameters():
                if weight.grad is not None:
                    found[name] = weight.grad.clone()

        stepper.optimizer.step = keep  # type: ignore[method-assign]
        found["loss"] = torch.as_tensor(stepper.take(1, 10, batches or [self.batch], watch=watch)["loss"])
        return found


def assert_equal_gradients(one: Mapping[str, Tensor], other: Mapping[str, Tensor], bar: float) -> None:
    """Relative to the largest entry of all gradients, and of the loss, to `bar`."""
    assert one.keys() == other.keys()
    largest = max(float(value.abs().max()) for name, value in other.items() if name != "loss")
    assert largest > 0
    for name, value in other.items():
        scale = float(value.abs()) if name == "loss" else largest
        assert float((one[name] - value).abs().max()) <= bar * scale, name


def mixes_of(size: int) -> list[str]:
    """The mixes that so many processes try: all of them where there are more than two."""
    return MIXES if size > 2 else BY_ROWS


def join(rank: int, size: int, meeting: str, folder: str) -> None:
    """The gradient of every mix on one of several processes, into a file of its own."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=size)
    # In parts, and whole.
    found = {
        mix: Trial(mix, 2 if place % 2 else None, seeded_dropout=True).step()
        for place, mix in enumerate(mixes_of(size))
    }
    torch.save(found, Path(folder) / f"{rank}.pt")
    torch.distributed.destroy_process_group()
