"""Every option with its unit, range and default, and the check that refuses what is wrong."""

# ruff: noqa: F401 - the names that other packages import from here

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
    LayersConfig,
    LlmConfig,
    LossConfig,
    MiningConfig,
    PoolingConfig,
    PromptsConfig,
    ScratchConfig,
    TeacherConfig,
    TrackingConfig,
    TrainConfig,
    TrainingConfig,
    WhitenConfig,
)
