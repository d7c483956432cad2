"""The shapes of models on the hub, as their `config.json` has them, for a machine without that file."""

from typing import Any

_BERT = {"model_type": "bert", "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2}
_ROBERTA = {
    "model_type": "roberta",
    "vocab_size": 50265,
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
}
_MODERNBERT = {"model_type": "modernbert", "vocab_size": 50368, "max_position_embeddings": 8192}
_QWEN2 = {"model_type": "qwen2", "vocab_size": 151936, "max_position_embeddings": 131072}


def _shape(
    family: dict[str, Any], width: int, layers: int, heads: int, intermediate: int, **others: int
) -> dict[str, Any]:
    return {
        **family,
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": intermediate,
        **others,
    }


CONFIGS: dict[str, dict[str, Any]] = {
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
