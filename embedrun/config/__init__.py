"""Every option with its unit, range and default, and the check that refuses what is wrong."""

from embedrun.config.check import Checker
from embedrun.config.generate import GenerateConfig, LlmConfig
from embedrun.config.options import (
    REQUIRED,
    AdapterConfig,
    AnnotateConfig,
    AnnotatorConfig,
    BackboneConfig,
    EvaluateConfig,
    EvaluationConfig,
    GpuConfig,
    LossConfig,
    PoolingConfig,
    ScratchConfig,
    TeacherConfig,
    TrackingConfig,
    TrainConfig,
    TrainingConfig,
)
from embedrun.config.spelling import nearest

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
