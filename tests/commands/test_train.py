"""`embedrun train` from its command line to the finished run directory.

The user's own files from the command line to the run directory.

The umask decides who may read what a run leaves, whichever library has written it.

A run whose words nobody reads any more, as that of `embedrun train 2>&1 | head -1`.
"""

import json
import math
import os
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from embedrun.encoder import Encoder
from embedrun.experiment import training
from embedrun.runs.directory import config_hash
from embedrun.training.loop import Selection

SCORES = {f"toy_{split}/{metric}" for split in ("test", "dev") for metric in ("spearman", "spearman_clean")}


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_run_records_the_presets_that_it_is_made_of(tiny):
    assert yaml.safe_load((tiny.path / "choices.yaml").read_text()) == {
        "experiment": "quickstart", "backbone": "tiny", "pooling": "mean", "loss": "angle_toy",
        "dataset": "toy", "training": "default", "gpu": "cpu", "evaluation": "heldout", "tracking": "local",
    }  # fmt: skip


def test_a_run_directory_holds_these_files_and_no_other(tiny):
    assert sorted(path.name for path in tiny.path.iterdir()) == [
        ".lock",
        "checkpoints",
        "choices.yaml",
        "config.yaml",
        "contamination.json",
        "environment.json",
        "metrics.jsonl",
        "model",
        "overrides.yaml",
        "plots",
        "predictions",
        "report.html",
        "results.json",
        "run.log",
        "speed.jsonl",
        "status.json",
    ]
    assert [path.name for path in (tiny.path / "checkpoints").iterdir()] == ["step-00000002"]
    assert sorted(path.name for path in (tiny.path / "predictions").iterdir()) == [
        "toy_dev.parquet",
        "toy_test.parquet",
    ]


def test_results_have_one_number_for_each_named_score(tiny):
    results = read(tiny.path / "results.json")
    assert list(results) == [
        "schema",
        "main",
        "scores",
        "intervals",
        "baseline",
        "notes",
        "counts",
        "seconds",
    ]
    assert results["schema"] == 1
    assert set(results["scores"]) == set(results["baseline"]) == SCORES
    assert all(-100 <= value <= 100 for value in results["scores"].values())
    main = {"name": "toy_test/spearman", "value": results["scores"]["toy_test/spearman"]}
    assert results["main"] == main
    assert results["notes"]["selected_by"] == "toy_dev/spearman"
    assert results["notes"]["pooling"] == "mean"
    low, high = results["intervals"]["toy_test/spearman"]
    assert -100 <= low <= main["value"] <= high <= 100
    assert {"train_rows": 48, "steps": 2, "best_step": 2}.items() <= results["counts"].items()
    assert set(results["seconds"]) == {"load", "baseline", "train", "evaluate"}


def test_the_status_is_finished(tiny):
    status = read(tiny.path / "status.json")
    assert (status["state"], status["error"]) == ("finished", None)
    assert status["started"] <= status["ended"]
    assert (status["step"], status["checkpoint"], status["attempts"]) == (2, 2, 1)
    config = yaml.safe_load((tiny.path / "config.yaml").read_text(encoding="utf-8"))
    del config["schema"]
    assert status["config_sha256"] == config_hash(config)
    assert "Traceback" not in (tiny.path / "run.log").read_text(encoding="utf-8")


def test_scores_go_to_stdout_and_everything_else_to_stderr(tiny):
    lines = tiny.out.strip().splitlines()
    assert lines[0].split() == [
        "score",
        "before",
        "training",
        "(mean)",
        "trained",
        "difference",
        "95",
        "%",
        "interval",
    ]
    directory = tiny.path.relative_to(tiny.folder)
    assert lines[-3].split() == ["model", f"{directory}/model"]
    assert f"run directory: {directory}" in tiny.err
    assert "48 rows of toy, 2 steps of 16 rows" in tiny.err


def test_the_configuration_is_written_down_whole(tiny, options):
    config = yaml.safe_load((tiny.path / "config.yaml").read_text(encoding="utf-8"))
    assert (config["schema"], config["seed"], config["backbone"]["scratch"]["width"]) == (1, 42, 16)
    assert "hydra" not in config
    assert yaml.safe_load((tiny.path / "overrides.yaml").read_text(encoding="utf-8")) == list(options)


