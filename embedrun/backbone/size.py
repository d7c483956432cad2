"""How many weights a model has, by its configuration alone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Linear:
    """A linear layer.

    Args:
        name: as transformers has it; what stands before it may be missing.
        inputs: dimensions.
        outputs: dimensions.
        bias: whether it has one.
    """

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
        heads: attention heads.
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


def size_of(config: Mapping[str, Any]) -> Size | None:
    """The size of the model that a `config.json` describes; None for a family that is not known here.

    The numbers are those of transformers' `AutoModel`, which is loaded in seconds; this takes no time.

    Args:
        config: of one of the families BERT, RoBERTa, ModernBERT, Llama, Qwen2; what it leaves out has the
            default of transformers.

    Raises:
        KeyError: if it lacks a size that has none.
    """
    family = _FAMILIES.get(str(config.get("model_type")))
    return None if family is None else family(config)


def _bert(config: Mapping[str, Any]) -> Size:
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


def _roberta(config: Mapping[str, Any]) -> Size:
    # Positions are counted from behind the padding's row.
    found = _bert(config)
    return replace(found, positions=found.positions - config.get("pad_token_id", 1) - 1)


def _modernbert(config: Mapping[str, Any]) -> Size:
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


def _decoder(config: Mapping[str, Any], *, biased: tuple[str, ...]) -> Size:
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


def _llama(config: Mapping[str, Any]) -> Size:
    attention = ("q_proj", "k_proj", "v_proj", "o_proj") if config.get("attention_bias") else ()
    mlp = ("gate_proj", "up_proj", "down_proj") if config.get("mlp_bias") else ()
    return _decoder(
        config, biased=(*(f"self_attn.{name}" for name in attention), *(f"mlp.{name}" for name in mlp))
    )


def _qwen2(config: Mapping[str, Any]) -> Size:
    return _decoder(config, biased=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"))


_FAMILIES: dict[str, Callable[[Mapping[str, Any]], Size]] = {
    "bert": _bert,
    "roberta": _roberta,
    "modernbert": _modernbert,
    "llama": _llama,
    "qwen2": _qwen2,
}
