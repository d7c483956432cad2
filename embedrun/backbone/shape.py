"""What is known of a model before it is loaded: its layers and weights, by its files and the meta device."""

import json
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import torch
from torch import nn

from embedrun.backbone.adapter import stored
from embedrun.backbone.declared import Declared, held, read, read_config, read_mapping
from embedrun.backbone.files import base_of, has_weights, is_here, lacking, locate
from embedrun.backbone.layers import shortened, too_many
from embedrun.backbone.of_run import in_place_of, is_checkpoint, recipe, run_of
from embedrun.backbone.scratch import configuration
from embedrun.config import AdapterConfig, BackboneConfig
from embedrun.errors import ConfigError, DataError
from embedrun.files import Plain, expanded
from embedrun.prompts import Prompt


@dataclass(frozen=True)
class Linear:
    """A linear layer, by its name in transformers; `weights` are with its bias."""

    name: str
    inputs: int
    outputs: int
    weights: int


@dataclass(frozen=True)
class Size:
    """The weights of a transformer without a head for a task.

    Args:
        depth: transformer layers.
        linear: all linear layers of these.
        others: weights beside these and the pooler: embeddings and norms.
        pooler: weights of BERT's pooler; 0 without.
        width: dimensions of a token vector.
        intermediate: dimensions inside the feed-forward layer.
        gated: whether that layer has a gate.
        positions: tokens of the longest text; 0: not known.
    """

    depth: int
    linear: tuple[Linear, ...]
    others: int
    pooler: int
    width: int
    heads: int
    intermediate: int
    gated: bool
    positions: int

    @property
    def matrices(self) -> int:
        """Weights of linear layers without biases: what can be in 4 bits."""
        return sum(layer.inputs * layer.outputs for layer in self.linear)

    @property
    def weights(self) -> int:
        """All weights."""
        return sum(layer.weights for layer in self.linear) + self.others + self.pooler


def size_of(config: Plain) -> Size | None:
    """The size of the model that a `config.json` describes, of any family that transformers knows, or a RAN.

    It is built of tensors without content (the meta device). None for a form that nothing here knows.
    """
    try:
        return _measured(json.dumps({"model_type": "", **config}, sort_keys=True))
    except (KeyError, ValueError, AttributeError, TypeError, AssertionError):
        return None


