import os
from collections.abc import Iterator

import pytest
import torch

from embedrun.config import GpuConfig
from embedrun.gpu import problems, start


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(False)
    torch.backends.cudnn.deterministic = False
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cuda.enable_cudnn_sdp(True)


@pytest.fixture
def no_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture
def old_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device of before bf16."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: including_emulation)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (7, 5))


@pytest.mark.parametrize(
    ("device", "precision", "problem"),
    [
        ("auto", "auto", None),
        ("cpu", "bf16", None),
        ("cuda", "auto", "gpu.device: cuda asked for"),
        ("cpu", "fp16", "gpu.precision: fp16 needs a CUDA device"),
        ("cpu", "tf32", "gpu.precision: tf32 needs a CUDA device; choose fp32"),
    ],
)
def test_what_a_machine_without_cuda_cannot_do(no_cuda, device: str, precision: str, problem: str | None):
    found = problems(GpuConfig(device=device, precision=precision))
    assert [text.startswith(problem or "") for text in found] == ([True] if problem else [])


def test_an_old_device_has_no_bf16_but_its_processor_may(old_cuda):
    assert problems(GpuConfig(device="cuda", precision="bf16")) == [
        "gpu.precision: this CUDA device has no bf16; choose fp32 or fp16"
    ]
    assert problems(GpuConfig(device="cpu", precision="bf16")) == []
    assert problems(GpuConfig(device="cuda", precision="fp16")) == []


def test_compiling_on_a_cpu_needs_a_compiler(no_cuda, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert problems(GpuConfig(compile=True)) == ["gpu.compile: on a CPU it needs a C++ compiler; install g++"]
    (tmp_path / "g++").touch(mode=0o755)
    assert problems(GpuConfig(compile=True)) == []


def test_threads_that_are_asked_for_are_set(no_cuda, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    start(GpuConfig(threads=3))
    assert torch.get_num_threads() == 3


def test_each_process_has_a_device_of_its_own(old_cuda, monkeypatch):
    chosen = []
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    assert start(GpuConfig(threads=1, processes=4), place=2).device == torch.device("cuda", 2)
    assert chosen == [2]


def test_deterministic_refuses_other_kernels(no_cuda, monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")  # the user's own choice stays
    start(GpuConfig(threads=1, deterministic=True))
    assert torch.are_deterministic_algorithms_enabled()
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"
    assert torch.backends.cudnn.deterministic
    assert not torch.backends.cudnn.benchmark


def test_the_compiler_asks_no_process_that_runs_files_of_the_current_folder(monkeypatch):
    monkeypatch.setenv("PYTHONSAFEPATH", "")  # so that it comes back in the end
    monkeypatch.delenv("PYTHONSAFEPATH")
    start(GpuConfig(device="cpu"))
    assert "PYTHONSAFEPATH" not in os.environ
    start(GpuConfig(device="cpu", compile=True))
    assert os.environ["PYTHONSAFEPATH"] == "1"


@pytest.mark.parametrize(
    ("device", "devices", "have"),
    [("cuda", 3, "3 CUDA devices"), ("cpu", 1, ""), ("cuda", 4, "")],
)
def test_fewer_devices_than_processes_are_refused(
    device: str, devices: int, have: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: devices)
    gpu = GpuConfig(device=device, processes=4)  # type: ignore[arg-type]
    found = problems(gpu)
    assert [problem.split("machine has ")[1].split(";")[0] for problem in found] == ([have] if have else [])
