"""Weights in shards: each process holds a part of them, of their gradients and of what AdamW keeps of them.

A layer is whole on a device only while it computes. torch's `fully_shard` does it (FSDP; Zhao et al. 2023,
arXiv:2304.11277); here stands what the rest of the training has to know of it. A sharded tensor is torch's
`DTensor`, known here by its `full_tensor`.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from embedrun.backbone.layers import depth_of
from embedrun.config import AdapterConfig, GpuConfig, TrainingConfig
from embedrun.encoder import Encoder
from embedrun.training.processes import Processes


def problems(gpu: GpuConfig, training: TrainingConfig, adapter: AdapterConfig | None) -> list[str]:
    """Options that do not go with weights in shards."""
    size = gpu.processes * gpu.nodes
    wrong = {
        f"needs several processes, got {size}; raise gpu.processes": size == 1,
        "does not go with gpu.compile": gpu.compile,
        "does not go with gpu.precision=fp16; choose bf16": gpu.precision == "fp16",
        "does not go with training.optimizer=sam": training.optimizer == "sam",
        "does not go with weights in 4 bits": adapter is not None and adapter.quantize is not None,
        "with training.micro_batch_size needs batches that all processes share equally: a batch_size that "
        f"{size} divides, without batch_tokens and distinct_texts": training.micro_batch_size is not None
        and bool(training.batch_size % size or training.batch_tokens or training.distinct_texts),
    }
    return [f"gpu.shard: {text}" for text, is_so in wrong.items() if gpu.shard == "full" and is_so]


def shard(encoder: Encoder, processes: Processes) -> None:
    """Leave this process its part of each layer, and of what stands beside the layers."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model: Any = encoder.backbone.model
    mesh = init_device_mesh(encoder.backbone.device.type, (processes.size,))
    depth = depth_of(model.config.to_dict())
    lists = [part for part in model.modules() if isinstance(part, nn.ModuleList) and len(part) == depth]
    for layer in (layer for layers in lists for layer in layers):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    for part in _sharded(model):
        # The gradient is a sum over processes, not their mean.
        part.set_gradient_divide_factor(1.0)
        part.set_force_sum_reduction_for_comms(True)
    encoder.backbone.one_pass = True  # all processes run a layer as often


def _sharded(model: nn.Module) -> list[Any]:
    return [part for part in model.modules() if hasattr(part, "set_gradient_divide_factor")]


@contextlib.contextmanager
def gathered(encoder: Encoder) -> Iterator[None]:
    """Inside, every process has whole weights, for passes that the others do not make; collective."""
    parts = _sharded(encoder.backbone.model) if encoder.backbone.one_pass else []
    for part in parts:
        part.set_reshard_after_forward(False)
        part.unshard()
    try:
        yield
    finally:
        for part in parts:
            part.reshard()
            part.set_reshard_after_forward(True)


def is_shard(tensor: Tensor) -> bool:
    """Whether other processes hold parts of the tensor."""
    return hasattr(tensor, "full_tensor")


def whole(tensor: Tensor) -> Tensor:
    """The whole tensor; collective, if it is in shards."""
    return tensor.full_tensor() if is_shard(tensor) else tensor  # type: ignore[attr-defined]


def fill(target: Any, value: Tensor) -> None:
    """Copy a whole tensor into one that may be in shards; every process has the whole one."""
    if is_shard(target):
        from torch.distributed.tensor import distribute_tensor

        value = value.to(target.device)
        value = distribute_tensor(value, target.device_mesh, target.placements, src_data_rank=None).to_local()
        target = target.to_local()
    with torch.no_grad():
        target.copy_(value)


def alike(tensors: Sequence[Tensor]) -> list[list[Tensor]]:
    """Tensors in shards, and the others: torch's functions over many take one kind at a time."""
    kinds = [[tensor for tensor in tensors if is_shard(tensor) is kind] for kind in (False, True)]
    return [kind for kind in kinds if kind]


def total_norm(gradients: Sequence[Tensor]) -> Tensor:
    """The norm of all gradients, those of other processes' parts too; a scalar. Collective."""
    norms = [whole(nn.utils.get_total_norm(kind)) for kind in alike(gradients)]
    return norms[0] if len(norms) == 1 else nn.utils.get_total_norm(norms)
