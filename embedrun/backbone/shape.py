"""What is known of a model before it is loaded: its layers and weights, by its files and the meta device."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from embedrun.backbone.adapter import stored
from embedrun.backbone.declared import Declared, held, read, read_config, read_mapping
from embedrun.backbone.files import base_of, has_weights, is_here, locate
from embedrun.backbone.layers import shortened, too_many
from embedrun.backbone.of_run import in_place_of, is_checkpoint, recipe, run_of
from embedrun.backbone.scratch import configuration
from embedrun.backbone.tokenizer import lacking
from embedrun.config import AdapterConfig, BackboneConfig
from embedrun.errors import ConfigError, DataError
from embedrun.files import Plain, expanded
from embedrun.prompt import Prompt


@dataclass(frozen=True)
class Linear:
    """A linear layer; the prefix of its name in transformers may be missing."""

    name: str
    inputs: int
    outputs: int
    bias: bool

    @property
    def matrix(self) -> int:
        """Weights without the bias."""
        return self.inputs * self.outputs

    @property
    def weights(self) -> int:
        """Weights with the bias."""
        return self.matrix + self.outputs * self.bias


@dataclass(frozen=True)
class Size:
    """The weights of a transformer without a head for a task.

    Args:
        depth: transformer layers.
        linear: the linear layers of one of `copies` equal parts.
        copies: as many as there are transformer layers, or 1 where `linear` holds those of all.
        norms: weights of the norms of all layers.
        embeddings: weights before the first layer, with their norm, and after the last.
        pooler: weights of BERT's pooler; 0 without.
        width: dimensions of a token vector.
        intermediate: dimensions inside the feed-forward layer.
        gated: whether that layer has a gate.
        positions: tokens of the longest text.
    """

    depth: int
    linear: tuple[Linear, ...]
    copies: int
    norms: int
    embeddings: int
    pooler: int
    width: int
    heads: int
    intermediate: int
    gated: bool
    positions: int

    @property
    def matrices(self) -> int:
        """Weights of linear layers without biases: what can be in 4 bits."""
        return self.copies * sum(one.matrix for one in self.linear)

    @property
    def weights(self) -> int:
        """All weights."""
        linear = self.copies * sum(one.weights for one in self.linear)
        return linear + self.norms + self.embeddings + self.pooler


def size_of(config: Plain) -> Size | None:
    """The size of the model that a `config.json` describes; None for an unknown family.

    Known are BERT, RoBERTa, ModernBERT, Llama and Qwen2; missing keys have the default of transformers. The
    numbers are those of transformers' `AutoModel`, which takes seconds to load; this takes no time.

    Raises:
        KeyError: if a size without a default is missing.
    """
    family = _FAMILIES.get(str(config.get("model_type")))
    return None if family is None else family(config)


def _bert(config: Plain) -> Size:
    width, inside, layers = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]
    square = ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense")
    rows = config["vocab_size"] + config["max_position_embeddings"] + config.get("type_vocab_size", 2)
    return Size(
        depth=layers,
        copies=layers,
        linear=(
            *(Linear(name, width, width, True) for name in square),
            Linear("intermediate.dense", width, inside, True),
            Linear("output.dense", inside, width, True),
        ),
        norms=layers * 4 * width,  # two, each with a weight and a bias
        embeddings=(rows + 2) * width,
        pooler=(width + 1) * width,
        width=width,
        heads=config["num_attention_heads"],
        intermediate=inside,
        gated=False,
        positions=config["max_position_embeddings"],
    )


def _roberta(config: Plain) -> Size:
    # Positions are counted from behind the padding's row.
    found = _bert(config)
    return replace(found, positions=found.positions - config.get("pad_token_id", 1) - 1)


def _modernbert(config: Plain) -> Size:
    width, inside, layers = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]
    attention, mlp = config.get("attention_bias", False), config.get("mlp_bias", False)
    norm = width * (2 if config.get("norm_bias", False) else 1)
    return Size(
        depth=layers,
        copies=layers,
        linear=(
            Linear("attn.Wqkv", width, 3 * width, attention),
            Linear("attn.Wo", width, width, attention),
            Linear("mlp.Wi", width, 2 * inside, mlp),
            Linear("mlp.Wo", inside, width, mlp),
        ),
        norms=(2 * layers - 1) * norm,  # the first layer takes the embeddings' as its own
        embeddings=config["vocab_size"] * width + 2 * norm,
        pooler=0,
        width=width,
        heads=config["num_attention_heads"],
        intermediate=inside,
        gated=True,
        positions=config["max_position_embeddings"],
    )


def _decoder(config: Plain, *, biased: tuple[str, ...]) -> Size:
    width, inside, layers = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]
    heads = config["num_attention_heads"]
    head = config.get("head_dim") or width // heads
    queries, keys = heads * head, (config.get("num_key_value_heads") or heads) * head
    shapes = {
        "self_attn.q_proj": (width, queries),
        "self_attn.k_proj": (width, keys),
        "self_attn.v_proj": (width, keys),
        "self_attn.o_proj": (queries, width),
        "mlp.gate_proj": (width, inside),
        "mlp.up_proj": (width, inside),
        "mlp.down_proj": (inside, width),
    }
    return Size(
        depth=layers,
        copies=layers,
        linear=tuple(Linear(name, *shape, name in biased) for name, shape in shapes.items()),
        norms=layers * 2 * width,
        embeddings=(config["vocab_size"] + 1) * width,
        pooler=0,
        width=width,
        heads=heads,
        intermediate=inside,
        gated=True,
        positions=config["max_position_embeddings"],
    )


def _llama(config: Plain) -> Size:
    attention = ("q_proj", "k_proj", "v_proj", "o_proj") if config.get("attention_bias") else ()
    mlp = ("gate_proj", "up_proj", "down_proj") if config.get("mlp_bias") else ()
    return _decoder(
        config, biased=(*(f"self_attn.{name}" for name in attention), *(f"mlp.{name}" for name in mlp))
    )


def _qwen2(config: Plain) -> Size:
    return _decoder(config, biased=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"))


_FAMILIES: dict[str, Callable[[Plain], Size]] = {
    "bert": _bert,
    "roberta": _roberta,
    "modernbert": _modernbert,
    "llama": _llama,
    "qwen2": _qwen2,
}


_BERT = {"model_type": "bert", "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2}
_ROBERTA = {
    "model_type": "roberta",
    "vocab_size": 50265,
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
}
_MODERNBERT = {"model_type": "modernbert", "vocab_size": 50368, "max_position_embeddings": 8192}
_QWEN2 = {"model_type": "qwen2", "vocab_size": 151936, "max_position_embeddings": 131072}


def _shape(family: Plain, width: int, layers: int, heads: int, intermediate: int, **others: int) -> Plain:
    return {
        **family,
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": intermediate,
        **others,
    }


CONFIGS: dict[str, Plain] = {
    "google-bert/bert-base-uncased": _shape(_BERT, 768, 12, 12, 3072),
    "google-bert/bert-large-uncased": _shape(_BERT, 1024, 24, 16, 4096),
    "FacebookAI/roberta-base": _shape(_ROBERTA, 768, 12, 12, 3072),
    "FacebookAI/roberta-large": _shape(_ROBERTA, 1024, 24, 16, 4096),
    "answerdotai/ModernBERT-base": _shape(_MODERNBERT, 768, 22, 12, 1152),
    "answerdotai/ModernBERT-large": _shape(_MODERNBERT, 1024, 28, 16, 2624),
    "sentence-transformers/all-MiniLM-L6-v2": _shape(_BERT, 384, 6, 12, 1536),
    "voidism/diffcse-bert-base-uncased-sts": _shape(_BERT, 768, 12, 12, 3072),
    "princeton-nlp/unsup-simcse-bert-large-uncased": _shape(_BERT, 1024, 24, 16, 4096),
    "meta-llama/Llama-2-7b-hf": _shape(
        {"model_type": "llama", "vocab_size": 32000, "max_position_embeddings": 4096}, 4096, 32, 32, 11008
    ),
    "Qwen/Qwen2.5-0.5B": _shape(
        _QWEN2, 896, 24, 14, 4864, num_key_value_heads=2, max_position_embeddings=32768
    ),
    "Qwen/Qwen2.5-1.5B": _shape(_QWEN2, 1536, 28, 12, 8960, num_key_value_heads=2),
    "Qwen/Qwen2.5-7B": _shape(_QWEN2, 3584, 28, 28, 18944, num_key_value_heads=4, vocab_size=152064),
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
    found = _whole(config)
    if found is None or config.layers is None:
        return found
    if problems := too_many(config.layers, found.config):
        raise ConfigError(problems)
    return replace(found, config=shortened(found.config, config.layers))


def _whole(config: BackboneConfig) -> Shape | None:
    """The same with all layers."""
    if config.scratch is not None:
        made = configuration(config.scratch, config.scratch.vocabulary)
        return Shape(made, ", at most", None, Declared(max_length=config.scratch.positions))
    name = config.name or ""
    if not is_here(name):
        file = cached(name, "config.json", config.revision)
        if file is not None:
            words = cached(name, _TOKENIZER, config.revision)
            return Shape(read_config(file.parent), "", config.adapter, _of_cache(file.parent), words)
        known = CONFIGS.get(name)
        return (
            None if known is None else Shape(known, " (as published; its files are not here)", config.adapter)
        )
    folder = expanded(name)
    if not (folder / "config.json").is_file():
        try:
            folder = locate(name)  # the model of a run, an adapter, or a checkpoint
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
    words = next((path for one in (folder, base) if one and (path := one / _TOKENIZER).is_file()), None)
    if base is None:
        return Shape(read_config(folder), "", config.adapter, declared, words)
    return Shape(read_config(base), "", _of_files(folder), declared, words)


def _of_checkpoint(folder: Path) -> Shape | None:
    """What is known of the model that the weights of a checkpoint are copied into."""
    run = run_of(folder)
    if (run / "model").is_dir():
        return shape_of(BackboneConfig(name=str(run / "model")))
    made = recipe(run)
    found = shape_of(made.backbone)
    if found is None or found.declared is None:
        return found
    return replace(found, declared=in_place_of(found.declared, made))


def _of_cache(folder: Path) -> Declared | None:
    """What the hub's files say, as far as they are here: a cache may hold any part of a model."""
    says = read(folder)
    return None if says.pooling is None else says


