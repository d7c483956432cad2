"""Gradient checkpointing: forget what is inside a layer, and compute it again in the backward pass."""

from typing import Any

from embedrun.backbone.dropout import same_again
from embedrun.errors import ConfigError


def enable(model: Any) -> None:
    """Keep only what goes into each layer while training (Chen et al. 2016, arXiv:1604.06174), in place.

    The gradient is the same to the last bit: dropout repeats itself, by torch's random state or by the seeds
    of the texts. Passes without dropout are made in evaluation mode and keep everything.

    Args:
        model: of transformers.

    Raises:
        ConfigError: if it has no layers that can be computed again.
    """
    if not model.supports_gradient_checkpointing:
        raise ConfigError(
            f"training.gradient_checkpointing: this model ({model.config.model_type}) cannot; leave it "
            "false, and lower training.micro_batch_size for less memory"
        )
    # Renamed in the course of transformers 5. It also lets gradients in at the embeddings, which are frozen
    # under an adapter.
    switch = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
    # The reentrant way loses the gradient of an adapter, and takes no context.
    switch({"use_reentrant": False, "context_fn": same_again})
