import json
import shutil
from pathlib import Path

import pytest

from embedrun.backbone.declared import Declared
from embedrun.config import EvaluateConfig, EvaluationConfig, GpuConfig, PoolingConfig
from embedrun.config.compose import composed
from embedrun.config.request import Request
from embedrun.experiment import notices
from embedrun.experiment.plan import plan_train
from embedrun.prompts import Prompt

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots", "_no_timing")

FROM_FOLDER = ("+experiment=quickstart", "backbone=bert_base", "backbone.name=mine")
AUTO = "pooling=auto takes what the model declares"


@pytest.fixture
def mine(tiny) -> Path:
    """The model of a run with the files of sentence-transformers alone, which declare the mean."""
    folder = Path(shutil.copytree(tiny.path / "model", "mine"))
    for name in ("embedrun.json", "manifest.json"):
        (folder / name).unlink()
    return folder


@pytest.fixture
def bare(mine) -> Path:
    (mine / "modules.json").unlink()
    return mine


def declares(folder: Path, pooling: str) -> None:
    """As a folder that embedrun has written."""
    says = {"schema": 2, "pooling": pooling, "first_layer": None, "normalize": None, "max_length": None}
    (folder / "embedrun.json").write_text(json.dumps(says | {"lowercase": False}))


def said(model: str | Path, pooling: str, *overrides: str, keep_head: bool = False) -> list[str]:
    config = EvaluateConfig(
        model=str(model),
        pooling=PoolingConfig(name=pooling, keep_head=keep_head),
        gpu=GpuConfig(),
        evaluation=EvaluationConfig(tasks={}),
    )
    return notices.notices(config, overrides)


def test_what_the_files_declare_what_runs_and_what_to_type_is_said(mine):
    assert said(mine, "cls", "pooling=cls") == [
        f"mine declares mean pooling (1_Pooling/config.json); this run uses cls (pooling=cls): {AUTO}"
    ]


SAID = {
    "pooling": "mean",
    "normalize": True,
    "max_length": 256,
    "prompt": Prompt("query: {text}"),
    "files": dict.fromkeys(("pooling", "normalize", "max_length", "prompt"), "FILE"),
}


def trained(*overrides: str, declared: Declared | None = None) -> list[str]:
    """What a training run is told; of the model's name only what follows it."""
    wanted = ("+experiment=angle_stsb", "backbone.name=MODEL", "pooling=auto", *overrides)
    config = plan_train(composed(Request("train", wanted)).config).config
    found = notices.notices(config, wanted, declared or Declared(**SAID))
    return [line.removeprefix("MODEL declares ") for line in found]


TAKES = "takes what the model declares"


@pytest.mark.parametrize(
    ("override", "line"),
    [
        (
            "backbone.max_length=512",
            "texts of 256 tokens (FILE); this run trains on 512 (backbone.max_length=512): "
            f"backbone.max_length=null {TAKES}",
        ),
        (
            "pooling.normalize=false",
            "vectors of length 1 (FILE); this run leaves their length (pooling.normalize=false): "
            f"pooling.normalize=null {TAKES}",
        ),
        (
            "evaluation.prompt='passage: {text}'",
            "the prompt 'query: {text}' (FILE); this run uses 'passage: {text}' "
            f"(evaluation.prompt='passage: {{text}}'): evaluation.prompt=null {TAKES}",
        ),
    ],
)
def test_length_normalisation_and_prompt_are_each_said_in_one_line(override, line):
    (found,) = trained(
        "backbone.max_length=null",
        "evaluation.max_length=null",
        override.strip("'") if "backbone.prompt" in override else override,
    )
    assert found.startswith(line)


@pytest.mark.parametrize("pooling", ["auto", "mean", "cls"])
def test_nothing_is_said_of_a_model_that_declares_nothing_or_is_not_here(bare, pooling):
    assert said(bare, pooling) == []
    assert said("nobody/nothing", pooling) == []
    assert said("google-bert/bert-base-uncased", pooling) == []


def test_check_says_it_and_what_auto_takes(embedrun, mine):
    line = f"mine declares mean pooling (1_Pooling/config.json); this run uses max (pooling=max): {AUTO}"
    checked = embedrun("check", *FROM_FOLDER, "pooling=max")
    assert (checked.code, checked.out.count(line)) == (0, 1)
    checked = embedrun("check", *FROM_FOLDER, "pooling=auto")
    assert "declares mean" not in checked.out
    assert "auto: mean, which the model declares (1_Pooling/config.json)" in checked.out
