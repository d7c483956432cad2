"""Processor, memory, GPU, and what each computes with; language settings."""

import locale
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

from embedrun.commands.doctor_findings import Finding

_CPU_BF16 = ("amx_bf16", "avx512_bf16", "bf16")  # of /proc/cpuinfo, fastest first; the last is of ARM


def findings() -> Iterator[Finding]:
    """All of it."""
    yield Finding("system", "ok", platform.platform())
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield Finding("processor", "ok", f"{platform.machine()}, {cores} of {os.cpu_count()} cores at hand")
    yield Finding("memory", "ok", memory())
    yield from _torch()
    yield text_finding(sys.stdout.encoding, locale.getpreferredencoding(False))


def memory() -> str:
    """How much there is, and how much of it is free."""
    pages = {name: os.sysconf(name) for name in ("SC_PHYS_PAGES", "SC_AVPHYS_PAGES", "SC_PAGE_SIZE")}
    whole = pages["SC_PHYS_PAGES"] * pages["SC_PAGE_SIZE"] / 2**30
    free = pages["SC_AVPHYS_PAGES"] * pages["SC_PAGE_SIZE"] / 2**30
    return f"{whole:.1f} GiB, {free:.1f} GiB unused"


def text_finding(output: str | None, files: str) -> Finding:
    """Whether text is written as UTF-8.

    Args:
        output: encoding of standard output.
        files: encoding of files that name none.
    """
    both = f"output {output}, files {files}"
    if "utf" in (output or "").lower() and "utf" in files.lower():
        return Finding("text", "ok", both)
    advice = "set LC_ALL=C.UTF-8 or PYTHONUTF8=1, or letters beyond ASCII may not be shown"
    return Finding("text", "note", f"{both}; {advice}")


def _torch() -> Iterator[Finding]:
    try:
        import torch

        product = (torch.ones(2, 2) @ torch.ones(2, 2)).sum().item()
    except Exception as fault:  # a library that does not load raises what it likes
        yield Finding("torch", "fault", f"cannot be used: {' '.join(str(fault).split())}")
        return
    if product != 8:
        yield Finding("torch", "fault", "a product of two matrices is wrong")
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
    given = "".join(f", {name}={os.environ[name]}" for name in names if name in os.environ)
    yield Finding("threads", "ok", f"{torch.get_num_threads()} of torch{given}")
    yield Finding("processor precision", "ok", f"fp32; {cpu_bf16(_cpu_flags())}")
    if not torch.cuda.is_available():
        why = f"; this torch is built for CUDA {torch.version.cuda}" if torch.version.cuda else ""
        yield Finding(
            "gpu", "note", f"none that CUDA can use{why}; gpu=cpu and gpu=auto train on the processor"
        )
        return
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        kinds = ["fp32", "fp16"]
        kinds += ["tf32"] if (properties.major, properties.minor) >= (8, 0) else []
        with torch.cuda.device(index):
            kinds += ["bf16"] if torch.cuda.is_bf16_supported(False) else []
        size = f"{properties.total_memory / 2**30:.1f} GiB, CUDA {torch.version.cuda}"
        yield Finding(f"gpu {index}", "ok", f"{properties.name}, {size}: {', '.join(kinds)}")


def _cpu_flags() -> set[str]:
    try:
        return set(Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split())
    except OSError:
        return set()


def cpu_bf16(flags: set[str]) -> str:
    """Whether the processor computes in bfloat16.

    Args:
        flags: of the processor, as Linux names them.
    """
    found = next((flag for flag in _CPU_BF16 if flag in flags), None)
    return "bf16 is emulated, slower than fp32" if found is None else f"bf16 in hardware ({found})"