def test_metrics_say_step_split_and_name_and_nothing_of_the_clock(tiny):
    lines = [json.loads(line) for line in (tiny.path / "metrics.jsonl").read_text().splitlines()]
    assert all(set(line) == {"step", "epoch", "split", "name", "value"} for line in lines)
    found = {(line["step"], line["split"], line["name"]) for line in lines}
    assert {(0, "dev", "toy_dev/spearman"), (2, "dev", "toy_dev/spearman")} <= found
    assert {(0, "test", "toy_test/spearman"), (2, "test", "toy_test/spearman")} <= found
    assert any(split == "train" and name == "loss" for _, split, name in found)


def test_predictions_have_a_row_for_each_pair(tiny):
    table = pq.read_table(tiny.path / "predictions" / "toy_test.parquet")
    assert (table.num_rows, table.column_names) == (16, ["gold", "score"])
    assert all(math.isfinite(value) and abs(value) <= 1.001 for value in table["score"].to_pylist())


def test_no_secret_is_anywhere_in_a_run_directory(tiny, canaries):
    for path in tiny.path.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            for canary in canaries.values():
                assert canary.encode() not in content, path
    assert not any(canary in tiny.out + tiny.err for canary in canaries.values())


def test_the_same_seed_gives_the_same_bytes(tiny, tiny_again):
    assert tiny.path != tiny_again.path
    for name in ("metrics.jsonl", "model/model.safetensors", "checkpoints/step-00000002/model.safetensors"):
        assert (tiny.path / name).read_bytes() == (tiny_again.path / name).read_bytes(), name
    assert read(tiny.path / "results.json")["scores"] == read(tiny_again.path / "results.json")["scores"]


def test_own_pairs_train_under_the_names_of_their_own_columns(embedrun, options):
    lines = [f"{i},a plain question number {i},a long answer {i % 3},{i % 5}" for i in range(24)]
    Path("mine.csv").write_text("id,question,answer,rating\n" + "\n".join(lines) + "\n", encoding="utf-8")
    small = [option for option in options if not option.startswith("dataset")]
    ended = embedrun(
        "train",
        *small,
        "dataset=pairs",
        "dataset.path=mine.csv",
        "dataset.dev=mine.csv",
        "dataset.test=mine.csv",
        "dataset.columns={text1: question, text2: answer, score: rating}",
        "loss.terms.in_batch_negatives.positive_from=0",
        "hydra.run.dir=of/mine",
    )
    assert ended.code == 0, ended.err
    assert [line for line in ended.err.splitlines() if "positives" in line] == [
        "in_batch_negatives: 24 of 24 rows (100.0 %) are positives (score >= 0)",
        "warning: loss.terms.in_batch_negatives: takes 24 of 24 rows for positives, and 14 are rated 2, "
        "the middle of 0 to 4, or higher; pass loss.terms.in_batch_negatives.positive_from=2 to take those",
    ]
    (shares,) = [line for line in ended.err.splitlines() if line.startswith("gradient at the first step: ")]
    assert sum(float(share) for share in re.findall(r"(\d+) %", shares)) == pytest.approx(100, abs=2)
    assert shares in Path("of/mine/run.log").read_text(encoding="utf-8")
    results = read(Path("of/mine/results.json"))
    assert set(results["scores"]) == {"pairs_test/spearman", "pairs_dev/spearman"}
    assert results["counts"]["train_rows"] == 24


def test_everything_that_is_missing_is_named_before_a_run_directory_is_made(refused):
    said = refused("train", "experiment=angle_bert", "data_dir=nowhere", "backbone.name=./no/model", code=3)
    assert "model './no/model': no such folder" in said
    assert "stsb/dev.tsv.gz" in said
    assert "not in the data folder" in said
    assert "EMBEDRUN_DATA=DIR" in said


@pytest.mark.parametrize("vectors", ["memory", pytest.param("step", marks=pytest.mark.slow)])
def test_a_model_learns_from_a_frozen_one_whenever_its_vectors_are_computed(embedrun, tiny, options, vectors):
    teacher = f"training.teachers=[{{name: {tiny.path}}}]"
    when = f"training.teacher_vectors={vectors}"
    ended = embedrun("train", *options, "loss=mse_teacher", teacher, when, "hydra.run.dir=of/it")
    assert ended.code == 0, ended.err
    lines = [json.loads(line) for line in Path("of/it/metrics.jsonl").read_text().splitlines()]
    first, last = (line["value"] for line in lines if line["name"] == "loss")
    assert 0 < last < first < 1


@pytest.fixture
def stopped(embedrun, monkeypatch, options):
    """A tiny run whose training raises."""

    def run(fault: BaseException):
        def fit(*_):
            raise fault

        monkeypatch.setattr(training, "fit", fit)
        ended = embedrun("train", *options, "hydra.run.dir=run")
        return ended, read(Path("run/status.json")), Path("run/run.log").read_text(encoding="utf-8")

    return run


