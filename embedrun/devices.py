"""What a training step takes on CUDA devices that are not here, from operations counted without one."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from embedrun.backbone.layers import depth_of, shortened
from embedrun.config import presets
from embedrun.files import Plain, read_yaml

_GB = 1e9
_OPTIMIZER = 28  # bytes that AdamW moves for each weight: three read and written, the gradient read
_FREE = ("aten::empty.memory_format", "aten::empty_like", "aten::detach", "aten::_unsafe_view")


@dataclass(frozen=True)
class Operation:
    """What one operation computes and moves, in floating-point operations and bytes."""

    flops: float
    bytes: float


class Operations(TorchDispatchMode):
    """Counts what runs inside, in `counted`; operations by the table of torch's FlopCounterMode."""

    def __init__(self) -> None:
        super().__init__()
        self.counted: list[Operation] = []

    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if not func.is_view and func.name() not in _FREE:
            count = flop_registry.get(func.overloadpacket)
            work = 0 if count is None else count(*args, **(kwargs or {}), out_val=out)
            moved = sum(tensor.nbytes for tensor in _tensors([args, kwargs, out]))
            self.counted.append(Operation(work, moved))
        return out


def _tensors(tree: object) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, Mapping | list | tuple):
        for part in tree.values() if isinstance(tree, Mapping) else tree:
            yield from _tensors(part)


@cache
def counted(
    config: str, texts: int, length: int, half: bool, frozen: bool
) -> tuple[tuple[Operation, int], ...]:
    """The operations of a forward and a backward pass of a model, each with how often it comes.

    Args:
        config: that of transformers, as JSON.
        length: tokens of each text.
        half: whether it computes in 16 bits, else in float32.
        frozen: whether the weights have no gradient, as under an adapter.
    """
    from transformers import AutoConfig, AutoModel

    from embedrun.backbone import ran  # noqa: F401, transformers knows RAN by it

    plain = json.loads(config)
    depth, found = depth_of(plain) or 1, []
    for layers in (1, 2):  # all layers are alike
        with torch.device("meta"):
            model = AutoModel.from_config(AutoConfig.for_model(**shortened(plain, layers)))
            ids = torch.zeros(texts, length, dtype=torch.long)
        model.to(torch.bfloat16 if half else torch.float32).train().requires_grad_(not frozen)
        if frozen:
            model.get_input_embeddings().requires_grad_(True)
        with Operations() as one_step:
            model(input_ids=ids).last_hidden_state.sum().backward()
        found.append(one_step.counted)
    once, twice = (Counter(operations) for operations in found)
    return tuple((one, once[one] + (depth - 1) * (twice[one] - once[one])) for one in twice)


def seconds(
    device: str, precision: str, operations: Sequence[tuple[Operation, int]], *, trained: int
) -> tuple[float, float]:
    """The least and the most time of a step on one device.

    Each operation takes the longer of its computing and its moving, at the shares of the peaks that a step
    reaches, at least as long as a kernel does. The processor that starts the kernels either keeps ahead of
    the device, or each waits for the other. `trained` weights are updated by AdamW.
    """
    known = _known()
    peaks, shares = known["devices"][device], known["shares"]
    products = peaks[precision] * 1e12 * shares["products"]
    moved = peaks["bandwidth"] * 1e12 * shares["bandwidth"]
    least = known["kernel"] * 1e-6
    computed = sum(often * max(one.flops / products, one.bytes / moved, least) for one, often in operations)
    on_device = computed * known["count"]["time"] + _OPTIMIZER * trained / moved
    kernels = known["count"]["kernels"] * sum(often for _, often in operations)
    quick, slow = (kernels * microseconds * 1e-6 for microseconds in known["host"])
    return max(on_device, quick), on_device + slow


@cache
def _known() -> Plain:
    return read_yaml(presets.folder() / "devices.yaml")


def lines(
    config: Plain,
    *,
    texts: int,
    length: float,
    precision: str,
    trained: int,
    frozen: bool,
    memory: int,
    times: float,
) -> list[str]:
    """A line for each device: memory that is needed of what there is, and minutes for 1,000 steps.

    `times` is how often the passes come in a step, a pass forward counted as a third.
    """
    half = precision in ("bf16", "fp16")
    operations = counted(json.dumps(config, sort_keys=True), texts, max(1, round(length)), half, frozen)
    found = []
    for name, device in _known()["devices"].items():
        ends = (1000 / 60 * times * part for part in seconds(name, precision, operations, trained=trained))
        fits = "" if memory <= device["memory"] * _GB else ", more than it has"
        minutes = " to ".join(f"{end:.2g}" for end in ends)
        found.append(f"{name}: {memory / _GB:.1f} of {device['memory']} GB{fits}, {minutes} minutes")
    return found
