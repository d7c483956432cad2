"""BERT for encoding, read without transformers, whose import takes longer than all the rest of a start."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from embedrun.files import read_json

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Whole = Callable[[], "tuple[PreTrainedModel, PreTrainedTokenizerBase]"]

# What a config.json may say. Any other key may mean another architecture; _FIXED are the values of ours.
_SIZES = {
    "hidden_size": int,
    "num_hidden_layers": int,
    "num_attention_heads": int,
    "intermediate_size": int,
    "vocab_size": int,
    "max_position_embeddings": int,
    "type_vocab_size": int,
    "layer_norm_eps": float,
}
_FIXED: Mapping[str, object] = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}
_OF_NO_EFFECT = {
    "_name_or_path", "architectures", "attention_probs_dropout_prob", "bos_token_id", "classifier_dropout",
    "dtype", "eos_token_id", "gradient_checkpointing", "hidden_dropout_prob", "id2label", "initializer_range",
    "label2id", "pad_token_id", "tie_word_embeddings", "torch_dtype", "transformers_version", "use_cache",
}  # fmt: skip
_SPECIAL = {
    "pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}  # fmt: skip
_WORDS_FIXED: Mapping[str, object] = {
    **_SPECIAL,
    "never_split": None,
    "do_basic_tokenize": True,
    "additional_special_tokens": [],
    "extra_special_tokens": [],
    "truncation_side": "right",
}
_WORDS_OF_NO_EFFECT = {
    "added_tokens_decoder", "backend", "clean_up_tokenization_spaces", "do_lower_case", "is_local",
    "local_files_only", "max_length", "model_max_length", "model_specific_special_tokens", "name_or_path",
    "pad_to_multiple_of", "pad_token_type_id", "padding_side", "special_tokens_map_file", "stride",
    "strip_accents", "tokenize_chinese_chars", "tokenizer_class", "truncation_strategy",
}  # fmt: skip
_PROBED = 64  # tokens of a tokenizer
_NO_LIMIT = int(1e30)  # tokens, as transformers says it


class Words:
    """A WordPiece tokenizer, with the attributes of transformers' that encoding without a prompt needs."""

    eos_token_id = None
    mask_token = _SPECIAL["mask_token"]
    truncation_side = "right"

    def __init__(self, backend: "Tokenizer", model_max_length: int) -> None:
        self.backend_tokenizer = backend
        self.model_max_length = model_max_length
        self.pad_token_id: int | None = backend.token_to_id(_SPECIAL["pad_token"])


class Output(NamedTuple):
    """As transformers calls them; ``(texts, tokens, dim)`` each, `hidden_states` only where asked for."""

    last_hidden_state: Tensor
    hidden_states: tuple[Tensor, ...] | None


class Bert(nn.Module):
    """The forward pass of transformers' `BertModel` with sdpa, without dropout; its weights have its names.

    Source: Devlin et al. 2019, arXiv:1810.04805; transformers' `modeling_bert.py`, whose sums are in this
    order. The pooler is held, and not computed.

    Args:
        whole: reads the same folder with transformers, for whatever this class cannot do.
    """

    def __init__(self, config: SimpleNamespace, whole: Whole) -> None:
        super().__init__()
        self.config = config
        self.whole = whole
        width = config.hidden_size
        self.embeddings = _modules(
            word_embeddings=_table(config.vocab_size, width),
            position_embeddings=_table(config.max_position_embeddings, width),
            token_type_embeddings=_table(config.type_vocab_size, width),
            LayerNorm=nn.LayerNorm(width, eps=config.layer_norm_eps),
        )
        self.encoder = _modules(layer=nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers)))
        self.pooler = _modules(dense=nn.Linear(width, width), activation=nn.Tanh())

    def get_input_embeddings(self) -> nn.Module:
        """The table of the tokens' vectors."""
        return self.embeddings.word_embeddings

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        output_hidden_states: bool = False,
        return_dict: bool = True,
    ) -> Output:
        """Token vectors of texts; both arguments ``(texts, tokens)``, the mask 1 for real tokens."""
        parts, tokens = self.embeddings, input_ids.shape[1]
        kind = parts.token_type_embeddings.weight[0]  # (dim,)
        place = parts.position_embeddings.weight[:tokens]  # (tokens, dim)
        vectors = parts.LayerNorm(parts.word_embeddings(input_ids) + kind + place)  # (texts, tokens, dim)
        # (texts, 1, 1, tokens)
        seen = None if attention_mask is None else attention_mask.bool()[:, None, None]
        every = [vectors]
        for layer in self.encoder.layer:
            vectors = layer(vectors, seen)  # (texts, tokens, dim)
            every.append(vectors)
        return Output(vectors, tuple(every) if output_hidden_states else None)


