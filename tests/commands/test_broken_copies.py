"""Model folders that an interrupted copy or a wrong edit has left: no command computes with them."""

import json
import shutil
from pathlib import Path

import pytest
from small_models import put

from embedrun.training.step import Stepper

QUICK = ("+experiment=quickstart", "dataset.train_rows=48", "dataset.dev_rows=16", "training.max_steps=1")
COMMANDS = {
    "train": ("train", *QUICK, "backbone=bert_base", "backbone.name=mine"),
    "teachers": ("check", *QUICK, "loss=mse_embeddings", "training.teachers=[{name: mine, pooling: mean}]"),
    "evaluate": ("evaluate", "model=mine", "evaluation=heldout", "dataset=toy"),
    "encode": ("encode", "mine", "texts.txt", "-o", "vectors.npy"),
    "annotate": ("annotate", "dataset=toy", "output=scored", "teachers=[{name: mine}]"),
}

pytestmark = pytest.mark.usefixtures("_no_timing")


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    return put(tmp_path_factory.mktemp("whole") / "bert", "bert")


@pytest.fixture
def mine(whole) -> Path:
    Path("texts.txt").write_text("a dog\n")
    return Path(shutil.copytree(whole, "mine"))


def cut_vocabulary(folder: Path) -> str:
    made = json.loads((folder / "tokenizer.json").read_text())
    made["model"]["vocab"] = {word: place for word, place in made["model"]["vocab"].items() if place < 7}
    (folder / "tokenizer.json").write_text(json.dumps(made))
    return "mine: its tokenizer has 7 tokens, and the model has vectors for 120"


def no_words(folder: Path) -> str:
    made = json.loads((folder / "tokenizer.json").read_text())
    words = made["model"]["vocab"]
    marks = {word: place for word, place in words.items() if word.startswith("[")}
    made["model"]["vocab"] = marks | {f"[unused{place}]": place for place in range(len(marks), len(words))}
    (folder / "tokenizer.json").write_text(json.dumps(made))
    return "mine: to its tokenizer every word is unknown"


def no_tokenizer(folder: Path) -> str:
    (folder / "tokenizer.json").unlink()
    return "mine has no tokenizer"


@pytest.mark.parametrize(
    ("command", "damage"),
    [
        ("train", cut_vocabulary),
        ("encode", no_words),
        *((command, no_tokenizer) for command in ("teachers", "evaluate", "annotate")),
    ],
)
def test_no_command_computes_with_a_broken_copy(embedrun, mine, command, damage):
    says = damage(mine)
    ended = embedrun(*COMMANDS[command])
    assert ended.code == 3
    assert says in ended.err


def test_nothing_is_resumed_with_a_copy_that_has_been_broken_since(embedrun, mine, monkeypatch):
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Stepper, "take", stop)
        assert embedrun(*COMMANDS["train"], "hydra.run.dir=run").code == 130
    cut_vocabulary(mine)
    ended = embedrun("resume", "run")
    assert ended.code == 2
    assert "the files of mine have changed since run began" in ended.err
