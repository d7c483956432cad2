import pytest
import torch

from embedrun.backbone import adapter
from embedrun.config import AdapterConfig, BackboneConfig, ScratchConfig

QLORA = BackboneConfig(name="x", adapter=AdapterConfig(quantize="nf4"))
FLASH = BackboneConfig(name="x", attention="flash_attention_2")


@pytest.fixture
def has(monkeypatch):
    """Make the machine one with or without CUDA and packages."""

    def make(*, cuda: bool, packages: tuple[str, ...] = ()) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
        for module in (adapter,):
            monkeypatch.setattr(module, "find_spec", lambda name: name if name in packages else None)

    return make


def test_four_bits_without_cuda_and_bitsandbytes_name_both(has):
    has(cuda=False)
    first, second = adapter.machine_problems(QLORA)
    assert "backbone.adapter.quantize: nf4 needs a CUDA device" in first
    assert "needs bitsandbytes; pip install 'embedrun[qlora]'" in second
    has(cuda=True, packages=("bitsandbytes",))
    assert adapter.machine_problems(QLORA) == []


def test_flash_attention_without_cuda_and_its_package_names_both(has):
    has(cuda=False)
    first, second = adapter.machine_problems(FLASH)
    assert "flash_attention_2 needs a CUDA device" in first
    assert "flash-attn, which is not installed" in second
    has(cuda=True, packages=("flash_attn",))
    assert adapter.machine_problems(FLASH) == []


def test_a_plain_backbone_and_a_plain_adapter_need_nothing(has):
    has(cuda=False)
    assert adapter.machine_problems(BackboneConfig(name="x")) == []
    assert adapter.machine_problems(BackboneConfig(name="x", adapter=AdapterConfig())) == []


@pytest.mark.parametrize(
    ("config", "device", "precision", "says"),
    [
        (FLASH, "cpu", "auto", "flash_attention_2 needs a CUDA device, and gpu.device is cpu"),
        (FLASH, "auto", "fp32", "computes in 16 bits, and gpu.precision is fp32"),
        (QLORA, "cpu", "auto", "4 bits need a CUDA device, and gpu.device is cpu"),
        (
            BackboneConfig(name="x", dtype="bfloat16"),
            "auto",
            "bf16",
            "a step of less than 1/256 of a weight is lost",
        ),
        (  # the name may be that of an adapter, which no new one is put on
            BackboneConfig(name="x", dtype="bfloat16"),
            "auto",
            "auto",
            "Leave it null (gpu.precision=bf16 computes in bfloat16 all the same, and under a model that is "
            "an adapter the weights keep their type)",
        ),
        (
            BackboneConfig(name=None, scratch=ScratchConfig(), adapter=AdapterConfig()),
            "auto",
            "auto",
            "backbone.adapter",
        ),
        (
            BackboneConfig(name=None, scratch=ScratchConfig(), dtype="float32"),
            "auto",
            "auto",
            "backbone.dtype",
        ),
    ],
)
def test_what_cannot_go_together_is_named(config, device, precision, says):
    (problem,) = adapter.contradictions(config, device=device, precision=precision)
    assert says in problem


@pytest.mark.parametrize(
    "config",
    [
        QLORA,
        FLASH,
        BackboneConfig(name="x", dtype="bfloat16", adapter=AdapterConfig()),
        BackboneConfig(name="x"),
    ],
)
def test_what_can_is_not(config):
    assert adapter.contradictions(config, device="auto", precision="bf16") == []
