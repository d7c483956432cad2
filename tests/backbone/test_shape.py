from torch import nn
from transformers import AutoConfig, AutoModel

from embedrun.backbone.shape import CONFIGS, size_of

# Of the models' own cards or files, without the language-model head.
PUBLISHED = {
    "google-bert/bert-base-uncased": 109_482_240,
    "google-bert/bert-large-uncased": 335_141_888,
    "FacebookAI/roberta-base": 124_645_632,
    "FacebookAI/roberta-large": 355_359_744,
    "answerdotai/ModernBERT-base": 149_014_272,
    "answerdotai/ModernBERT-large": 394_781_696,
    "sentence-transformers/all-MiniLM-L6-v2": 22_713_216,
    "voidism/diffcse-bert-base-uncased-sts": 109_482_240,
    "princeton-nlp/unsup-simcse-bert-large-uncased": 335_141_888,
    "meta-llama/Llama-2-7b-hf": 6_738_415_616 - 32_000 * 4096,
    "Qwen/Qwen2.5-0.5B": 494_032_768,
    "Qwen/Qwen2.5-1.5B": 1_543_714_304,
    "Qwen/Qwen2.5-7B": 7_615_616_512 - 152_064 * 3584,
}
SMALL = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 3, "intermediate_size": 40}
TOKENS = {f"{name}_token_id": 1 for name in ("pad", "bos", "eos", "cls", "sep")}
CASES = [
    {"model_type": "bert", **SMALL, "num_attention_heads": 2, "max_position_embeddings": 12,
     "type_vocab_size": 5},
    {"model_type": "roberta", **SMALL, "num_attention_heads": 4, "max_position_embeddings": 14,
     "type_vocab_size": 1},
    {"model_type": "modernbert", **SMALL, **TOKENS, "num_attention_heads": 2, "max_position_embeddings": 30,
     "norm_bias": True, "attention_bias": True, "mlp_bias": True},
    {"model_type": "llama", **SMALL, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6,
     "attention_bias": True, "mlp_bias": True, "max_position_embeddings": 30},
    {"model_type": "qwen2", **SMALL, "num_attention_heads": 4, "num_key_value_heads": 1,
     "max_position_embeddings": 30},
]  # fmt: skip


def test_a_bert_of_one_layer_is_counted_by_hand():
    config = {"model_type": "bert", "vocab_size": 10, "hidden_size": 4, "num_hidden_layers": 1}
    size = size_of({**config, "num_attention_heads": 1, "intermediate_size": 6, "max_position_embeddings": 3})
    assert size is not None
    # 10 words, 3 positions, 2 types, three norms; four square layers, 4 x 6 and 6 x 4; the pooler.
    assert size.others == 15 * 4 + 3 * 8
    assert size.weights == 84 + 4 * (16 + 4) + (24 + 6) + (24 + 4) + (16 + 4)
    assert size.matrices == 4 * 16 + 2 * 24


def test_published_models_have_their_published_size():
    for name, weights in PUBLISHED.items():
        size = size_of(CONFIGS[name])
        assert size is not None
        assert size.weights == weights


def test_counts_and_linear_layers_are_those_of_the_real_model():
    for config in CASES:
        size = size_of(config)
        assert size is not None
        model = AutoModel.from_config(AutoConfig.for_model(**config))
        assert size.weights == sum(weight.numel() for weight in model.parameters())
        linear = {
            name: module
            for name, module in model.named_modules()
            if isinstance(module, nn.Linear) and "pooler" not in name
        }
        assert {(layer.name, layer.inputs, layer.outputs) for layer in size.linear} == {
            (name, module.in_features, module.out_features) for name, module in linear.items()
        }
        assert size.matrices == sum(module.weight.numel() for module in linear.values())
        assert size.gated == (config["model_type"] not in ("bert", "roberta"))
