"""The options of `embedrun collect`, and the root that sets them."""

from dataclasses import fields
from typing import Any

import pytest
from omegaconf import OmegaConf

from embedrun.config import Checker, presets
from embedrun.config.options import CollectConfig, SplitsConfig


def root() -> dict[str, Any]:
    data = OmegaConf.to_container(OmegaConf.load(presets.folder() / "collect.yaml"))
    assert isinstance(data, dict)
    return {str(key): value for key, value in data.items() if key not in ("defaults", "hydra")}


def test_the_root_sets_every_option_in_order():
    data = root()
    assert list(data) == [item.name for item in fields(CollectConfig)]
    assert list(data["splits"]) == [item.name for item in fields(SplitsConfig)]


def test_only_the_output_is_left_to_the_user():
    checker = Checker()
    checker.build(CollectConfig, root())
    assert checker.problems == ["output: no value given; pass output=..."]


def test_the_root_has_the_defaults_of_the_options():
    data = root()
    for item in fields(CollectConfig):
        if item.name not in ("output", "repositories", "splits"):
            assert data[item.name] == item.default, item.name
    assert data["splits"] == {item.name: item.default for item in fields(SplitsConfig)}


@pytest.mark.parametrize("schema", [CollectConfig, SplitsConfig])
def test_every_option_says_its_unit(schema):
    assert all(item.metadata["unit"].strip() for item in fields(schema))
