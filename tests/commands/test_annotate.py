import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from embedrun.dataset import prepared
from embedrun.dataset.nli import NliScored
from embedrun.encoder import Encoder
from embedrun.store import Store

TOY = ("dataset=toy", "dataset.train_rows=48", "block_rows=10", "gpu=cpu", "gpu.threads=1")
SCORED = "nli_scored.jsonl.gz"


def scored(folder: str) -> list[dict]:
    text = gzip.decompress((Path(folder) / SCORED).read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


def content(folder: str) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def annotate(embedrun, tiny) -> Callable:
    """Annotate generated pairs in five blocks with a small trained model as the teacher."""

    def run(*overrides: str, teachers: str | None = None):
        return embedrun("annotate", f"teachers={teachers or f'[{{name: {tiny.path}}}]'}", *TOY, *overrides)

    return run


@pytest.fixture
def whole(annotate) -> dict[str, bytes]:
    """The output of an uninterrupted command."""
    ended = annotate("output=whole")
    assert ended.code == 0, ended.err
    return content("whole")


@pytest.fixture
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading a model is a failure."""

    def build(*_: object, **__: object) -> None:
        raise AssertionError("a model is loaded")

    monkeypatch.setattr(Encoder, "build", build)


def test_scores_are_the_cosines_of_the_teacher(annotate, tiny):
    ended = annotate("output=out")
    assert ended.code == 0, ended.err
    assert sorted(path.name for path in Path("out").iterdir()) == [
        "annotate.json",
        SCORED,
        "parts",
        "provenance.json",
        "scores_by_label.json",
        "scores_by_label.png",
    ]
    rows = scored("out")
    assert len(rows) == 48
    assert NliScored(path="out").read("train", Store(Path("none"))).targets["score"].tolist() == [
        pytest.approx(row["score"]) for row in rows
    ]
    encoder = Encoder.load(tiny.path)
    left, right = (encoder.encode([row[name] for row in rows]) for name in ("text1", "text2"))
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    by_hand = (left * right).sum(1) / lengths
    np.testing.assert_allclose(np.array([row["score"] for row in rows]), by_hand, atol=2e-6)
    assert all(row["score"] == row["score_1"] for row in rows)
    found = json.loads(Path("out/scores_by_label.json").read_text(encoding="utf-8"))
    assert list(found) == ["entailment", "neutral", "contradiction"]
    for name, values in found.items():
        words = next(line for line in ended.out.splitlines() if line.startswith(name)).split()
        assert words[1:3] == [str(values["pairs"]), f"{values['mean']:.4f}"]


@pytest.mark.parametrize("large", [0, 1 << 30])  # rows of a large file are kept, those of a small one are not
def test_the_score_of_one_teacher_or_of_the_authors_is_a_column(tmp_path, monkeypatch, large: int):
    monkeypatch.setattr(prepared, "_LARGE", large)
    row = {"text1": "a", "text2": "b", "label": 0, "score": 0.5, "score_1": 0.25, "similarity": 0.75}
    (tmp_path / "own.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    for column in ("score", "score_1", "similarity"):
        data_set = NliScored(path=str(tmp_path / "own.jsonl"), column=column)
        assert data_set.read("train", Store(tmp_path)).targets["score"].tolist() == [row[column]]


def test_shards_of_two_commands_give_the_bytes_of_one(annotate, whole):
    first = annotate("output=out", "shard=1/2")
    assert (first.code, first.out) == (0, "2 of 5 blocks are done, missing 0, 2, 4\n\nout\n")
    last = annotate("output=out", "shard=0/2")
    assert last.out.startswith("label ")
    assert content("out") == whole


def test_an_interrupted_command_goes_on_to_the_same_bytes(annotate, whole, monkeypatch):
    encode, calls = Encoder.encode, []

    def interrupted(self, texts: list[str], **options):
        calls.append(len(texts))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return encode(self, texts, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Encoder, "encode", interrupted)
        ended = annotate("output=out")
        assert ended.code == 130
    assert annotate("output=out").code == 0
    assert content("out") == whole


def test_blocks_from_elsewhere_are_merged_without_a_model(annotate, whole, no_model):
    for name in [name for name in whole if not name.startswith(("parts/", "annotate"))]:
        (Path("whole") / name).unlink()
    (part,) = Path("whole/parts").glob("part-00003-*")
    part.rename("aside.npy")
    ended = annotate("output=whole", "merge_only=true")
    assert (ended.code, ended.out) == (3, "")
    assert "1 of 5 blocks are missing (3); run the same command without merge_only" in ended.err
    Path("aside.npy").rename(part)
    assert annotate("output=whole", "merge_only=true").code == 0
    assert content("whole") == whole


def test_two_teachers_are_averaged_and_a_prompt_is_put_around_each_text(annotate, tiny, monkeypatch):
    encode, read = Encoder.encode, []

    def watched(self, texts: list[str], **options):
        read.append(texts[0])
        return encode(self, texts, **options)

    monkeypatch.setattr(Encoder, "encode", watched)
    both = f'[{{name: {tiny.path}}}, {{name: {tiny.path}, prompt: "say {{text}} so", max_length: 8}}]'
    assert annotate("output=out", "block_rows=48", teachers=both).code == 0
    assert read[1] == f"say {read[0]} so"
    for row in scored("out"):
        assert row["score"] == pytest.approx((row["score_1"] + row["score_2"]) / 2, abs=1e-7)
    assert any(row["score_1"] != row["score_2"] for row in scored("out"))
    (_, second) = json.loads(Path("out/provenance.json").read_text(encoding="utf-8"))["teachers"]
    assert (second["prompt"], second["max_length"], len(second["sha256"])) == ("say {text} so", 8, 64)
    assert (second["name"], second["commit"]) == (tiny.path.name, None)


def test_an_output_of_other_teachers_is_not_touched(annotate, tiny, whole, no_model):
    for state in ("whole", "in parts"):
        ended = annotate("output=whole", teachers=f"[{{name: {tiny.path}, pooling: cls}}]")
        assert (ended.code, ended.out) == (2, "")
        assert "made with other settings (teachers)" in ended.err
        assert "name a new folder" in ended.err
        if state == "whole":
            assert content("whole") == whole
            (Path("whole") / "provenance.json").unlink()


def test_every_fault_of_the_configuration_is_reported_together(refused):
    said = refused(
        "annotate", "teachers=[{name: a, pooling: men}, {name: b, prompt: '{txt}'}]", "output=out",
        "shard=2/2", "dataset=stsb", "gpu.precision=bf16",
    )  # fmt: skip
    assert "config has 5 problems" in said
    assert "gpu.precision: teachers compute in float32, got bf16; leave it at auto" in said
    assert "teachers[0].pooling: no pooling 'men'; did you mean 'mean'?" in said
    assert "teachers[1].prompt: {txt} stands for nothing; write {text}" in said
    assert "shard: expected I/N" in said
    assert "dataset=stsb: gives no pairs with a label" in said
