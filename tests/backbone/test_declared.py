import json

import pytest

from embedrun.backbone import declared
from embedrun.backbone.declared import Declared, read
from embedrun.errors import DataError
from embedrun.prompts import Prompt


def write(folder, modules, pooling=None, settings=None):
    (folder / "1_Pooling").mkdir()
    (folder / "modules.json").write_text(json.dumps(modules))
    if pooling is not None:
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    if settings is not None:
        (folder / "sentence_bert_config.json").write_text(json.dumps(settings))


def modules(*kinds):
    return [{"idx": i, "path": f"{i}_{kind}" if i else "", "type": kind} for i, kind in enumerate(kinds)]


OLD = [
    {"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {"idx": 2, "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
]


def test_old_keys_give_pooling_normalisation_and_length(tmp_path):
    write(
        tmp_path,
        OLD,
        {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False},
        {"max_seq_length": 77},
    )
    assert read(tmp_path) == Declared(pooling="cls", normalize=True, max_length=77)


HEAD = {"in_features": 8, "out_features": 8, "bias": True, "activation_function": "torch.nn.Tanh"}


def test_tanh_of_a_square_layer_behind_the_first_token_is_our_kept_head(tmp_path):
    write(tmp_path, modules("Transformer", "Pooling", "Dense", "Normalize"), {"pooling_mode": "cls"})
    folder = tmp_path / "2_Dense"
    folder.mkdir()
    (folder / "model.safetensors").touch()
    (folder / "config.json").write_text(json.dumps(HEAD))
    assert read(tmp_path) == Declared(pooling="cls_mlp", normalize=True, head=folder)
    for change in (
        {"out_features": 4},
        {"bias": False},
        {"activation_function": "torch.nn.modules.linear.Identity"},
        {"use_residual": True},
    ):
        (folder / "config.json").write_text(json.dumps({**HEAD, **change}))
        there = {"foreign": ("Dense",)} if "use_residual" in change else {"dense": (folder,)}
        assert read(tmp_path) == Declared(pooling="cls", normalize=True, **there)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("embedrun.json", '{"schema": 99}', "schema 99"),
        ("embedrun.json", '{"schema": 2}', "pooling: no value given"),
        ("modules.json", '[{"idx": 0}]', "not a list of modules"),
    ],
)
def test_files_that_cannot_be_understood_are_input_errors(tmp_path, name, text, says):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=says):
        read(tmp_path)


def prefixed(folder, name, pooling=None):
    write(folder, OLD, {"pooling_mode_mean_tokens": True, **(pooling or {})})
    config = {"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": name}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(config))
    return read(folder)


def test_the_words_that_stand_before_every_text_are_the_prompt(tmp_path):
    assert prefixed(tmp_path, "query").prompt == Prompt("query: {text}")


@pytest.mark.parametrize("name", [None, "document"])
def test_words_that_must_be_asked_for_are_no_prompt_and_are_kept_by_name(name, tmp_path):
    found = prefixed(tmp_path, name)
    assert (found.prompt, found.named) == (None, {"query": "query: "})


def test_our_own_file_gives_prompt_and_edit_and_a_faulty_one_is_the_files_fault(tmp_path):
    own = {"schema": 2, "pooling": "cls", "first_layer": None, "normalize": False, "max_length": 8}
    own |= {"lowercase": False, "prompt": "a {text}", "text_edit": "angle_llm"}
    (tmp_path / "embedrun.json").write_text(json.dumps(own))
    assert read(tmp_path).prompt == Prompt("a {text}", "angle_llm")
    (tmp_path / "embedrun.json").write_text(json.dumps(own | {"prompt": "a"}))
    with pytest.raises(DataError, match=r"embedrun\.json: prompt: expected a template"):
        read(tmp_path)


@pytest.mark.parametrize("packed", [{"quant_method": "fp8"}, "awq"])
def test_weights_in_a_format_of_few_bits_are_refused_before_they_are_read(tmp_path, packed):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", "quantization_config": packed}))
    with pytest.raises(DataError, match=r"quantization_config: .* embedrun neither loads nor"):
        declared.read_config(tmp_path)
    (tmp_path / "config.json").write_text('{"quantization_config": {"quant_method": "bitsandbytes"}}')
    declared.read_config(tmp_path)
