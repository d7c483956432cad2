from dataclasses import fields
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from embedrun.config import REQUIRED, Checker, presets
from embedrun.config.options import GenerateConfig, LlmConfig

MODEL = {"kind": "local", "name": "x"}


def root() -> dict:
    return OmegaConf.to_container(OmegaConf.load(Path(presets.folder()) / "generate.yaml"))  # type: ignore


def test_the_root_gives_every_group_and_option_with_its_default():
    data = root()
    groups = {key for entry in data.pop("defaults") if isinstance(entry, dict) for key in entry}
    data.pop("hydra")
    options = {item.name: item for item in fields(GenerateConfig)}
    assert {key for key in groups if not key.startswith("override ")} | set(data) == set(options)
    assert {key: value for key, value in data.items() if value != options[key].default} == {}
    assert [key for key, value in data.items() if value == REQUIRED] == ["output", "llms"]


@pytest.mark.parametrize("schema", [GenerateConfig, LlmConfig])
def test_every_option_says_its_unit(schema):
    assert all(item.metadata["unit"].strip() for item in fields(schema))


def test_the_defaults_of_a_language_model_obey_their_own_rules():
    assert Checker().build(LlmConfig, MODEL) == LlmConfig(kind="local", name="x")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({**MODEL, "nmae": "y"}, "nmae: unknown key; did you mean 'name'?"),
        ({"kind": "htp"}, "kind: expected one of local, http, got 'htp'; did you mean 'http'?"),
        ({"name": "x"}, "kind: no value given; pass kind=..."),
        ({**MODEL, "max_new_tokens": 0}, "max_new_tokens: must be at least 1, got 0"),
        ({**MODEL, "temperature": -1}, "temperature: must be at least 0, got -1"),
        ({**MODEL, "seed": 2**31}, f"seed: must be below {2**31}, got {2**31}"),
    ],
)
def test_a_faulty_language_model_is_refused(options, problem):
    checker = Checker()
    assert checker.build(LlmConfig, options) is None
    assert problem in [line.replace(".0,", ",").replace("-1.0", "-1") for line in checker.problems]
