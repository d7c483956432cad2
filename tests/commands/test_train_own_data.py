"""A user's own rows, from what is typed to the run: they train alike whatever file holds them."""

import csv
import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import same_run
import small_models

from embedrun.batch import Batch
from embedrun.dataset.pairs import Pairs
from embedrun.dataset.split import hold_out
from embedrun.rows import texts_at
from embedrun.store import Store
from embedrun.training.feed import Feed
from embedrun.training.order import Draw

NAMES = ("text1", "text2", "score")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
CARD = """\
---
configs:
- config_name: best
  data_files:
  - {split: train, path: best/train-*}
  - {split: dev, path: best/dev-*}
---
"""


def made(count: int, seed: int) -> list[tuple[str, str, float]]:
    rng = random.Random(seed)
    words = ("a", "dog", "ran", "over", "the", "hill", "and", "was", "happy", "to", "see", "red", "balls")

    def text() -> str:
        return " ".join(rng.choices(words, k=5))

    return [(text(), text(), round(5 * rng.random(), 2)) for _ in range(count)]


TRAIN, DEV = made(90, 1), made(20, 2)


def put(path: str, separator: str = ",", encoding: str = "utf-8") -> None:
    with Path(path).open("w", newline="", encoding=encoding) as file:
        csv.writer(file, delimiter=separator).writerows([NAMES, *TRAIN])


def put_parquet(path: Path, rows: list[tuple[str, str, float]], names: tuple[str, ...] = NAMES) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = zip(*rows, strict=True)
    pq.write_table(pa.table({name: list(one) for name, one in zip(names, columns, strict=True)}), path)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_models.put(tmp_path_factory.mktemp("model") / "bert", "bert")


@pytest.fixture
def line(model: Path) -> Callable[..., list[str]]:
    """What is typed, but for what names the data."""

    def make(*options: str) -> list[str]:
        return [
            "train", f"backbone.name={model}", "pooling=mean", "loss=cosent", "gpu=cpu", "gpu.threads=1",
            "evaluation=none", "training.max_steps=2", "training.batch_size=16", "hydra.run.dir=run",
            "dataset=pairs", *options,
        ]  # fmt: skip

    return make


HUB = (
    "dataset.path=hf://datasets/owner/name",
    "dataset.config=best",
    "dataset.columns={text1: q, text2: a, score: rating}",
    "dataset.splits={train: train, dev: dev}",
)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data set as the hub's cache holds it; gives the file of its branch."""
    home = tmp_path / "hf/hub/datasets--owner--name"
    folder = home / "snapshots" / COMMIT
    for shard in range(2):
        part = TRAIN[45 * shard :][:45]
        put_parquet(folder / f"best/train-0000{shard}-of-00002.parquet", part, ("q", "a", "rating"))
    put_parquet(folder / "best/dev-00000-of-00001.parquet", DEV, ("q", "a", "rating"))
    (folder / "README.md").write_text(CARD)
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text(COMMIT)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hf/hub"))
    return home / "refs" / "main"


def test_a_data_set_of_the_hub_trains_by_one_line_from_a_copied_cache(line, embedrun, hub):
    ended = embedrun(*line(*HUB))
    assert ended.code == 0, ended.err
    assert ended.err.count(f"hf://datasets/owner/name: its newest commit is {COMMIT}\n") == 1
    assert same_run.read(Path("run/results.json"))["counts"]["train_rows"] == 90
    assert same_run.read(Path("run/environment.json"))["data"]["hub owner/name"] == COMMIT
    assert f"\n  revision: {COMMIT}\n" in Path("run/config.yaml").read_text()


def test_a_mark_of_byte_order_a_separator_a_packed_file_and_a_folder_of_shards_change_nothing():
    put("train.csv")
    put("bom.csv", encoding="utf-8-sig")
    put("semicolons.csv", ";")
    lines = [json.dumps(dict(zip(NAMES, row, strict=True))) for row in TRAIN]
    Path("train.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    for shard in range(3):
        put_parquet(Path(f"shards/part-{shard}.parquet"), TRAIN[30 * shard :][:30])
    store = Store(Path("nowhere"))
    expected = Pairs(path="train.csv").read("train", store).fingerprint()
    for path, options in (
        ("bom.csv", {}),
        ("semicolons.csv", {"separator": ";"}),
        ("train.jsonl.gz", {}),
        ("shards", {}),
    ):
        assert Pairs(path=path, **options).read("train", store).fingerprint() == expected, path


def test_one_csv_trains_and_selects_by_rows_that_no_step_sees_and_nothing_of_sts(line, embedrun, monkeypatch):
    monkeypatch.delenv("EMBEDRUN_DATA", raising=False)
    monkeypatch.setattr("embedrun.dataset.published.Stsb.read", lambda *_: pytest.fail("STS-B is read"))
    seen: set[str] = set()
    monkeypatch.setattr(Feed, "batch", _seeing(Feed.batch, seen))
    rows = [(f"{first} {number}", f"{second} {number}", score) for number, (first, second, score) in
            enumerate(made(400, 3))]  # fmt: skip
    with Path("train.csv").open("w", newline="") as file:
        csv.writer(file).writerows([NAMES, *rows])
    typed = [option for option in line("dataset.path=train.csv") if not option.startswith("evaluation=")]
    ended = embedrun(*typed, "training.max_steps=24", "training.evaluate_every=12")
    assert ended.code == 0, ended.err
    said = "20 of 400 training rows are held out to pick the checkpoint, by dataset.split_seed=42; they share"
    assert said in ended.err
    assert said in Path("run/run.log").read_text()

    results = same_run.read(Path("run/results.json"))
    keys = ["pairs_dev/spearman", "pairs_dev/spearman_clean"]
    assert list(results["scores"]) == list(results["baseline"]) == keys
    assert (results["counts"]["train_rows"], results["counts"]["dev/heldout"]) == (380, 20)
    assert results["notes"]["selected_by"] == "pairs_dev/spearman"
    held_out = hold_out(Pairs(path="train.csv").read("train", Store(Path("nowhere"))), 42)
    assert held_out.dev is not None
    gold = pq.read_table("run/predictions/pairs_dev.parquet")["gold"].to_pylist()
    assert gold == held_out.dev.targets["score"].tolist()
    # An epoch of 380 rows is 23 batches of 16, with no row twice, and the 24th is of the next.
    assert len(seen) >= 2 * 23 * 16
    assert seen <= set(held_out.train.sentences())
    assert seen.isdisjoint(held_out.dev.sentences())
    data = same_run.read(Path("run/environment.json"))["data"]
    assert data["pairs/train"] == Pairs(path="train.csv").read("train", Store(Path("nowhere"))).fingerprint()


def _seeing(batch: Callable[..., Batch], seen: set[str]) -> Callable[..., Batch]:
    """The batches of a feed; the texts of their rows are noted."""

    def noting(feed: Feed, draw: Draw) -> Batch:
        seen.update(text for view in vars(feed)["_rows"].texts.values() for text in texts_at(view, draw.rows))
        return batch(feed, draw)

    return noting
