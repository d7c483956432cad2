"""What of a model and its optimizer a checkpoint holds, by name."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn


def trained(model: nn.Module) -> dict[str, Tensor]:
    """What training changes: weights that are not frozen, and buffers; the model's own tensors.

    Frozen weights come from the model that a run starts from; under an adapter they are nearly all.
    """
    frozen = {
        name for name, weight in model.named_parameters(remove_duplicate=False) if not weight.requires_grad
    }
    plain = {name for name, _ in model.named_parameters(remove_duplicate=False)} - frozen
    plain |= {name for name, _ in model.named_buffers(remove_duplicate=False)}
    # Weights in 4 bits have more entries there, for their scales, and those are frozen too.
    return {name: weight for name, weight in model.state_dict().items() if name in plain}


def moments(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's own tensors as `exp_avg/<name of the weight>`.

    A weight that has had no gradient yet has none; tied weights have theirs once, under their first name.
    """
    names = {id(weight): name for name, weight in model.named_parameters()}
    return {
        f"{kind}/{names[id(weight)]}": value
        for weight, kinds in optimizer.state.items()
        for kind, value in kinds.items()
    }


def put_moments(found: dict[str, Tensor], model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Make the optimizer's state the one that `moments` gave, bit for bit.

    Args:
        found: `exp_avg/<name of the weight>`, ...; every name is one of the model's.
        model: whose weights the optimizer changes.
        optimizer: with the groups of weights that it had then.
    """
    weights = dict(model.named_parameters())
    counted_there = {id(weight) for weight in _counted_on_device(optimizer)}
    optimizer.state.clear()
    for key, value in found.items():
        kind, name = key.split("/", 1)
        weight = weights[name]
        if kind == "step":
            own = value.to(weight.device if id(weight) in counted_there else "cpu")  # ()
        else:
            # As its weight lies in memory: another order of the numbers may be rounded another way.
            own = torch.empty_like(weight, dtype=value.dtype, requires_grad=False).copy_(value)
        optimizer.state[weight][kind] = own


def _counted_on_device(optimizer: torch.optim.Optimizer) -> Iterator[Tensor]:
    """Weights whose count of steps is kept on their device, as the fused and the capturable AdamW do."""
    for group in optimizer.param_groups:
        if group.get("fused") or group.get("capturable"):
            yield from group["params"]


def own_copy(tensor: Tensor) -> Tensor:
    """A copy on the CPU; safetensors takes neither memory that tied weights share nor a stride."""
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


def size(tensors: dict[str, Tensor]) -> int:
    """Bytes that the numbers take."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
