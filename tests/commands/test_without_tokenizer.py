import shutil
from pathlib import Path

import pytest

QUICK = "+experiment=quickstart"
TEACHER = "training.teachers=[{name: mine, pooling: mean}]"


pytestmark = pytest.mark.usefixtures("_no_timing")


@pytest.fixture
def mine(tiny) -> Path:
    """The model of a run of before models had sums, copied without its tokenizer."""
    folder = Path(shutil.copytree(tiny.path / "model", "mine"))
    for name in ("tokenizer.json", "manifest.json"):
        (folder / name).unlink()
    return folder


@pytest.mark.parametrize(
    "command",
    [
        ("train", QUICK, "backbone=bert_base", "backbone.name=mine"),
        ("train", QUICK, "loss=mse_embeddings", TEACHER),
        ("check", QUICK, "backbone=bert_base", "backbone.name=mine"),
        ("check", QUICK, "loss=mse_embeddings", TEACHER),
        ("evaluate", "model=mine", "evaluation=heldout", "dataset=toy"),
        ("encode", "mine", "mine/texts.txt", "-o", "vectors.npy"),
        ("export", "mine", "exported"),
        ("annotate", "dataset=toy", "output=scored", "teachers=[{name: mine}]"),
        ("generate", "dataset=toy", "column=text1", "output=made", "llms=[{kind: local, name: mine}]"),
    ],
    ids=lambda command: " ".join(command[:3]),
)
def test_no_command_takes_a_model_without_its_tokenizer(refused, mine, command):
    (mine / "texts.txt").write_text("a dog\n")
    said = refused(*command, code=3)
    assert "mine has no tokenizer, or half of one: it needs tokenizer.json, or vocab.txt, or" in said


def test_the_run_of_such_a_model_is_refused_too(refused, mine):
    Path("run").mkdir()
    Path("run/status.json").write_text('{"state": "finished"}')
    mine.rename("run/model")
    for command in ("train", "check"):
        said = refused(command, QUICK, "backbone=bert_base", "backbone.name=run", code=3)
        assert "run/model has no tokenizer" in said
