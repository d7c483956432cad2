"""`embedrun train` from its command line to the finished run directory."""

import json
import math
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import small_models
import yaml
from scipy.stats import spearmanr

from embedrun.dataset.toy import Toy
from embedrun.encoder import Encoder
from embedrun.experiment import build, training
from embedrun.runs.directory import config_hash
from embedrun.training.loop import Selection

METRICS = {"test": ("spearman", "conflicting", "agreeing"), "dev": ("spearman",)}  # of dev rows two labels
SCORES = {
    f"toy_{split}/{metric}{clean}"
    for split in METRICS
    for metric in METRICS[split]
    for clean in ("", "_clean")
}


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_run_records_the_presets_that_it_is_made_of(tiny):
    assert yaml.safe_load((tiny.path / "choices.yaml").read_text()) == {
        "experiment": "quickstart", "backbone": "tiny", "pooling": "mean", "prompts": "declared",
        "loss": "angle_toy", "dataset": "toy", "training": "default", "gpu": "cpu",
        "evaluation": "heldout", "tracking": "local",
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
        "changes",
        "notes",
        "counts",
        "seconds",
        "amounts",
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
    assert (table.num_rows, table.column_names) == (16, ["gold", "score", "clean"])
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


def test_everything_that_is_missing_is_named_before_a_run_directory_is_made(refused):
    said = refused("train", "experiment=angle_bert", "data_dir=nowhere", "backbone.name=./no/model", code=3)
    assert "model './no/model': no such folder" in said
    assert "stsb/dev.tsv.gz" in said
    assert "not in the data folder" in said
    assert "EMBEDRUN_DATA=DIR" in said


@pytest.mark.parametrize(
    ("family", "preset", "pooling"),
    [
        ("qwen3", "qwen3_0_6b", "last_token"),
        ("xlm-roberta", "bge_m3", "cls"),
        ("gemma3", "embeddinggemma_300m", "mean"),
    ],
)
def test_other_architectures_are_trained_in_their_tiny_form(
    embedrun, options, tmp_path, family, preset, pooling
):
    small = [option for option in options if not option.startswith("backbone.scratch")]
    model = f"backbone.name={small_models.put(tmp_path / 'model', family)}"
    more = (f"pooling={pooling}", "backbone.max_length=32", "training.max_steps=1", "hydra.run.dir=run")
    ended = embedrun("train", *small, f"backbone={preset}", model, *more)
    assert ended.code == 0, ended.err
    assert read(Path("run/results.json"))["counts"]["steps"] == 1


def test_a_model_learns_from_a_frozen_one(embedrun, tiny, options, monkeypatch):
    learns = ("train", *options, "loss=mse_teacher", f"training.teachers=[{{name: {tiny.path}}}]")
    ended = embedrun(*learns, "training.teacher_vectors=disk", "hydra.run.dir=of/it")
    assert ended.code == 0, ended.err
    with monkeypatch.context() as patch:  # of a second run, which finds the vectors
        patch.setattr(build, "encoded", lambda *_: pytest.fail("encoded again"))
        ended = embedrun(*learns, "training.teacher_vectors=disk", "hydra.run.dir=again")
    assert ended.code == 0, ended.err
    ended = embedrun(*learns, "training.teacher_vectors=memory", "hydra.run.dir=memory")
    assert ended.code == 0, ended.err
    curves = {Path(run, "metrics.jsonl").read_bytes() for run in ("of/it", "again", "memory")}
    assert len(curves) == 1
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


def test_accumulation_warns_that_the_losses_see_one_batch_only(embedrun, options):
    small = [option for option in options if not option.startswith(("training.batch_size", "training.max"))]
    steps = ("training.batch_size=8", "training.accumulate=4", "training.max_steps=1", "hydra.run.dir=run")
    ended = embedrun("train", *small, *steps)
    assert ended.code == 0, ended.err
    warning = "training.accumulate=4: the losses compare the 8 rows of a batch only, not all 32"
    assert warning in ended.err
    assert warning in Path("run/run.log").read_text(encoding="utf-8")


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


def test_what_the_choice_of_the_step_costs_on_test_is_in_the_results_the_report_and_a_table(
    embedrun, options
):
    words = (*options, "training.max_steps=4", "training.evaluate_every=1", "training.score_test=true")
    ended = embedrun("train", *words, "hydra.run.dir=outputs/one")
    assert ended.code == 0, ended.err
    results = json.loads(Path("outputs/one/results.json").read_text())
    key = "toy_test/spearman"
    lines = map(json.loads, Path("outputs/one/metrics.jsonl").read_text().splitlines())
    test = {line["step"]: line["value"] for line in lines if (line["split"], line["name"]) == ("test", key)}
    assert sorted(test) == [0, 1, 2, 3, 4]
    del test[0]
    best = max(test, key=test.get)
    chosen = test[results["counts"]["best_step"]]
    luck = {"key": key, "chosen": chosen, "best": test[best], "best_step": best}
    assert results["checkpoint_luck"] == luck
    assert chosen == results["scores"][key]
    said = f"{key} {chosen:.2f} there, {test[best]:.2f} at its best step {best}"
    assert said in Path("outputs/one/report.html").read_text()
    assert embedrun("table", "--new", "mine.yaml", "--from", "outputs").code == 0
    more = f"{test[best] - chosen:.2f}"
    assert (
        f"the mean would be {more} more (runs: 1, largest difference {more})"
        in embedrun("table", "mine.yaml").out
    )


CUT = ("evaluation.dims=[8,4]", "loss.matryoshka={dims: [16, 8, 4], weights: [1, 0.5, 0.25]}")


def test_a_model_trained_to_be_cut_is_scored_and_encodes_cut(embedrun, options):
    ended = embedrun("train", *options, *CUT, "hydra.run.dir=run")
    assert ended.code == 0, ended.err
    scores = json.loads(Path("run/results.json").read_text())["scores"]
    toy = Toy(train_rows=48, dev_rows=16, test_rows=16).read("test", None)  # type: ignore[arg-type]
    sides = (list(toy.texts[side]) for side in ("left", "right"))
    vectors = [Encoder.load("run").encode(texts)[:, :4] for texts in sides]  # (rows, 4) each
    norms = [np.linalg.norm(side, axis=1) for side in vectors]
    cosines = (vectors[0] * vectors[1]).sum(axis=1) / norms[0] / norms[1]
    assert scores["toy_test/spearman@4"] == pytest.approx(
        100 * spearmanr(cosines, toy.targets["score"]).statistic, abs=1e-6
    )
    assert "angle at 16, 8, 4 numbers" in Path("run/report.html").read_text()
    assert {"toy_test/spearman@8", "toy_dev/spearman@8"} <= scores.keys()
    Path("texts.txt").write_text("a man plays\n")
    ended = embedrun("encode", "run", "texts.txt", "-o", "vectors.npy", "--dims", "4", "--normalize")
    assert ended.code == 0, ended.err
    short = Encoder.load("run").encode(["a man plays"])[:, :4]
    np.testing.assert_allclose(np.load("vectors.npy"), short / np.linalg.norm(short), atol=1e-6)


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("evaluation.dims=[0]", "evaluation.dims: the model's vectors have 1 to 16 numbers, got 0"),
        (
            "loss.matryoshka.dims=[17]",
            "loss.matryoshka.dims: 17 is more than the 16 numbers of the model's vectors",
        ),
        ("loss.matryoshka.dims=[4,8]", "loss.matryoshka.dims: expected falling numbers of 1 or more, as"),
        (
            "loss.matryoshka={dims: [4], weights: [1, 2]}",
            "loss.matryoshka.weights: expected 1, one of dims each",
        ),
        (
            "loss.matryoshka={dim: [4]}",
            "loss.matryoshka.dim: unknown key; did you mean 'loss.matryoshka.dims'?",
        ),
    ],
)
def test_cuts_that_cannot_be_are_refused(embedrun, options, option: str, says: str):
    ended = embedrun("train", *options, option)
    assert ended.code == 2
    assert says in ended.err
