"""With what a checkpoint was made: another library, device or thread count may round another way."""

import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import torch

import embedrun


def versions() -> dict[str, str]:
    """Versions of libraries, and what else decides how numbers are rounded, by name."""
    # Asking for the devices of a run that uses none would start them.
    used = torch.cuda.is_initialized()
    devices = (
        [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())] if used else []
    )
    return {
        "embedrun": embedrun.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": version("transformers"),
        "numpy": version("numpy"),
        "cuda": (torch.version.cuda or "none") if used else "none",
        "devices": ", ".join(devices) or "none",
        "cpu": f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}",
        "threads": str(torch.get_num_threads()),
    }


def differences(state: Mapping[str, Any]) -> list[str]:
    """What is not as it was when a checkpoint was made, such as `torch 2.12.0 then, 2.13.0 now`.

    With any difference a run goes on all the same, and may round other than it would have.

    Args:
        state: of the checkpoint, as `restore` returns it. Call this after `restore`, when the model is on
            its device.
    """
    then, now = state.get("versions", {}), versions()
    names = [*now, *(name for name in then if name not in now)]
    pairs = {name: (then.get(name, "unknown"), now.get(name, "unknown")) for name in names}
    return [f"{name} {old} then, {new} now" for name, (old, new) in pairs.items() if old != new]
