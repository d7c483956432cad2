"""The user's own files from the command line to the run directory."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

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


def test_skipped_rows_are_counted_listed_and_told(embedrun):
    dev()
    Path("texts.txt").write_text("".join(f"text {row}\n" for row in range(4)) + "\n" + "more\n" * 4)
    options = ("dataset=texts", "dataset.path=texts.txt", "loss=simcse_unsupervised", "hydra.run.dir=run")
    refused = embedrun("train", *SMALL, *options)
    assert (refused.code, refused.err.splitlines()[-1]) == (3, "  texts.txt, line 5: blank line")
    ended = embedrun("train", *SMALL, *options, "dataset.on_bad_row=skip")
    assert ended.code == 0, ended.err
    warning = "warning: 1 faulty row of your files skipped, the first: texts.txt, line 5: blank line"
    assert warning in ended.err
    lines = Path("run/skipped_rows.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"file": "texts.txt", "line": 5, "column": None, "reason": "blank line"}
    ]
    counts = json.loads(Path("run/results.json").read_text())["counts"]
    assert (counts["train_rows"], counts["skipped_rows"]) == (8, 1)


def test_an_evaluation_says_what_it_skipped(embedrun):
    dev()
    Path("test.csv").write_text("text1,text2,score\na,b,1\nc,d,2\ne,f,x\ng,h,3\n")
    options = ("dataset=texts", "dataset.path=texts.txt", "loss=simcse_unsupervised", "hydra.run.dir=run")
    Path("texts.txt").write_text("text\n" * 8)
    assert embedrun("train", *SMALL, *options).code == 0
    pairs = ("dataset=pairs", "dataset.path=dev.csv", "dataset.test=test.csv", "dataset.on_bad_row=skip")
    ended = embedrun("evaluate", "model=run", "evaluation=heldout", *pairs, "hydra.run.dir=scored")
    assert ended.code == 0, ended.err
    assert "warning: 1 faulty row of your files skipped" in ended.err
    assert json.loads(Path("scored/results.json").read_text())["counts"]["skipped_rows"] == 1
    assert json.loads(Path("scored/skipped_rows.jsonl").read_text())["line"] == 4
