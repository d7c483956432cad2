"""LoRA, QLoRA, and what they need of a machine."""

import json
from importlib.util import find_spec

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaModel

from embedrun.backbone import adapter
from embedrun.backbone.scratch import make
from embedrun.config import AdapterConfig, BackboneConfig, PoolingConfig, ScratchConfig
from embedrun.encoder import Encoder
from embedrun.errors import ConfigError, DataError

TEXTS = ["a dog runs in the park", "a cat", "the old man sits and reads"]


def llama():
    torch.manual_seed(0)
    shape = {"vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 2, "intermediate_size": 24}
    return LlamaModel(LlamaConfig(**shape, num_attention_heads=4, num_key_value_heads=2))


@pytest.fixture
def base(tmp_path):
    """A folder with a small random model, and its pooling."""
    _, tokenizer = make(
        ScratchConfig(vocabulary=100, layers=1, width=8, positions=20), TEXTS, attention="sdpa"
    )
    folder = tmp_path / "base"
    llama().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder, PoolingConfig(name="last_token")


def build(base, **options) -> Encoder:
    folder, pooling = base
    return Encoder.build(BackboneConfig(name=str(folder), adapter=AdapterConfig(**options)), pooling, seed=3)


def trained(base, **options) -> Encoder:
    """An encoder whose matrices are no longer those that change nothing."""
    encoder = build(base, r=4, alpha=8, **options)
    torch.manual_seed(1)
    for weight in adapter.weights(encoder.backbone.model).values():
        torch.nn.init.normal_(weight, std=0.3)
    return encoder.eval()


def test_a_new_adapter_changes_no_vector_and_only_its_matrices_are_trained(base):
    plain = Encoder.build(BackboneConfig(name=str(base[0])), base[1], seed=3)
    encoder = build(base)
    assert (encoder.encode(TEXTS) == plain.encode(TEXTS)).all()
    free = {name for name, weight in encoder.named_parameters() if weight.requires_grad}
    assert free
    assert all(".lora_A." in name or ".lora_B." in name for name in free)
    vectors = encoder(encoder.backbone.tokenize(TEXTS).take([0, 1, 2]))
    vectors.square().sum().backward()
    assert {name for name, weight in encoder.named_parameters() if weight.grad is not None} == free


def test_the_matrices_add_alpha_by_r_times_their_product():
    model = llama()
    adapter.add(model, AdapterConfig(r=2, alpha=6, targets=["q_proj"]))
    layer = model.layers[0].self_attn.q_proj
    torch.nn.init.normal_(layer.lora_B["default"].weight)
    given = torch.randn(3, 16)
    product = layer.lora_B["default"].weight @ layer.lora_A["default"].weight  # (16, 16)
    wanted = given @ (layer.base_layer.weight + 3 * product).T
    torch.testing.assert_close(layer(given), wanted)


def test_dora_gives_each_row_of_the_sum_a_length_and_rs_divides_by_the_root_of_the_rank():
    model = llama()
    adapter.add(model, AdapterConfig(r=4, alpha=6, variant="dora", rs=True, targets=["q_proj"]))
    layer = model.layers[0].self_attn.q_proj.eval()
    torch.nn.init.normal_(layer.lora_B["default"].weight)
    given = torch.randn(3, 16)
    base = layer.base_layer.weight
    rows = base + 3 * layer.lora_B["default"].weight @ layer.lora_A["default"].weight  # 6 / sqrt(4)
    wanted = rows * (base.norm(dim=1) / rows.norm(dim=1))[:, None]
    torch.testing.assert_close(layer(given), given @ wanted.T)


def test_targets_that_match_nothing_are_refused_with_the_names_that_there_are():
    with pytest.raises(ConfigError) as caught:
        adapter.add(llama(), AdapterConfig(targets=["q_prj", "v_proj", "query"]))
    first, second = caught.value.problems
    assert "'q_prj' is not a linear layer; did you mean 'q_proj'?" in first
    assert "down_proj, gate_proj, k_proj, o_proj, q_proj, up_proj, v_proj" in first
    assert "'query' is not a linear layer" in second


def test_merged_and_unmerged_vectors_are_equal_and_the_merged_model_is_plain(base, tmp_path):
    encoder = trained(base, dropout=0.1)
    wanted = encoder.encode(TEXTS)
    adapter.merge(encoder.backbone.model)
    assert not adapter.has_adapter(encoder.backbone.model)
    assert not any("lora" in name for name in encoder.state_dict())
    assert abs(encoder.encode(TEXTS) - wanted).max() < 1e-5
    encoder.save(tmp_path / "merged")
    assert (tmp_path / "merged" / "config.json").is_file()
    assert not (tmp_path / "merged" / "adapter_config.json").exists()
    assert abs(Encoder.load(tmp_path / "merged").encode(TEXTS) - wanted).max() < 1e-5


@pytest.mark.parametrize("variant", ["lora", "dora"])
def test_a_saved_adapter_is_small_and_loads_here_and_in_other_libraries(base, tmp_path, variant):
    from sentence_transformers import SentenceTransformer
    from transformers import AutoModel

    encoder = trained(base, variant=variant)
    wanted = encoder.encode(TEXTS)
    encoder.save(tmp_path / "model")
    names = {path.name for path in (tmp_path / "model").iterdir()}
    assert {"adapter_config.json", "adapter_model.safetensors", "tokenizer.json", "modules.json"} <= names
    assert not {"config.json", "model.safetensors"} & names
    found = load_file(tmp_path / "model" / "adapter_model.safetensors")
    assert all(name.startswith("base_model.model.") for name in found)
    again = Encoder.load(tmp_path / "model")
    assert again.pooling == encoder.pooling
    assert (again.encode(TEXTS) == wanted).all()
    assert abs(SentenceTransformer(str(tmp_path / "model"), device="cpu").encode(TEXTS) - wanted).max() < 1e-6
    mine, theirs = encoder.backbone.model, AutoModel.from_pretrained(tmp_path / "model").eval()
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        torch.testing.assert_close(theirs(ids).last_hidden_state, mine(ids).last_hidden_state)


def test_an_adapter_trained_under_a_language_model_head_is_read(base, tmp_path):
    wanted = trained(base, variant="dora").encode(TEXTS)
    trained(base, variant="dora").save(tmp_path / "model")
    path = tmp_path / "model" / "adapter_model.safetensors"
    renamed = {  # the lengths of rows as peft writes them
        name.replace("base_model.model.", "base_model.model.model.").replace(
            "vector.weight", "vector"
        ): weight
        for name, weight in load_file(path).items()
    }
    save_file(renamed, path, metadata={"format": "pt"})
    assert (Encoder.load(tmp_path / "model").encode(TEXTS) == wanted).all()


def test_an_adapter_that_lacks_a_matrix_or_its_base_is_refused(base, tmp_path):
    trained(base).save(tmp_path / "model")
    path = tmp_path / "model" / "adapter_model.safetensors"
    found = load_file(path)
    found.pop(sorted(found)[0])
    save_file(found, path, metadata={"format": "pt"})
    with pytest.raises(DataError, match="1 tensors are in only one of them"):
        Encoder.load(tmp_path / "model")
    base[0].rename(tmp_path / "moved")
    with pytest.raises(DataError, match=r"holds an adapter, and its base is needed: model .*no such folder"):
        Encoder.load(tmp_path / "model")


def test_frozen_weights_in_bfloat16_keep_matrices_in_float32_through_a_save(base, tmp_path):
    config = BackboneConfig(name=str(base[0]), dtype="bfloat16", adapter=AdapterConfig())
    encoder = Encoder.build(config, base[1], seed=3).eval()
    matrices = adapter.weights(encoder.backbone.model)
    for weight in matrices.values():
        torch.nn.init.normal_(weight, std=0.1)
    assert {weight.dtype for weight in matrices.values()} == {torch.float32}
    frozen = [weight for weight in encoder.parameters() if not weight.requires_grad]
    assert {weight.dtype for weight in frozen} == {torch.bfloat16}
    encoder.save(tmp_path / "model")
    again = Encoder.load(tmp_path / "model")
    for name, weight in adapter.weights(again.backbone.model).items():
        assert torch.equal(weight, matrices[name])
    assert (again.encode(TEXTS) == encoder.encode(TEXTS)).all()


def test_seeded_dropout_reaches_the_matrices_and_depends_on_the_text_alone(base):
    encoder = trained(base, dropout=0.5).train()
    table = encoder.backbone.tokenize(TEXTS)
    seeds = torch.tensor([7, 8, 9])
    whole = encoder(table.take([0, 1, 2]), seeds=seeds)
    alone = encoder(table.take([1]), seeds=seeds[1:2])
    other = encoder(table.take([1]), seeds=seeds[:1])
    torch.testing.assert_close(whole[1:2], alone)
    assert not torch.allclose(alone, other)


QLORA = AdapterConfig(r=4, quantize="nf4", double_quantize=True, compute_dtype="float32")


def save_llama(folder, **shape) -> None:
    LlamaModel(LlamaConfig(vocab_size=100, num_attention_heads=4, **shape)).save_pretrained(folder)
    _, tokenizer = make(
        ScratchConfig(vocabulary=100, layers=1, width=8), ["a dog runs", "a cat"], attention="sdpa"
    )
    tokenizer.save_pretrained(folder)


def test_a_machine_that_cannot_gets_the_weights_unrounded_and_a_warning(tmp_path, capsys):
    if torch.cuda.is_available() and find_spec("bitsandbytes"):
        pytest.skip("this machine can")
    (tmp_path / "embedrun.json").write_text(json.dumps({"base": {"dtype": "bfloat16", "quantize": "nf4"}}))
    config, dtype = adapter.stored(tmp_path)
    assert config is not None
    assert (config.quantize, dtype) == (None, "bfloat16")
    assert "trained on weights of 4 bits (nf4)" in capsys.readouterr().err


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


MACHINE_QLORA = BackboneConfig(name="x", adapter=AdapterConfig(quantize="nf4"))
FLASH = BackboneConfig(name="x", attention="flash_attention_2")


def test_what_cannot_go_together_is_named():
    for config, device, precision, says in [
        (FLASH, "cpu", "auto", "flash_attention_2 needs a CUDA device, and gpu.device is cpu"),
        (MACHINE_QLORA, "cpu", "auto", "4 bits need a CUDA device, and gpu.device is cpu"),
        (BackboneConfig(name="x", dtype="bfloat16"), "auto", "bf16", "an update below 1/256 of a weight"),
    ]:
        (problem,) = adapter.contradictions(config, device=device, precision=precision)
        assert says in problem
