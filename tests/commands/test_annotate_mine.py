import gzip
import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from embedrun.encoder import Encoder

SCORED = """text1,text2,score
A man plays a guitar.,Someone is playing the guitar.,5
A dog runs in the park.,A dog is running outside.,5
It is raining heavily.,There is a heavy rain.,5
She is cooking dinner.,A woman prepares the evening meal.,4
He is reading a book.,A cat eats.,1
"""
FILES = ["annotate.json", "provenance.json", "triplets.jsonl.gz"]


def triplets(folder: str) -> list[dict]:
    text = gzip.decompress((Path(folder) / "triplets.jsonl.gz").read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def mine(embedrun, tiny) -> Callable:
    """Mine two negatives a pair among four pairs with a small trained model."""

    def run(*overrides: str):
        Path("pairs.csv").write_text(SCORED, encoding="utf-8")
        return embedrun(
            "annotate", "mode=mine", f"teachers=[{{name: {tiny.path}}}]", "dataset=pairs",
            "dataset.path=pairs.csv", "mining.positive_from=4", "mining.num_negatives=2", "gpu=cpu",
            "gpu.threads=1", "output=out", *overrides,
        )  # fmt: skip

    return run


@pytest.fixture
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading a model is a failure."""

    def build(*_: object, **__: object) -> None:
        raise AssertionError("a model is loaded")

    monkeypatch.setattr(Encoder, "build", build)


def test_every_positive_pair_has_negatives_that_are_positives_of_others(mine):
    ended = mine()
    assert ended.code == 0, ended.err
    assert sorted(path.name for path in Path("out").iterdir()) == FILES
    rows = triplets("out")
    positives = {row["positive"] for row in rows}
    assert [row["anchor"] for row in rows] == [line.partition(",")[0] for line in SCORED.splitlines()[1:5]]
    for row in rows:
        assert list(row) == ["anchor", "positive", "negative_1", "negative_2", "scores"]
        assert {row["negative_1"], row["negative_2"]} < positives - {row["positive"]}
        assert row["scores"][1] >= row["scores"][2]
    says = json.loads(Path("out/provenance.json").read_text(encoding="utf-8"))
    assert (says["pairs"]["count"], says["left_out"], says["file"]["rows"]) == (4, 0, 4)
    assert says["mining"]["num_negatives"] == 2
    mean = sum(row["scores"][1] for row in rows) / 4
    assert says["mean_cosine"]["negative_1"] == pytest.approx(mean)
    line = next(line for line in ended.out.splitlines() if line.startswith("negative_1"))
    assert line.split() == ["negative_1", "4", f"{mean:.4f}"]
    assert ended.out.splitlines()[-1] == "out"


def test_the_printed_command_trains_on_the_output(mine, embedrun, tiny):
    line = next(line for line in mine().out.splitlines() if line.startswith("train on it: "))
    word, *options = shlex.split(line.removeprefix("train on it: "))
    assert word == "embedrun"
    assert f"backbone.name={tiny.path}" in options  # else the default model is downloaded
    Path("dev.csv").write_text(SCORED, encoding="utf-8")
    ended = embedrun(
        *options, "gpu=cpu", "training.max_steps=1", "training.batch_size=4", "evaluation=none",
        "dataset.dev=dev.csv", "hydra.run.dir=run",
    )  # fmt: skip
    assert ended.code == 0, ended.err
    assert json.loads(Path("run/results.json").read_text(encoding="utf-8"))["counts"]["train_rows"] == 4


def test_a_finished_output_is_shown_and_never_replaced(mine, request):
    first = mine()
    before = {name: (Path("out") / name).read_bytes() for name in FILES}
    request.getfixturevalue("no_model")
    again = mine()
    assert (again.code, again.out) == (0, first.out)
    assert "out: already complete, nothing to mine" in again.err
    other = mine("mining.num_negatives=1")
    assert (other.code, other.out) == (2, "")
    assert "output: 'out' was made with other settings (mining); name a new folder" in other.err
    assert {name: (Path("out") / name).read_bytes() for name in FILES} == before


def test_every_fault_is_reported_together_before_anything_is_read(refused):
    said = refused(
        "annotate", "mode=mine", "teachers=[{name: a}, {name: b}]", "output=out", "shard=1/2",
        "dataset=pairs", "dataset.path=none.csv", "mining.range_max=2", "mining.range_min=1",
        "mining.min_score=0.9", "mining.max_score=0.1", "mining.query_prompt='{txt}'",
    )  # fmt: skip
    assert "config has 6 problems" in said
    assert "shard: goes with mode=score; mode=mine is done in one piece" in said
    assert "teachers: mode=mine takes one, got 2; pass 'teachers=[{name: HUB_ID_OR_FOLDER}]'" in said
    assert "mining.range_max: 2 leaves no room for num_negatives=3 after range_min=1; raise it to 4" in said
    assert "mining.min_score: 0.9 is above max_score=0.1" in said
    assert "mining.query_prompt: {txt} stands for nothing" in said
    assert "mining.positive_from: dataset=pairs gives scores; give the one from which" in said