def test_the_run_that_a_name_stood_for_is_written_down(embedrun, tiny, monkeypatch, tmp_path):
    monkeypatch.chdir(tiny.folder)
    small = ("dataset=toy", "dataset.train_rows=48", "dataset.dev_rows=16", "dataset.test_rows=16")
    named = ("backbone.name=run:quickstart", "backbone.scratch=null", "training.max_steps=1")
    ended = embedrun(
        "train", "experiment=quickstart", *small, *named, f"hydra.run.dir='{tmp_path / 'second'}'"
    )
    assert ended.code == 0, ended.err
    config = yaml.safe_load((tmp_path / "second" / "config.yaml").read_text(encoding="utf-8"))
    assert config["backbone"]["name"] == str(tiny.path)
    assert f"model {tiny.path}" in (tmp_path / "second" / "run.log").read_text(encoding="utf-8")
    (stage,) = read(tmp_path / "second" / "environment.json")["stages"]
    assert stage["config"]["name"] == "quickstart"
    card = (tmp_path / "second" / "model" / "README.md").read_text(encoding="utf-8")
    assert "Training started from random weights, on toy, then on toy." in card


def test_ctrl_c_leaves_an_interrupted_run(stopped):
    ended, status, _ = stopped(KeyboardInterrupt())
    assert ended.code == 130
    assert (status["state"], ended.out) == ("interrupted", "")
    assert not Path("run/results.json").exists()
    assert not Path("run/model").exists()


def test_a_surprise_is_a_failed_run_whose_traceback_is_in_the_log_alone(stopped):
    ended, status, log = stopped(RuntimeError("surprise \x1b]52;c;x\x07"))
    assert (ended.code, status["state"]) == (1, "failed")
    assert "RuntimeError: surprise" in ended.err
    assert "Traceback" in log
    assert not {"\x1b", "\x07"} & set(ended.err + log)