def _of_files(folder: Path) -> AdapterConfig:
    """The options of an adapter that training continues from."""
    path = folder / "adapter_config.json"
    written, (told, _) = read_mapping(path), stored(folder)
    targets = written.get("target_modules")
    of_files = {
        "r": written.get("r"),
        "dropout": written.get("lora_dropout", 0.0),
        "targets": sorted(targets) if isinstance(targets, list) else targets,
    }
    found = held(path, AdapterConfig, of_files)
    return (
        found
        if told is None
        else replace(found, quantize=told.quantize, double_quantize=told.double_quantize)
    )


def cached(name: str, file: str, revision: str | None) -> Path | None:
    """A file of a hub id, where the hub's cache on this machine has it."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(name, file, revision=revision)
    except HFValidationError:
        return None
    return Path(found) if isinstance(found, str) else None


def measured_size(config: Plain) -> Size | None:
    """How many weights a `config.json` describes; None for a form that nothing here knows."""
    try:
        if (size := size_of(config)) is not None:
            return size

        return measured(config)
    except (KeyError, ValueError, AttributeError):  # a file of a form that nothing here knows
        return None


def measured(config: Plain) -> Size:
    """The size of any model that transformers knows, or of a RAN, built of tensors without content.

    Raises:
        ValueError: for a `model_type` that transformers does not know.
    """
    from transformers import AutoConfig, AutoModel

    from embedrun.backbone import ran  # noqa: F401, transformers knows RAN by it

    shape = AutoConfig.for_model(**{"model_type": "", **config})
    with torch.device("meta"):
        model = AutoModel.from_config(shape)
    linear = tuple(
        Linear(name, module.in_features, module.out_features, module.bias is not None)
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and not name.startswith("pooler.")
    )
    pooler = getattr(model, "pooler", None)
    beside = sum(weight.numel() for weight in pooler.parameters()) if isinstance(pooler, nn.Module) else 0
    every = sum(weight.numel() for weight in model.parameters())
    width = shape.hidden_size
    return Size(
        depth=getattr(shape, "num_hidden_layers", 1),
        copies=1,
        linear=linear,
        norms=0,
        embeddings=every - beside - sum(one.weights for one in linear),
        pooler=beside,
        width=width,
        heads=getattr(shape, "num_attention_heads", 1),
        intermediate=getattr(shape, "intermediate_size", 4 * width),
        gated=False,
        positions=getattr(shape, "max_position_embeddings", 0) or 0,
    )
