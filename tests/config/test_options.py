"""Every option: its type, unit, range and default, and the file of conf/ that sets it."""

from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from hydra import compose, initialize_config_dir
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
    with initialize_config_dir(str(presets.folder() / group), version_base=None):
        return OmegaConf.to_container(compose(choice))  # type: ignore[return-value]


def test_every_option_says_its_unit():
    assert [f"{schema.__name__}.{item.name}" for schema, item in FIELDS if not item.metadata["unit"]] == []


def test_every_default_obeys_its_own_type_and_bounds():
    assert {schema.__name__: faults for schema in SCHEMAS if (faults := faults_of_defaults(schema))} == {}


def faults_of_defaults(schema: type) -> list[str]:
    required: dict[str, Any] = {}
    for item in fields(schema):
        if item.default == REQUIRED:
            kind = get_type_hints(schema)[item.name]
            empty = [] if get_origin(kind) is list else {}
            named = get_args(kind)[0] if get_origin(kind) is Literal else "x" if kind is str else empty
            required[item.name] = None if type(None) in get_args(kind) else named
    checker = Checker()
    checker.build(schema, required)
    groups = {item.name for item in fields(schema) if is_dataclass(get_type_hints(schema)[item.name])}
    # A group that is given empty lacks its own required options, and nothing else may be wrong.
    return [text for text in checker.problems if text.partition(".")[0] not in groups]


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
        assert list(data) == [item.name for item in fields(CLOSED[group])], choice


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
