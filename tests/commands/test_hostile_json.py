"""JSON that no program of ours wrote, in models, adapters and runs: exit 3, the file named, no traceback."""

import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from peft import LoraConfig
from small_models import put

from embedrun.training.step import Stepper

DEEP = "[" * 100_000 + "]" * 100_000
HOSTILE = {"list": "[]", "deep": DEEP, "cut off": "{"}
LONG = "x" * 300


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A model as sentence-transformers has it, and an adapter on it."""
    folder = tmp_path_factory.mktemp("whole")
    model = put(folder / "model", "bert")
    (model / "1_Pooling").mkdir()
    (model / "1_Pooling/config.json").write_text('{"pooling_mode_mean_tokens": true}')
    (model / "modules.json").write_text(
        '[{"path": "", "type": "x.Transformer"}, {"path": "1_Pooling", "type": "x.Pooling"}]'
    )
    adapter = folder / "adapter"
    LoraConfig(r=2, target_modules=["query"], base_model_name_or_path=str(model)).save_pretrained(adapter)
    (adapter / "adapter_model.safetensors").write_bytes(b"")
    return folder


@pytest.fixture
def mine(whole) -> Path:
    Path("texts.txt").write_text("a dog\n")
    return Path(shutil.copytree(whole, "mine"))


def encoded(refused, model: Path, code: int = 3) -> str:
    return refused("encode", str(model), "texts.txt", "-o", "vectors.npy", code=code)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize(
    "file",
    ["config.json", "tokenizer_config.json", "special_tokens_map.json", "embedrun.json", "modules.json",
     "1_Pooling/config.json", "model.safetensors.index.json", "config_sentence_transformers.json"],
)  # fmt: skip
def test_a_hostile_file_of_a_model_is_named(refused, mine, file, text):
    (mine / "model" / file).write_text(text)
    if text == "[]" and file == "modules.json":
        (mine / "model" / file).write_text("{}")  # of modules there is a list
    assert f"mine/model/{file}" in encoded(refused, mine / "model")


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_adapter_is_named(refused, mine, text):
    (mine / "adapter/adapter_config.json").write_text(text)
    assert "mine/adapter/adapter_config.json: " in encoded(refused, mine / "adapter")


@pytest.mark.parametrize("name", [LONG, f"{LONG}/{LONG}/{LONG}", f"/{LONG}/x", "~nobody-here/x", "a\0b"])
def test_an_adapter_on_what_is_no_path_is_refused(refused, mine, name):
    path = mine / "adapter/adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "base_model_name_or_path": name}))
    assert "holds an adapter, and its base is needed" in encoded(refused, mine / "adapter")


@pytest.mark.parametrize("name", [LONG, f"/{LONG}/x", f"{LONG}/{LONG}/{LONG}"])
def test_a_model_may_be_named_by_no_path(refused, mine, name):
    assert "input has 1 problem" in encoded(refused, Path(name))


@pytest.mark.parametrize("others", [0, 1, 2])
def test_an_adapter_based_on_itself_is_refused(refused, mine, others):
    names = ["adapter", *(f"other{number}" for number in range(others))]
    for name in names[1:]:
        shutil.copytree(mine / "adapter", mine / name)
    for name, base in zip(names, names[1:] + names[:1], strict=True):
        path = mine / name / "adapter_config.json"
        path.write_text(
            json.dumps({**json.loads(path.read_text()), "base_model_name_or_path": f"mine/{base}"})
        )
    assert "mine/adapter: is based on itself (/" in encoded(refused, mine / "adapter")


def test_a_long_row_of_adapters_ends(refused, mine):
    names = ["adapter", *(f"a{number}" for number in range(30))]
    for name, base in pairwise(names):
        (mine / name).mkdir(exist_ok=True)
        (mine / name / "adapter_model.safetensors").write_bytes(b"")
        (mine / name / "adapter_config.json").write_text(f'{{"base_model_name_or_path": "mine/{base}"}}')
    assert "over 20 adapters and checkpoints" in encoded(refused, mine / "adapter")


@pytest.mark.parametrize("path", [LONG, "/".join([LONG] * 3), "a\0b"])
def test_a_module_at_no_path_is_refused(refused, mine, path):
    modules = [{"path": "", "type": "x.Transformer"}, {"path": path, "type": "x.Pooling"}]
    (mine / "model/modules.json").write_text(json.dumps(modules))
    assert "not readable as JSON" in encoded(refused, mine / "model")


@pytest.mark.parametrize("key", ["num_hidden_layers", "n_layer"])
def test_layers_without_end_are_refused(refused, mine, key):
    path = mine / "model/config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: 10**12}))
    assert f"config.json: {key}: 1000000000000 is no number of layers up to 1,000" in encoded(
        refused, mine / "model"
    )


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("file", ["status.json", "results.json", "environment.json"])
def test_a_hostile_file_of_a_run_is_named(refused, tiny, file, text):
    run = Path(shutil.copytree(tiny.path, "run"))
    (run / file).write_text(text)
    assert f"run/{file}: " in refused("report", "run", code=3)


@pytest.mark.parametrize("changes", [{"scores": 5}, {"scores": ["x"]}, {"scores": LONG}, {"counts": []}])
def test_results_that_make_no_card_end_an_export(refused, tiny, changes):
    run = Path(shutil.copytree(tiny.path, "run"))
    results = json.loads((run / "results.json").read_text())
    (run / "results.json").write_text(json.dumps({**results, **changes}))
    assert "card does without" in refused("export", "run", "exported", code=3)


@pytest.mark.parametrize("changes", [{"attempts": []}, {"attempts": None}, {"seconds": 5}, {"seconds": [1]}])
def test_what_a_status_says_of_earlier_attempts_may_be_anything(embedrun, tiny, monkeypatch, changes):
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    run = Path(shutil.copytree(tiny.path, "run"))
    shutil.rmtree(run / "checkpoints")
    (run / "results.json").unlink()
    status = json.loads((run / "status.json").read_text())
    status = {**status, "state": "interrupted", "checkpoint": None, **changes}
    (run / "status.json").write_text(json.dumps(status))
    monkeypatch.setattr(Stepper, "take", stop)
    ended = embedrun("resume", "run")
    assert ended.code == 130, ended.err