def test_final_test_scores_stand_at_the_step_whose_weights_they_are_of(embedrun, monkeypatch, options):
    offer = Selection.offer
    monkeypatch.setattr(Selection, "offer", lambda self, step, value: step == 1 and offer(self, step, value))
    ended = embedrun("train", *options, "training.evaluate_every=1", "hydra.run.dir=run")
    assert ended.code == 0, ended.err
    rows = [json.loads(line) for line in Path("run/metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert max(row["step"] for row in rows if row["split"] == "train") == 2
    assert [row["step"] for row in rows if row["name"] == "toy_test/spearman"] == [0, 1]
    assert json.loads(Path("run/results.json").read_text(encoding="utf-8"))["counts"]["best_step"] == 1


SMALL = (
    "backbone=tiny",
    "pooling=mean",
    "gpu=cpu",
    "backbone.scratch.layers=1",
    "backbone.scratch.width=16",
    "training.max_steps=2",
    "training.batch_size=4",
    "evaluation=none",
    "dataset.dev=dev.csv",
)


def dev() -> None:
    rows = "".join(f"{word} one,{word} two,{score}\n" for score, word in enumerate("abcd"))
    Path("dev.csv").write_text(f"text1,text2,score\n{rows}")


def test_shards_of_triplets_train_simcse(embedrun):
    dev()
    Path("shards").mkdir()
    for shard in range(2):
        table = {
            name: [f"{name} {shard} {row}" for row in range(4)] for name in ("sent0", "sent1", "hard_neg")
        }
        pq.write_table(pa.table(table), f"shards/part-{shard}.parquet")
    names = "dataset.columns={anchor: sent0, positive: sent1, negative: hard_neg}"
    options = (
        "dataset=triplets",
        "dataset.path=shards",
        names,
        "loss=simcse_supervised",
        "hydra.run.dir=run",
    )
    ended = embedrun("train", *SMALL, *options)
    assert ended.code == 0, ended.err
    results = json.loads(Path("run/results.json").read_text())
    assert results["counts"]["train_rows"] == 8
    assert "skipped_rows" not in results["counts"]
    assert not Path("run/skipped_rows.jsonl").exists()


def test_rows_with_two_hard_negatives_train_and_are_checked(embedrun):
    dev()
    lines = "".join(f"q {row},p {row},n {row},m {row}\n" for row in range(8))
    Path("own.csv").write_text(f"q,p,n1,n2\n{lines}")
    names = "dataset.columns={anchor: q, positive: p, negative_1: n1, negative_2: n2}"
    options = ("dataset=triplets", "dataset.path=own.csv", names, "loss=simcse_supervised")
    prompts = "+dataset.prompts={left: 'query: {text}', negative_2: 'text: {text}'}"
    ended = embedrun("check", *SMALL, *options, prompts)
    assert ended.code == 0, ended.err
    assert "triplets (triplet: left, right, negative_1, negative_2)" in ended.out
    assert "11 negatives an anchor: 3 positives of other rows, 8 hard negatives" in ended.out
    ended = embedrun("train", *SMALL, *options, prompts, "hydra.run.dir=run", "training.micro_batch_size=3")
    assert ended.code == 0, ended.err
    assert json.loads(Path("run/results.json").read_text())["counts"]["train_rows"] == 8


def test_skipped_rows_are_counted_listed_and_told(embedrun):
    dev()
    Path("texts.txt").write_text("".join(f"text {row}\n" for row in range(4)) + "\n" + "more\n" * 4)
    options = ("dataset=texts", "dataset.path=texts.txt", "loss=simcse_unsupervised", "hydra.run.dir=run")
    refused = embedrun("train", *SMALL, *options)
    assert (refused.code, refused.err.splitlines()[-1]) == (3, "  texts.txt, row 5: text: the text is empty")
    ended = embedrun("train", *SMALL, *options, "dataset.on_bad_row=skip")
    assert ended.code == 0, ended.err
    warning = (
        "warning: 1 faulty row of your files skipped, the first: texts.txt, row 5, text: the text is empty"
    )
    assert warning in ended.err
    lines = Path("run/skipped_rows.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"file": "texts.txt", "row": 5, "column": "text", "reason": "the text is empty"}
    ]
    counts = json.loads(Path("run/results.json").read_text())["counts"]
    assert (counts["train_rows"], counts["skipped_rows"]) == (8, 1)


# Windows of 4 tokens, so that the generated sentences have several.
RAN = (
    "backbone=ran_tiny",
    "backbone.scratch.layers=1",
    "backbone.scratch.width=16",
    "backbone.scratch.window=4",
    "backbone.scratch.min_window=2",
)


def test_a_ran_is_trained_saved_and_evaluated_like_any_backbone(embedrun, options):
    rows = [option for option in options if not option.startswith("backbone.")]
    ended = embedrun("train", *rows, *RAN, "training.micro_batch_size=6")
    assert ended.code == 0, ended.err
    (run,) = Path("outputs/quickstart").iterdir()
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["backbone"]["scratch"]["architecture"] == "ran"
    results = json.loads((run / "results.json").read_text())
    assert np.isfinite(results["main"]["value"])
    assert json.loads((run / "model" / "config.json").read_text())["model_type"] == "embedrun_ran"
    assert Encoder.load(run).encode(["a long text " * 50]).shape == (1, 16)
    again = embedrun("evaluate", f"model={run}", "evaluation=heldout", "dataset=toy", "dataset.test_rows=16")
    assert again.code == 0, again.err


def modes(folder: Path) -> Counter[tuple[str, int]]:
    """How many files, safetensors and folders have which mode, the folder itself among them."""
    found = Counter()
    for path in (folder, *folder.rglob("*")):
        kind = "folder" if path.is_dir() else path.suffix if path.suffix == ".safetensors" else "file"
        found[kind, path.stat().st_mode & 0o777] += 1
    return found


def test_every_file_and_folder_of_a_run_an_export_and_vectors_is_as_open_as_the_umask_says(embedrun, options):
    umask = 0o027
    before = os.umask(umask)
    try:
        assert embedrun("train", *options, "hydra.run.dir=run").code == 0
        assert embedrun("export", "run", "exported", "--license", "mit").code == 0
        Path("texts.txt").write_text("one text\n", encoding="utf-8")
        for name in ("vectors.npy", "vectors.parquet"):
            assert embedrun("encode", "run", "texts.txt", "-o", name).code == 0
            assert Path(name).stat().st_mode & 0o777 == 0o666 & ~umask
    finally:
        os.umask(before)
    for folder, tensors in ((Path("run"), 4), (Path("exported"), 1)):  # three of the checkpoint, the model
        found = modes(folder)
        assert set(found) == {
            ("file", 0o666 & ~umask),
            (".safetensors", 0o666 & ~umask),
            ("folder", 0o777 & ~umask),
        }
        assert found[".safetensors", 0o666 & ~umask] == tensors
