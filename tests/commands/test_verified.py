"""A finished run's model is verified wherever it is loaded; a run that names code is refused."""

import json
import shutil
from pathlib import Path

import pytest

SMALL = ("dataset.train_rows=48", "dataset.dev_rows=16", "dataset.test_rows=16")
LOADING = {
    "encode": ("encode", "run", "texts.txt", "-o", "vectors.npy"),
    "train": ("train", "+experiment=quickstart", "backbone=bert_base", "backbone.name=run", *SMALL),
    "verify": ("runs", "run", "--verify"),
}

pytestmark = pytest.mark.usefixtures("_no_timing")


@pytest.fixture
def run(tiny) -> Path:
    Path("texts.txt").write_text("a dog\n")
    return Path(shutil.copytree(tiny.path, "run"))


@pytest.mark.parametrize("command", LOADING)
def test_a_flipped_bit_of_a_model_is_seen_by_every_command_that_loads_it(embedrun, run, command):
    path = run / "model/model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    ended = embedrun(*LOADING[command])
    assert ended.code == 3
    assert "run/model/model.safetensors: differs from what its run wrote" in ended.err


def test_a_whole_model_whose_card_was_edited_is_loaded(embedrun, run):
    (run / "model/README.md").write_text("mine")
    assert embedrun(*LOADING["encode"]).code == 0
    ended = embedrun(*LOADING["verify"])
    assert (ended.code, ended.out) == (0, "run/model: whole\n")
    (run / "model/manifest.json").unlink()
    assert embedrun("encode", "run", "texts.txt", "-o", "again.npy").code == 0
    assert embedrun(*LOADING["verify"]).out == "run/model: has no manifest.json\n"


CODE = {
    "_target_": "loss: {terms: {mine: {_target_: os.system}}}",
    "trust_remote_code": "backbone: {trust_remote_code: true}",
    "auto_map": "backbone: {auto_map: {AutoModel: someone/repository--own.Own}}",
}


@pytest.mark.parametrize(
    ("command", "key"),
    [
        (("report", "run"), "auto_map"),
        (("resume", "run"), "_target_"),
        (("resume", "run"), "trust_remote_code"),
        (("export", "run", "exported"), "_target_"),
        (("evaluate", "model=run", "evaluation=heldout", "dataset=toy", *SMALL), "trust_remote_code"),
    ],
)
def test_a_run_whose_configuration_names_code_is_refused(refused, run, command, key):
    (run / "config.yaml").write_text(f"schema: 1\n{CODE[key]}\n")
    status = json.loads((run / "status.json").read_text())
    state = "interrupted" if command[0] == "resume" else "finished"
    (run / "status.json").write_text(json.dumps({**status, "state": state}))
    said = refused(*command)
    assert "run/config.yaml: " in said
    assert f"{key}: configuration is data and may not name code to run" in said


def test_what_an_unfinished_run_began_with_may_not_name_code_either(refused, run):
    (run / ".parts").mkdir()
    (run / ".parts/config.json").write_text('{"loss": {"_target_": "os.system"}}')
    assert "run/.parts/config.json: loss._target_: configuration is data" in refused("resume", "run")
