"""RAN, the Recurrent Attention Network: a backbone for texts of any length.

Importing this package tells transformers of it. `AutoModel`, and sentence-transformers with it, read an
exported RAN after ``import embedrun.backbone.ran``; without it they do not know its `model_type`.
"""

from transformers import AutoConfig, AutoModel

from embedrun.backbone.ran.config import RanConfig
from embedrun.backbone.ran.model import RanModel

__all__ = ["RanConfig", "RanModel"]

AutoConfig.register(RanConfig.model_type, RanConfig, exist_ok=True)
AutoModel.register(RanConfig, RanModel, exist_ok=True)
