"""Train, score and reproduce sentence-embedding models."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from embedrun.encoder import Encoder

__version__ = "0.1.0"
__all__ = ["Encoder", "__version__"]


def __getattr__(name: str) -> Any:
    # Importing embedrun must not import torch: --help and completion pass through here.
    if name == "Encoder":
        return import_module("embedrun.encoder").Encoder
    raise AttributeError(f"module 'embedrun' has no attribute {name!r}")
