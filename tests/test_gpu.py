import os
from collections.abc import Iterator

import pytest
import torch

from embedrun.config import GpuConfig
from embedrun.gpu import Compute, problems, start


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def no_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture
def old_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device of before bf16."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: including_emulation)


@pytest.mark.parametrize(
    ("device", "precision", "problem"),
    [
        ("auto", "auto", None),
        ("cpu", "fp32", None),
        ("cpu", "bf16", None),
        ("auto", "bf16", None),
        ("cuda", "auto", "gpu.device: cuda asked for"),
        ("auto", "fp16", "gpu.precision: fp16 needs a CUDA device"),
        ("cpu", "fp16", "gpu.precision: fp16 needs a CUDA device"),
    ],
)
def test_what_a_machine_without_cuda_cannot_do(no_cuda, device: str, precision: str, problem: str | None):
    found = problems(GpuConfig(device=device, precision=precision))
    assert [text.startswith(problem or "") for text in found] == ([True] if problem else [])


def test_two_problems_are_reported_together(no_cuda):
    assert len(problems(GpuConfig(device="cuda", precision="fp16"))) == 2


def test_an_old_device_has_no_bf16_but_its_processor_may(old_cuda):
    assert problems(GpuConfig(device="cuda", precision="bf16")) == [
        "gpu.precision: this CUDA device has no bf16; choose fp16"
    ]
    assert problems(GpuConfig(device="cpu", precision="bf16")) == []
    assert problems(GpuConfig(device="cuda", precision="fp16")) == []


def test_auto_is_float32_on_a_cpu(no_cuda):
    assert start(GpuConfig(threads=1)) == Compute(torch.device("cpu"), "fp32")


def test_auto_is_fp16_on_a_device_of_before_bf16(old_cuda):
    assert start(GpuConfig(threads=1)) == Compute(torch.device("cuda"), "fp16")


def test_threads_that_are_asked_for_are_set(no_cuda, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    start(GpuConfig(threads=3))
    assert torch.get_num_threads() == 3


def test_without_a_number_omp_num_threads_is_left_to_decide(no_cuda, monkeypatch):
    torch.set_num_threads(3)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    start(GpuConfig())
    assert torch.get_num_threads() == 3


def test_without_either_the_cores_of_this_process_are_used_not_those_of_the_machine(no_cuda, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 5})
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    start(GpuConfig())
    assert torch.get_num_threads() == 2


def test_deterministic_refuses_other_kernels(no_cuda, monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")  # the user's own choice stays
    start(GpuConfig(threads=1, deterministic=True))
    assert torch.are_deterministic_algorithms_enabled()
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"


@pytest.mark.parametrize(("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)])
def test_the_forward_pass_computes_in_the_training_precision(precision: str, dtype: torch.dtype):
    with Compute(torch.device("cpu"), precision).autocast():
        product = torch.ones(2, 2) @ torch.ones(2, 2)
    assert product.dtype == dtype
    assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32


@pytest.mark.parametrize(("precision", "scales"), [("fp32", False), ("bf16", False), ("fp16", True)])
def test_only_fp16_scales_its_gradients(precision: str, scales: bool):
    assert Compute(torch.device("cpu"), precision).scaler().is_enabled() is scales


def test_a_cpu_reports_no_device_memory():
    assert Compute(torch.device("cpu"), "fp32").memory() is None