@lru_cache(maxsize=64)
def _measured(config: str) -> Size:
    from transformers import AutoConfig, AutoModel

    from embedrun.backbone import ran, static  # noqa: F401, transformers knows them by it

    shape = AutoConfig.for_model(**json.loads(config))
    with torch.device("meta"):
        model = AutoModel.from_config(shape)
    linear = tuple(
        Linear(name, module.in_features, module.out_features, _weights(module))
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and not name.startswith("pooler.")
    )
    pooler = getattr(model, "pooler", None)
    beside = _weights(pooler) if isinstance(pooler, nn.Module) else 0
    width = shape.hidden_size
    # The rows of RoBERTa's positions begin behind that of the padding.
    table = getattr(getattr(model, "embeddings", None), "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    before = -1 if padding is None else padding
    return Size(
        depth=getattr(shape, "num_hidden_layers", 1),
        linear=linear,
        others=_weights(model) - beside - sum(layer.weights for layer in linear),
        pooler=beside,
        width=width,
        heads=getattr(shape, "num_attention_heads", 1),
        intermediate=getattr(shape, "intermediate_size", 4 * width),
        # As a layer of its own, or as one half of ModernBERT's.
        gated=any(layer.name.endswith(("gate_proj", "mlp.Wi")) for layer in linear),
        positions=max(0, (getattr(shape, "max_position_embeddings", 0) or 0) - before - 1),
    )


def _weights(module: nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


_BERT = {"model_type": "bert", "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2}
_ROBERTA = {
    "model_type": "roberta",
    "vocab_size": 50265,
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
}
_MODERNBERT = {"model_type": "modernbert", "vocab_size": 50368, "max_position_embeddings": 8192}
_LLAMA = {"model_type": "llama", "vocab_size": 32000, "max_position_embeddings": 4096}
_QWEN2 = {"model_type": "qwen2", "vocab_size": 151936, "max_position_embeddings": 131072}
_QWEN3 = {
    "model_type": "qwen3",
    "vocab_size": 151936,
    "max_position_embeddings": 32768,
    "num_key_value_heads": 8,
    "head_dim": 128,
}
_SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
# Family, the four sizes, and what differs from the family.
_PUBLISHED: dict[str, tuple[Plain, tuple[int, int, int, int], Plain]] = {
    "google-bert/bert-base-uncased": (_BERT, (768, 12, 12, 3072), {}),
    "google-bert/bert-large-uncased": (_BERT, (1024, 24, 16, 4096), {}),
    "FacebookAI/roberta-base": (_ROBERTA, (768, 12, 12, 3072), {}),
    "FacebookAI/roberta-large": (_ROBERTA, (1024, 24, 16, 4096), {}),
    "answerdotai/ModernBERT-base": (_MODERNBERT, (768, 22, 12, 1152), {}),
    "answerdotai/ModernBERT-large": (_MODERNBERT, (1024, 28, 16, 2624), {}),
    "sentence-transformers/all-MiniLM-L6-v2": (_BERT, (384, 6, 12, 1536), {}),
    "voidism/diffcse-bert-base-uncased-sts": (_BERT, (768, 12, 12, 3072), {}),
    "princeton-nlp/unsup-simcse-bert-large-uncased": (_BERT, (1024, 24, 16, 4096), {}),
    "intfloat/e5-base-v2": (_BERT, (768, 12, 12, 3072), {}),
    "Alibaba-NLP/gte-modernbert-base": (_MODERNBERT, (768, 22, 12, 1152), {}),
    "BAAI/bge-m3": (
        {**_ROBERTA, "model_type": "xlm-roberta"},
        (1024, 24, 16, 4096), {"vocab_size": 250002, "max_position_embeddings": 8194},
    ),
    "Qwen/Qwen3-0.6B-Base": (_QWEN3, (1024, 28, 16, 3072), {}),
    "Qwen/Qwen3-Embedding-0.6B": (_QWEN3, (1024, 28, 16, 3072), {"vocab_size": 151669}),
    "google/embeddinggemma-300m": (
        {"model_type": "gemma3_text", "vocab_size": 262144, "max_position_embeddings": 2048},
        (768, 24, 3, 1152), {"num_key_value_heads": 1, "head_dim": 256},
    ),
    "meta-llama/Llama-2-7b-hf": (_LLAMA, (4096, 32, 32, 11008), {}),
    "Qwen/Qwen2.5-0.5B": (
        _QWEN2, (896, 24, 14, 4864), {"num_key_value_heads": 2, "max_position_embeddings": 32768},
    ),
    "Qwen/Qwen2.5-1.5B": (_QWEN2, (1536, 28, 12, 8960), {"num_key_value_heads": 2}),
    "Qwen/Qwen2.5-7B": (_QWEN2, (3584, 28, 28, 18944), {"num_key_value_heads": 4, "vocab_size": 152064}),
}  # fmt: skip
CONFIGS: dict[str, Plain] = {
    name: {**family, **dict(zip(_SIZES, sizes, strict=True)), **others}
    for name, (family, sizes, others) in _PUBLISHED.items()
}
_TOKENIZER = "tokenizer.json"


@dataclass(frozen=True)
class Shape:
    """What is known of a backbone.

    Args:
        config: as `config.json` has it.
        source: where it is from, in words; empty for the model's own file.
        declared: how the model's files want it used; None: they are not here.
        tokenizer: its `tokenizer.json` on this machine.
    """

    config: Plain
    source: str
    adapter: AdapterConfig | None
    declared: Declared | None = None
    tokenizer: Path | None = None

    @property
    def max_length(self) -> int | None:
        """Tokens, as the model's files say; None: they say nothing."""
        return None if self.declared is None else self.declared.max_length

    @property
    def prompt(self) -> Prompt | None:
        """As the model's files say; None: they say nothing."""
        return None if self.declared is None else self.declared.prompt


def shape_of(config: BackboneConfig) -> Shape | None:
    """What is known of the backbone, from files of this machine alone; None: nothing.

    Raises:
        ConfigError: if it has fewer layers than `layers` asks for.
        DataError: if the model is here and its files are faulty, or those of its tokenizer are missing.
    """
    shape = _whole(config)
    if shape is None or config.layers is None:
        return shape
    if problems := too_many(config.layers, shape.config):
        raise ConfigError(problems)
    return replace(shape, config=shortened(shape.config, config.layers))


def _whole(config: BackboneConfig) -> Shape | None:
    name = config.name or ""
    if config.scratch is not None:
        made = configuration(config.scratch, config.scratch.vocabulary)
        return Shape(made, ", at most", None, Declared(max_length=config.scratch.positions))
    if is_here(name):
        return _of_folder(expanded(name), config.adapter)
    if (file := cached(name, "config.json", config.revision)) is not None:
        declared = read(file.parent)  # as far as it is here: a cache may hold any part of a model
        words = cached(name, _TOKENIZER, config.revision)
        known = None if declared.pooling is None else declared
        return Shape(read_config(file.parent), "", config.adapter, known, words)
    if (published := CONFIGS.get(name)) is not None:
        return Shape(published, " (as published; its files are not here)", config.adapter)
    return None


def _of_folder(folder: Path, adapter: AdapterConfig | None) -> Shape | None:
    if not (folder / "config.json").is_file():
        try:
            folder = locate(str(folder))
        except DataError:
            if (folder / "model" / "config.json").is_file():  # of a run, and broken
                raise
            return None
    if is_checkpoint(folder):
        return _of_checkpoint(folder)
    declared, base = read(folder), base_of(folder)
    # A folder with config.json alone is priced; with weights it is a model, and a model has a tokenizer.
    if base is None and has_weights(folder) and (fault := lacking(folder)):
        raise DataError(fault)
    paths = [place / _TOKENIZER for place in (folder, base) if place]
    words = next((path for path in paths if path.is_file()), None)
    adapter = adapter if base is None else _of_files(folder)
    return Shape(read_config(base or folder), "", adapter, declared, words)


def _of_checkpoint(folder: Path) -> Shape | None:
    run = run_of(folder)
    if (run / "model").is_dir():
        return shape_of(BackboneConfig(name=str(run / "model")))
    made = recipe(run)
    shape = shape_of(made.backbone)
    if shape is None or shape.declared is None:
        return shape
    return replace(shape, declared=in_place_of(shape.declared, made))


def _of_files(folder: Path) -> AdapterConfig:
    path = folder / "adapter_config.json"
    written, (quantized, _) = read_mapping(path), stored(folder)
    targets = written.get("target_modules")
    of_files = {
        "r": written.get("r"),
        "dropout": written.get("lora_dropout", 0.0),
        "targets": sorted(targets) if isinstance(targets, list) else targets,
    }
    options = held(path, AdapterConfig, of_files)
    if quantized is None:
        return options
    return replace(options, quantize=quantized.quantize, double_quantize=quantized.double_quantize)


def cached(name: str, file: str, revision: str | None) -> Path | None:
    """A file of a hub id, where the hub's cache on this machine has it."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        path = try_to_load_from_cache(name, file, revision=revision)
    except HFValidationError:
        return None
    return Path(path) if isinstance(path, str) else None
