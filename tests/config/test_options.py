"""Every option: its type, unit, range and default, and the file of conf/ that sets it."""

from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from omegaconf import OmegaConf

from embedrun.config import REQUIRED, Checker, options, presets

SCHEMAS = [
    value for value in vars(options).values() if is_dataclass(value) and value.__module__ == options.__name__
]
FIELDS = [(schema, item) for schema in SCHEMAS for item in fields(schema)]
CLOSED = {
    "backbone": options.BackboneConfig,
    "pooling": options.PoolingConfig,
    "training": options.TrainingConfig,
    "gpu": options.GpuConfig,
    "tracking": options.TrackingConfig,
    "evaluation": options.EvaluationConfig,
    "loss": options.LossConfig,
}
PRESETS = [(group, choice) for group in CLOSED for choice in presets.groups().get(group, [])]


@cache
def content(group: str, choice: str) -> dict[str, Any]:
    # As Hydra reads it: plain YAML takes 5e-5 for text, and a choice may build on another.
    text = yaml.safe_dump(presets.whole(presets.folder(), f"{group}/{choice}"), sort_keys=False)
    return OmegaConf.to_container(OmegaConf.create(text))  # type: ignore[return-value]


def test_every_option_says_its_unit():
    assert [f"{schema.__name__}.{item.name}" for schema, item in FIELDS if not item.metadata["unit"]] == []


@pytest.mark.parametrize("group", CLOSED)
def test_every_preset_binds_without_a_problem_and_sets_every_option(group: str):
    choices = presets.groups()[group]
    assert choices
    for choice in choices:
        data = content(group, choice)
        checker = Checker()
        checker.build(CLOSED[group], data)
        missing = [f"{key}: no value given; pass {key}=..." for key in data if data[key] == REQUIRED]
        assert checker.problems == missing, choice
        # `loss.matryoshka` and `loss.layers` go with any mix, and one lists the second.
        names = [item.name for item in fields(CLOSED[group])]
        assert [name for name in names if name in data or group != "loss"] == list(data), choice


def test_only_a_choice_that_the_papers_differ_in_is_left_to_the_user():
    left_open = {(g, c, k) for g, c in PRESETS for k, value in content(g, c).items() if value == REQUIRED}
    assert left_open == {
        ("pooling", "first_last_mean", "first_layer"),
        ("pooling", "mean_padded_legacy", "padded_to"),
        ("pooling", "cls_last_mean_padded_legacy", "padded_to"),
    }


def test_the_roots_give_every_group_and_option():
    roots = {
        "train": options.TrainConfig,
        "evaluate": options.EvaluateConfig,
        "annotate": options.AnnotateConfig,
        "generate": options.GenerateConfig,
        "collect": options.CollectConfig,
    }
    for root, schema in roots.items():
        data = OmegaConf.load(Path(presets.folder()) / f"{root}.yaml")
        groups = {key for entry in data.pop("defaults") if not isinstance(entry, str) for key in entry}
        data.pop("hydra")
        given = {key for key in groups if not key.startswith("override ")} | set(data)
        assert given == {item.name for item in fields(schema)}
