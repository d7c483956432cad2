import json
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, LlamaModel

from embedrun.backbone import adapter
from embedrun.backbone.scratch import make
from embedrun.config import AdapterConfig, BackboneConfig, PoolingConfig, ScratchConfig
from embedrun.encoder import Encoder
from embedrun.errors import ConfigError, DataError

QLORA = AdapterConfig(r=4, quantize="nf4", double_quantize=True, compute_dtype="float32")


def save_llama(folder, **shape) -> None:
    LlamaModel(LlamaConfig(vocab_size=100, num_attention_heads=4, **shape)).save_pretrained(folder)
    _, tokenizer = make(
        ScratchConfig(vocabulary=100, layers=1, width=8), ["a dog runs", "a cat"], attention="sdpa"
    )
    tokenizer.save_pretrained(folder)


def test_transformers_is_told_the_type_double_quantisation_and_what_to_compute_in(monkeypatch):
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    told = adapter.loading(QLORA)
    config = told["quantization_config"]
    assert (config.load_in_4bit, config.bnb_4bit_quant_type) == (True, "nf4")
    assert (config.bnb_4bit_use_double_quant, config.bnb_4bit_compute_dtype) == (True, torch.float32)
    assert told["device_map"] == {"": 3}


def test_a_weight_in_four_bits_counts_as_often_as_it_has_numbers():
    layer = nn.Linear(6, 4)
    assert adapter.count(layer) == 28
    layer.weight = nn.Parameter(
        torch.zeros(12, 1, dtype=torch.uint8), requires_grad=False
    )  # two numbers a byte
    layer.weight.quant_state = SimpleNamespace(shape=(4, 6))  # type: ignore[attr-defined]  # as bitsandbytes has it
    assert adapter.count(layer) == 28


def test_what_was_in_four_bits_is_written_down_and_read_again(tmp_path, monkeypatch):
    model = LlamaModel(LlamaConfig(vocab_size=10, hidden_size=8, num_hidden_layers=1, num_attention_heads=1))
    assert adapter.describe(model) == {"dtype": "float32", "quantize": None}
    model.is_quantized = True
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    model.config.quantization_config = adapter.loading(QLORA)["quantization_config"]
    described = adapter.describe(model)
    assert described == {
        "dtype": "float32",
        "quantize": "nf4",
        "double_quantize": True,
        "compute_dtype": "float32",
    }
    (tmp_path / "embedrun.json").write_text(json.dumps({"base": described}))
    monkeypatch.setattr(adapter, "quantize_problems", lambda config: [])
    config, dtype = adapter.stored(tmp_path)
    assert config is not None
    assert (config.quantize, config.compute_dtype, dtype) == ("nf4", "float32", "float32")


def test_a_machine_that_cannot_gets_the_weights_unrounded_and_a_warning(tmp_path, capsys):
    if torch.cuda.is_available() and find_spec("bitsandbytes"):
        pytest.skip("this machine can")
    (tmp_path / "embedrun.json").write_text(json.dumps({"base": {"dtype": "bfloat16", "quantize": "nf4"}}))
    config, dtype = adapter.stored(tmp_path)
    assert config is not None
    assert (config.quantize, dtype) == (None, "bfloat16")
    assert "trained on weights of 4 bits (nf4)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("base", "says"),
    [
        ({"dtype": "float32", "of_later": 1}, "base.of_later: unknown key"),
        ({"dtype": "float32", "quantize": "int3"}, "base.quantize: expected one of nf4 or null, got 'int3'"),
        ({"dtype": "int8"}, "base.dtype: expected one of float32, bfloat16, got 'int8'"),
    ],
)
def test_what_the_files_cannot_say_of_a_base_is_named_with_file_and_key(tmp_path, base, says):
    (tmp_path / "embedrun.json").write_text(json.dumps({"base": base}))
    with pytest.raises(DataError, match=rf"embedrun\.json: {says}"):
        adapter.stored(tmp_path)


def test_a_folder_without_such_words_says_nothing(tmp_path):
    assert adapter.stored(tmp_path) == (None, None)
    (tmp_path / "embedrun.json").write_text('{"schema": 1}')
    assert adapter.stored(tmp_path) == (None, None)


def test_loading_in_four_bits_fails_clearly_where_it_cannot_be(tmp_path):
    if torch.cuda.is_available() and find_spec("bitsandbytes"):
        pytest.skip("this machine can")
    config = BackboneConfig(name=str(tmp_path), adapter=QLORA)
    with pytest.raises(ConfigError, match=r"backbone\.adapter\.quantize: nf4 needs"):
        Encoder.build(config, PoolingConfig(name="last_token"), seed=0)


def test_an_adapter_is_not_merged_into_four_bits():
    model = LlamaModel(LlamaConfig(vocab_size=10, hidden_size=8, num_hidden_layers=1, num_attention_heads=1))
    adapter.add(model, AdapterConfig(r=1))
    model.is_quantized = True
    with pytest.raises(ConfigError, match="cannot be merged into weights of 4 bits"):
        adapter.merge(model)


@pytest.mark.gpu
def test_a_step_on_weights_in_four_bits_moves_the_adapter_alone(tmp_path):
    pytest.importorskip("bitsandbytes")
    save_llama(tmp_path / "base", hidden_size=128, num_hidden_layers=2, intermediate_size=256)
    config = BackboneConfig(name=str(tmp_path / "base"), adapter=QLORA)
    encoder = Encoder.build(config, PoolingConfig(name="last_token"), seed=0).to("cuda")
    optimizer = torch.optim.AdamW([weight for weight in encoder.parameters() if weight.requires_grad], lr=0.1)
    frozen = {name: weight.clone() for name, weight in encoder.named_parameters() if not weight.requires_grad}
    table = encoder.backbone.tokenize(["a dog runs", "a cat"])
    with torch.autocast("cuda", dtype=torch.bfloat16):
        encoder(table.take([0, 1])).square().sum().backward()
    optimizer.step()
    assert all(
        torch.equal(weight, frozen[name]) for name, weight in encoder.named_parameters() if name in frozen
    )
    encoder.eval().save(tmp_path / "model")
    again = Encoder.load(tmp_path / "model", device="cuda")
    assert abs(again.encode(["a dog"]) - encoder.encode(["a dog"])).max() < 1e-5
