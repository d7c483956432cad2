"""Folders of small models with random weights and a tokenizer of the same family's kind."""

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AutoModel,
    BertConfig,
    Gemma3TextConfig,
    LlamaConfig,
    ModernBertConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
    RobertaConfig,
    XLMRobertaConfig,
)

# Those that also have unpadded passes; `put` knows qwen3, xlm-roberta and gemma3, too.
FAMILIES = ("bert", "roberta", "modernbert", "llama", "qwen2")
_WORDS = [
    "a little dog ran fast over the hill and was happy to see the big red ball again",
    'summarize the sentence "the cat sits" in one word: "Cat", it said; query: who runs?',
    "the dogs were running, playing and barking all day; nobody's cat liked that",
]
_SHAPE = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 66,
    "initializer_range": 0.1,
}


def put(folder: Path, family: str) -> Path:
    """Write a model of one of `FAMILIES`, of 16 dimensions and 64 positions at least."""
    words = {"bert": _wordpiece, "llama": _metaspace}.get(family, _byte_level)(family)
    words.save_pretrained(folder)
    special = {"bos_token_id": words.bos_token_id, "eos_token_id": words.eos_token_id}
    shape = _SHAPE | {"vocab_size": len(words), "pad_token_id": words.pad_token_id} | special
    config: Any = {
        "bert": BertConfig,
        "roberta": RobertaConfig,
        "modernbert": lambda **own: ModernBertConfig(**own, local_attention=8, global_attn_every_n_layers=2),
        "llama": lambda **own: LlamaConfig(**own, num_key_value_heads=1),
        "qwen2": lambda **own: Qwen2Config(**own, num_key_value_heads=1),
        "qwen3": lambda **own: Qwen3Config(**own, num_key_value_heads=1, head_dim=8),
        "xlm-roberta": XLMRobertaConfig,
        "gemma3": lambda **own: Gemma3TextConfig(
            **own, num_key_value_heads=1, head_dim=8, use_bidirectional_attention=True
        ),
    }[family](**shape)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        AutoModel.from_config(config).save_pretrained(folder)
    return folder


def _wordpiece(_: str) -> PreTrainedTokenizerFast:
    words = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    words.normalizer = normalizers.BertNormalizer(lowercase=True)
    words.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words.train_from_iterator(_WORDS, trainers.WordPieceTrainer(vocab_size=120, special_tokens=marks))
    words.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        mask_token="[MASK]", model_max_length=64,
    )  # fmt: skip


def _byte_level(family: str) -> PreTrainedTokenizerFast:
    words = Tokenizer(models.BPE())
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    first, last = {
        "roberta": ("<s>", "</s>"),
        "xlm-roberta": ("<s>", "</s>"),
        "modernbert": ("[CLS]", "[SEP]"),
    }.get(family, ("", "<|end|>"))
    marks = [mark for mark in (first, "<pad>", last) if mark]  # RoBERTa's padding is number 1
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=380, special_tokens=marks, initial_alphabet=alphabet)
    words.train_from_iterator(_WORDS, trainer)
    names: dict[str, Any] = {"pad_token": "<pad>", "eos_token": last, "model_max_length": 64}
    if first:
        ends = (first, words.token_to_id(first)), (last, words.token_to_id(last))
        words.post_processor = processors.TemplateProcessing(
            single=f"{first} $A {last}", special_tokens=list(ends)
        )
        names |= {"bos_token": first}
    return PreTrainedTokenizerFast(tokenizer_object=words, **names)


def _metaspace(_: str) -> PreTrainedTokenizerFast:
    """As LLaMA's: spaces are a letter, one stands before every text, and what is no piece is bytes."""
    words = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    steps = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    words.normalizer = normalizers.Sequence(steps)
    marks = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    words.train_from_iterator(_WORDS, trainers.BpeTrainer(vocab_size=400, special_tokens=marks))
    words.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="<unk>",
        model_max_length=64,
    )  # fmt: skip
