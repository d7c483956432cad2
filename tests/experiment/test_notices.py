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
from embedrun.prompt import Prompt

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


@pytest.mark.parametrize(
    ("overrides", "decided"),
    [
        (("+experiment=angle_stsb", "seed=1"), " (+experiment=angle_stsb)"),
        (("+experiment=angle_stsb", "pooling=cls"), " (pooling=cls)"),
        (("pooling=max", "pooling.name=cls"), " (pooling.name=cls)"),
        (("pooling.normalize=true",), ""),
    ],
)
def test_what_has_decided_is_named(mine, overrides, decided):
    assert f"this run uses cls{decided}: {AUTO}" in said(mine, "cls", *overrides)[0]


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
            "evaluation.max_length=128",
            "texts of 256 tokens (FILE); this run scores 128 (evaluation.max_length=128): "
            f"evaluation.max_length=null {TAKES}",
        ),
        (
            "pooling.normalize=false",
            "vectors of length 1 (FILE); this run leaves their length (pooling.normalize=false): "
            f"pooling.normalize=null {TAKES}",
        ),
        (
            "'backbone.prompt=\"{text}\"'",
            "the prompt 'query: {text}' (FILE); this run uses none",
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


def test_auto_is_not_advised_where_it_would_be_refused(mine):
    file = mine / "1_Pooling" / "config.json"
    file.write_text('{"pooling_mode_mean_tokens": true, "pooling_mode_max_tokens": true}')
    assert said(mine, "mean")[0].endswith(
        "declares max+mean pooling (1_Pooling/config.json); this run uses mean: embedrun does not have what "
        "the model declares"
    )
    file.write_text('{"pooling_mode": "mean"}')
    modules = json.loads((mine / "modules.json").read_text())
    dense = {"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"}
    (mine / "modules.json").write_text(json.dumps([*modules, dense]))
    assert said(mine, "cls")[0].endswith("pooling=mean takes the pooling that the model declares")


def test_a_run_directory_and_a_hub_id_in_the_cache_declare_it_too(tiny, mine, monkeypatch):
    assert said(tiny.path, "cls") == [
        f"{tiny.path} declares mean pooling (embedrun.json); this run uses cls: {AUTO}"
    ]
    place = Path("cache/models--some--one")
    (place / "refs").mkdir(parents=True)
    (place / "refs/main").write_text("abc")
    shutil.copytree(mine, place / "snapshots/abc")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(Path("cache").resolve()))
    assert said("some/one", "cls") == [
        f"some/one declares mean pooling (1_Pooling/config.json); this run uses cls: {AUTO}"
    ]


def test_check_says_it_and_what_auto_takes(embedrun, mine):
    line = f"mine declares mean pooling (1_Pooling/config.json); this run uses max (pooling=max): {AUTO}"
    checked = embedrun("check", *FROM_FOLDER, "pooling=max")
    assert (checked.code, checked.out.count(line)) == (0, 1)
    checked = embedrun("check", *FROM_FOLDER, "pooling=auto")
    assert "declares mean" not in checked.out
    assert "auto: mean, which the model declares (1_Pooling/config.json)" in checked.out


def test_train_says_it_on_the_terminal_and_in_its_log(embedrun, mine, options):
    declares(mine, "cls")
    ended = embedrun("train", *options[:4], *FROM_FOLDER[1:], "training.max_steps=1", "hydra.run.dir=run")
    line = f"mine declares cls pooling (embedrun.json); this run uses mean (+experiment=quickstart): {AUTO}"
    assert (ended.code, ended.err.splitlines().count(line)) == (0, 1), ended.err
    assert Path("run/run.log").read_text().count(line) == 1
