import json
from pathlib import Path

import pytest
from transformers import LlamaConfig, LlamaModel

from embedrun.backbone.scratch import make
from embedrun.config import ScratchConfig, presets

SHAPE = {"vocab_size": 100, "hidden_size": 16, "num_hidden_layers": 2, "intermediate_size": 24}


@pytest.fixture(autouse=True)
def _no_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of a known speed."""
    monkeypatch.setattr("embedrun.estimate.steps.rate", lambda device, kind: 1e9)


@pytest.fixture
def price(embedrun):
    """The rows that `check` prints of a backbone, by their first column."""

    def run(*overrides: str) -> dict[str, str]:
        checked = embedrun("check", "+experiment=quickstart", "gpu=auto", *overrides)
        assert checked.code == 0, checked.err
        lines = [line.split("  ", 1) for line in checked.out.splitlines() if "  " in line]
        return {name.strip(): text.strip() for name, text in lines}

    return run


@pytest.fixture
def llama() -> Path:
    """A folder with a Llama of which only `config.json` is here."""
    folder = Path("llama")
    folder.mkdir()
    (folder / "config.json").write_text(
        json.dumps({"model_type": "llama", **SHAPE, "num_attention_heads": 2, "max_position_embeddings": 20})
    )
    return folder


def of_folder(folder: Path) -> tuple[str, ...]:
    return ("backbone=bert_base", f"backbone.name={folder}", "pooling=mean")


# 100 x 16 and a norm; two layers of 4 x 16 x 16 + 3 x 16 x 24 and two norms.
WEIGHTS = 100 * 16 + 16 + 2 * (4 * 256 + 3 * 384 + 2 * 16)


def test_the_length_is_that_which_the_model_is_read_at(price, llama):
    own = {"schema": 1, "pooling": "mean", "first_layer": None, "normalize": False, "lowercase": False}
    (llama / "embedrun.json").write_text(json.dumps({**own, "max_length": 30}))
    found = price(*of_folder(llama), "training.batch_size=8", "gpu=cpu")
    # 16 texts of 30 tokens, although its configuration names 20 positions, which Llama does not count.
    assert found["memory, estimated"].startswith(f"{(16 * 30 * 2 * 4 * 256 + 16 * WEIGHTS) / 2**20:.1f} MiB")


def test_a_configuration_without_weights_is_enough(price, llama):
    found = price(*of_folder(llama), "training.batch_size=8", "gpu=cpu")
    assert found["parameters"] == f"{WEIGHTS:,}"
    assert found["of them trained"] == f"{WEIGHTS:,}"
    # 16 texts of 20 tokens, 2 layers, 4 (10 x 16 + 4 x 24) bytes; 16 bytes a weight.
    assert 16 * 20 * 2 * 4 * 256 == 655_360
    assert found["memory, estimated"].startswith(
        f"{(655_360 + 16 * WEIGHTS) / 2**20:.1f} MiB: weights 0.0 MiB"
    )
    assert found["memory, estimated"].endswith("activations 0.6 MiB")


def test_a_teacher_weighs_four_bytes_a_weight(price, embedrun, llama):
    # BERT-base has 109,482,240 weights, 417.6 MiB; all else is 0.7 MiB.
    teachers = "training.teachers=[{name: google-bert/bert-base-uncased}, {name: someone/else}]"
    options = (*of_folder(llama), "training.batch_size=8", "gpu=cpu", "loss=mse_teacher", teachers)
    found = price(*options)
    assert found["memory, estimated"].startswith("0.4 GiB: ")
    assert found["memory, estimated"].endswith(" + teachers 0.4 GiB")
    assert found["time, estimated"].endswith("for the steps alone, teachers and scoring not counted")
    printed = embedrun("check", "+experiment=quickstart", *options).out
    assert "without that of someone/else, of which nothing is known here\n" in printed


def test_sam_keeps_a_copy_of_what_it_trains(price):
    # 109,482,240 weights without the pooler's, 4 bytes each, are 0.41 GiB: four times, or five.
    options = ("backbone=bert_base", "backbone.max_length=4", "training.batch_size=2")
    assert price(*options)["memory, estimated"].startswith("1.6 GiB: ")
    found = price(*options, "training.optimizer=sam")
    assert found["memory, estimated"].startswith("2.0 GiB: ")
    assert found["memory, estimated"].endswith(" + SAM's copy 0.4 GiB")


def test_an_adapter_trains_its_matrices_alone(price, llama):
    found = price(*of_folder(llama), "backbone.adapter={r: 2, targets: [q_proj, down_proj]}")
    matrices = 2 * (2 * (16 + 16) + 2 * (24 + 16))
    assert found["of them trained"] == f"{matrices:,}"
    assert found["parameters"] == f"{WEIGHTS + matrices:,}"


def test_targets_that_the_model_has_not_are_refused_before_anything_is_loaded(refused, llama):
    options = ("+experiment=quickstart", "gpu=auto", *of_folder(llama))
    said = refused("check", *options, "backbone.adapter={targets: [qproj]}")
    assert "'qproj' is no linear layer; did you mean 'q_proj'?" in said


def test_a_pooler_is_trained_only_where_it_pools(price):
    bert = ("backbone=bert_base", "gpu=auto")
    pooler = 768 * 769
    assert price(*bert, "pooling=cls")["of them trained"] == f"{109_482_240 - pooler:,}"
    assert price(*bert, "pooling=pooler")["of them trained"] == "109,482,240"
    assert price(*bert, "pooling=cls_mlp")["of them trained"] == "109,482,240"  # a head as large


def test_a_model_from_nothing_is_priced_by_its_shape(price):
    # 4,000 word pieces at most, 64 positions, 2 types.
    shape = ("backbone.scratch.positions=64", "backbone.scratch.layers=1", "backbone.scratch.width=8")
    layer = 4 * 72 + (8 * 32 + 32) + (32 * 8 + 8) + 4 * 8
    assert price(*shape)["parameters"] == f"{(4000 + 64 + 2 + 2) * 8 + layer + 72:,}, at most"
    assert price("backbone=ran_tiny")["parameters"].endswith(", at most")


def test_a_model_that_nothing_here_describes_is_said_to_be_unknown(price):
    found = price("backbone=bert_base", "backbone.name=someone/else")
    assert found["parameters"] == "not known: no configuration of someone/else on this machine"
    assert "memory, estimated" not in found


def test_an_adapter_folder_is_priced_with_its_base(price, tmp_path):
    from embedrun.config import AdapterConfig, BackboneConfig, PoolingConfig
    from embedrun.encoder import Encoder

    LlamaModel(LlamaConfig(**SHAPE, num_attention_heads=2, max_position_embeddings=20)).save_pretrained(
        tmp_path / "base"
    )
    # 5 special tokens and 26 letters, twice each, of 100 rows.
    shape = ScratchConfig(vocabulary=100, layers=1, width=8)
    _, tokenizer = make(shape, ["abcdefghijklm nopqrstuvwxyz"], attention="sdpa")
    tokenizer.save_pretrained(tmp_path / "base")
    config = BackboneConfig(name=str(tmp_path / "base"), adapter=AdapterConfig(r=2, targets=["q_proj"]))
    encoder = Encoder.build(config, PoolingConfig(name="last_token"), seed=0)
    encoder.save(tmp_path / "model")
    found = price(*of_folder(tmp_path / "model"))
    assert found["of them trained"] == f"{sum(w.numel() for w in encoder.parameters() if w.requires_grad):,}"
    assert found["parameters"] == f"{sum(w.numel() for w in encoder.parameters()):,}"


@pytest.mark.parametrize("name", presets.groups()["backbone"])
def test_every_backbone_composes_and_is_priced_without_its_files(price, name):
    found = price(f"backbone={name}", "pooling=mean", "training.batch_size=4")
    assert int(found["parameters"].split()[0].strip(",").replace(",", "")) > 100_000
    assert "activations" in found["memory, estimated"]


def test_what_this_machine_lacks_is_said_and_the_configuration_is_valid_all_the_same(embedrun, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    checked = embedrun("check", "+experiment=angle_llama")
    assert checked.code == 0
    assert "train would not start here: backbone.adapter.quantize: nf4 needs a CUDA device" in checked.out
    assert "79,953,920" in checked.out  # 32 layers x 32 x (4 x 8,192 + 3 x 15,104)
    assert "the configuration is valid" in checked.out


def test_training_in_four_bits_without_cuda_ends_before_anything_is_read(refused, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    said = refused("train", "+experiment=angle_llama")
    assert "backbone.adapter.quantize: nf4 needs a CUDA device, and this machine has no usable one" in said
