import json

import pytest

from embedrun.backbone.declared import Declared, read
from embedrun.errors import DataError


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
NEW = [
    {"idx": 0, "path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"},
    {
        "idx": 1,
        "path": "1_Pooling",
        "type": "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
    },
]


def test_a_plain_folder_declares_nothing(tmp_path):
    assert read(tmp_path) == Declared()


def test_old_keys_give_pooling_normalisation_and_length(tmp_path):
    write(
        tmp_path,
        OLD,
        {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False},
        {"max_seq_length": 77},
    )
    assert read(tmp_path) == Declared(pooling="cls", normalize=True, max_length=77)


def test_new_keys_give_the_same(tmp_path):
    write(tmp_path, NEW, {"embedding_dimension": 8, "pooling_mode": "max"}, {"do_lower_case": True})
    assert read(tmp_path) == Declared(pooling="max", normalize=False, lowercase=True)


@pytest.mark.parametrize(
    "config",
    [
        {"pooling_mode": ["cls", "mean"]},
        {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True},
    ],
)
def test_several_modes_are_named_together(tmp_path, config):
    write(tmp_path, NEW, config)
    assert read(tmp_path).pooling == "cls+mean"


def test_modules_that_are_not_ours_are_listed(tmp_path):
    write(tmp_path, modules("x.Transformer", "x.Pooling", "x.Dense", "x.Normalize"), None)
    (tmp_path / "1_x.Pooling").mkdir()
    (tmp_path / "1_x.Pooling" / "config.json").write_text("{}")
    assert read(tmp_path).foreign == ("Dense",)
    assert read(tmp_path).pooling == "mean"  # what no key asks for is the mean there


def test_our_own_file_comes_before_the_others(tmp_path):
    write(tmp_path, OLD, {"pooling_mode_cls_token": True})
    own = {"schema": 1, "pooling": "first_last_mean", "first_layer": 1, "normalize": False, "max_length": 9}
    (tmp_path / "embedrun.json").write_text(json.dumps({**own, "lowercase": False}))
    assert read(tmp_path) == Declared(pooling="first_last_mean", first_layer=1, normalize=False, max_length=9)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("embedrun.json", '{"schema": 99}', "schema 99"),
        ("embedrun.json", '{"schema": 1}', "not of the known form"),
        ("embedrun.json", "[]", "not of the known form"),
        ("modules.json", "{", "not readable as JSON"),
        ("modules.json", '[{"idx": 0}]', "not of the known form"),
    ],
)
def test_files_that_cannot_be_understood_are_input_errors(tmp_path, name, text, says):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=says):
        read(tmp_path)