class Layer(nn.Module):
    """One layer of it: attention, then two linear layers with GELU between."""

    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__()
        width, inside, eps = config.hidden_size, config.intermediate_size, config.layer_norm_eps
        self.heads = config.num_attention_heads
        self.attention = _modules(
            self=_modules(**{name: nn.Linear(width, width) for name in ("query", "key", "value")}),
            output=_modules(dense=nn.Linear(width, width), LayerNorm=nn.LayerNorm(width, eps=eps)),
        )
        self.intermediate = _modules(dense=nn.Linear(width, inside))
        self.output = _modules(dense=nn.Linear(inside, width), LayerNorm=nn.LayerNorm(width, eps=eps))

    def forward(self, vectors: Tensor, seen: Tensor | None) -> Tensor:
        """From ``(texts, tokens, dim)`` to the same; `seen`, bool, ``(texts, 1, 1, tokens)``: no padding."""
        heads, after = self.attention.self, self.attention.output
        query, key, value = (  # (texts, heads, tokens, head's dim) each
            layer(vectors).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (heads.query, heads.key, heads.value)
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        mixed = mixed.transpose(1, 2).flatten(2)  # (texts, tokens, dim)
        vectors = after.LayerNorm(after.dense(mixed) + vectors)
        inner = functional.gelu(self.intermediate.dense(vectors))  # (texts, tokens, intermediate)
        return self.output.LayerNorm(self.output.dense(inner) + vectors)


def _table(rows: int, width: int) -> nn.Embedding:
    # Weights of its own would be drawn from the normal distribution, which on the meta device imports the
    # compiler of torch.
    return nn.Embedding(rows, width, _weight=torch.empty(rows, width))  # (rows, width)


def _modules(**named: nn.Module) -> Any:
    """A module that only holds others; one of them may be called `self`."""
    held = nn.Module()
    for name, module in named.items():
        held.add_module(name, module)
    return held


def read(folder: Path, whole: Whole) -> tuple[Bert, Words] | None:
    """Model and tokenizer of a folder, in float32; None for whatever this module does not know to the letter.

    That is any unknown option or weight, and any damage: transformers reads those, and says what is wrong.
    """
    try:
        config = _config(read_json(folder / "config.json"))
        words = _words(folder, config.vocab_size)
        return _with_weights(config, folder, whole), words
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except Exception:  # files from anywhere fail in any way; whoever reads them next says so
        return None


def complete(model: Bert) -> "tuple[PreTrainedModel, PreTrainedTokenizerBase]":
    """transformers' model of the same folder, with the very weights of this one, and its tokenizer."""
    full, tokenizer = model.whole()
    full.to(model.embeddings.word_embeddings.weight.device)  # its buffers
    for name, weight in model.named_parameters():
        place, _, last = name.rpartition(".")
        setattr(full.get_submodule(place), last, weight)
    return full.train(model.training), tokenizer


def _known(given: Mapping[str, object], fixed: Mapping[str, object], others: set[str]) -> bool:
    return all(
        value == fixed[name] and type(value) is type(fixed[name]) if name in fixed else name in others
        for name, value in given.items()
    )


def _require(*facts: bool) -> None:
    if not all(facts):
        raise ValueError("transformers must read it")


def _config(given: dict[str, Any]) -> SimpleNamespace:
    sizes: dict[str, Any] = {"type_vocab_size": 2, "layer_norm_eps": 1e-12}
    sizes |= {name: given[name] for name in _SIZES if name in given}
    _require(
        all(type(sizes[name]) is kind for name, kind in _SIZES.items()),
        "hidden_act" in given,
        _known(given, _FIXED, {*_SIZES, *_OF_NO_EFFECT}),
        sizes["num_attention_heads"] >= 1,
        sizes["hidden_size"] % sizes["num_attention_heads"] == 0,
    )
    return SimpleNamespace(**{**given, **sizes})


def _with_weights(config: SimpleNamespace, folder: Path, whole: Whole) -> Bert:
    from safetensors.torch import load_file

    with torch.device("meta"):  # no weight is drawn at random only to be replaced
        model = Bert(config, whole)
    _require([file.name for file in folder.glob("*.safetensors*")] == ["model.safetensors"])
    weights = load_file(folder / "model.safetensors")
    weights.pop("embeddings.position_ids", None)  # 0, 1, 2, ..., which older versions saved
    _require(all(weight.is_floating_point() for weight in weights.values()))
    model.load_state_dict({name: weight.float() for name, weight in weights.items()}, assign=True)
    return model.train()


def _words(folder: Path, rows: int) -> Words:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    beside, file = folder / "special_tokens_map.json", read_json(folder / "tokenizer.json")
    options = _contents(read_json(folder / "tokenizer_config.json"))
    tokens = _contents(read_json(beside)) if beside.is_file() else {}
    vocabulary = file["model"]["vocab"]
    special = {token: vocabulary[token] for token in sorted(_SPECIAL.values(), key=vocabulary.__getitem__)}
    flags = {"special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    _require(
        not (folder / "added_tokens.json").exists(),
        options.get("tokenizer_class") in ("BertTokenizer", "BertTokenizerFast"),
        _known(tokens, _SPECIAL, set()),
        _known(options, _WORDS_FIXED, _WORDS_OF_NO_EFFECT),
        file["added_tokens"]
        == [{"id": place, "content": token, **flags} for token, place in special.items()],
        set(options.get("added_tokens_decoder", {})) <= set(map(str, special.values())),
        len(vocabulary) >= rows / 2,
    )
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token=_SPECIAL["unk_token"]))
    backend.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=options.get("tokenize_chinese_chars", True),
        strip_accents=options.get("strip_accents"),
        lowercase=options.get("do_lower_case", True),
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    backend.add_special_tokens(list(special))
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    _require(knows_words(backend, set(special.values()), vocabulary[_SPECIAL["unk_token"]]))
    return Words(backend, options.get("model_max_length", _NO_LIMIT))


def knows_words(backend: "Tokenizer", special: set[int], unknown: int | None) -> bool:
    """Whether to a tokenizer any word is known of those that it has itself, evenly spread.

    Its own, since to a tokenizer of another script or of proteins every English word may be unknown.
    """
    size = backend.get_vocab_size()
    places = set(range(0, size, max(1, size // _PROBED))) - special
    encoded = backend.encode_batch([backend.decode([place]) for place in places], add_special_tokens=False)
    return any(unknown not in tokens.ids and set(tokens.ids) - special for tokens in encoded)


def _contents(tokens: dict[str, Any]) -> dict[str, Any]:
    """The text of each token, also of those that are written out with their flags."""
    return {
        name: value["content"] if isinstance(value, dict) and "content" in value else value
        for name, value in tokens.items()
    }
