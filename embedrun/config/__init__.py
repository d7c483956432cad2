"""Every option with its unit, range and default, and the check that refuses what is wrong."""

from embedrun.config.check import Checker, nearest
from embedrun.config.options import (
    REQUIRED,
    AdapterConfig,
    AnnotateConfig,
    AnnotatorConfig,
    BackboneConfig,
    EvaluateConfig,
    EvaluationConfig,
    GenerateConfig,
    GpuConfig,
    LlmConfig,
    LossConfig,
    PoolingConfig,
    ScratchConfig,
    TeacherConfig,
    TrackingConfig,
    TrainConfig,
    TrainingConfig,
)

__all__ = [
    "REQUIRED",
    "AdapterConfig",
    "AnnotateConfig",
    "AnnotatorConfig",
    "BackboneConfig",
    "Checker",
    "EvaluateConfig",
    "EvaluationConfig",
    "GenerateConfig",
    "GpuConfig",
    "LlmConfig",
    "LossConfig",
    "PoolingConfig",
    "ScratchConfig",
    "TeacherConfig",
    "TrackingConfig",
    "TrainConfig",
    "TrainingConfig",
    "nearest",
]
