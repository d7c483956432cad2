import json
import time
from pathlib import Path

import datasets
import huggingface_hub
import pytest
from huggingface_hub import constants

from embedrun.errors import DataError
from embedrun.evaluation import mteb_data
from embedrun.evaluation.mteb_data import isolated, load, unavailable
from embedrun.evaluation.mteb_task import by_name

REVISION = "b0fddb56ed78048fa8b90373c8a3cfc37b684831"  # of STSBenchmark, as mteb pins it
ROW = {"sentence1": "a", "sentence2": "b", "score": 1.0}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    mteb_data._hub_answers.cache_clear()
    yield
    mteb_data._hub_answers.cache_clear()


def task(name: str):
    (choice,) = by_name([name], None, None)
    with isolated():
        return choice.task()


def cached(folder: Path, revision: str) -> Path:
    """What datasets leaves in its cache when it has loaded STSBenchmark from the hub."""
    place = folder / "mteb___stsbenchmark-sts" / "default" / "0.0.0" / revision
    place.mkdir(parents=True)
    table = datasets.Dataset.from_list([ROW])
    with datasets.arrow_writer.ArrowWriter(
        features=table.features, path=str(place / "stsbenchmark-sts-test.arrow")
    ) as writer:
        writer.write(ROW)
        writer.finalize()
    info = {
        "config_name": "default",
        "dataset_name": "stsbenchmark-sts",
        "features": table.features.to_dict(),
        "splits": {"test": {"name": "test", "num_examples": 1, "dataset_name": "stsbenchmark-sts"}},
        "version": {"version_str": "0.0.0", "major": 0, "minor": 0, "patch": 0},
    }
    (place / "dataset_info.json").write_text(json.dumps(info), encoding="utf-8")
    return place


def test_offline_the_cache_of_datasets_serves_at_the_pinned_revision(tmp_path):
    cached(tmp_path / "cache", REVISION)
    one = task("STSBenchmark")
    with isolated():
        said = load(one, None)
    assert said == {"dataset": "mteb/stsbenchmark-sts", "revision": REVISION}
    assert one.dataset["test"][0] == ROW


@pytest.mark.parametrize("others", [[], ["0" * 40], ["0" * 40, REVISION]])
def test_offline_no_other_revision_is_taken_for_the_pinned_one(tmp_path, others):
    for revision in others:
        cached(tmp_path / "cache", revision)
    (problem,) = unavailable([task("STSBenchmark")], None)
    assert problem.startswith(
        f"mteb task STSBenchmark: data set mteb/stsbenchmark-sts (revision {REVISION}) is not in the cache"
    )


def test_offline_missing_data_is_refused_at_once():
    started = time.monotonic()
    with (
        pytest.raises(DataError, match=r"NFCorpus: data set mteb/nfcorpus .*hub cannot be reached"),
        isolated(),
    ):
        load(task("NFCorpus"), None)
    assert time.monotonic() - started < 3


def test_a_hub_that_is_silent_is_waited_for_once(monkeypatch):
    asked = []
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(mteb_data, "PATIENCE", 0.05)
    monkeypatch.setattr(
        huggingface_hub.HfApi, "dataset_info", lambda *_, **__: (asked.append(1), time.sleep(0.5))
    )
    assert len(unavailable([task("STSBenchmark"), task("STS13")], None)) == 2
    assert len(unavailable([task("STS12")], None)) == 1
    assert len(asked) == 1


def test_a_hub_that_answers_is_asked_for_the_data_and_its_fault_is_told(monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", lambda *_, **__: None)
    one = task("STSBenchmark")
    assert unavailable([one], None) == []

    def fail(**_):
        raise RuntimeError("gone\nand more")

    monkeypatch.setattr(one, "load_data", fail)
    with pytest.raises(DataError) as caught, isolated():
        load(one, None)
    assert caught.value.problems == [
        "mteb task STSBenchmark: data set mteb/stsbenchmark-sts cannot be read (RuntimeError: gone)"
    ]


def test_a_full_disk_is_not_taken_for_missing_data(tmp_path, monkeypatch):
    (tmp_path / "STSBenchmark").mkdir()
    one = task("STSBenchmark")

    def fail(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(one, "load_data", fail)
    with pytest.raises(OSError, match="No space left"), isolated():
        load(one, tmp_path)


def test_a_copy_that_is_not_readable_is_named(tmp_path):
    (tmp_path / "STSBenchmark").mkdir()
    (tmp_path / "STSBenchmark" / "test.jsonl").write_text("not json\n", encoding="utf-8")
    said = f"mteb/stsbenchmark-sts in {tmp_path}/STSBenchmark cannot be read"
    with pytest.raises(DataError, match=said), isolated():
        load(task("STSBenchmark"), tmp_path)


def test_reranking_without_documents_to_rank_is_refused(tmp_path):
    copy = tmp_path / "AskUbuntuDupQuestions"
    copy.mkdir()
    parts = {
        "corpus": {"_id": "d", "title": "", "text": "b"},
        "queries": {"_id": "q", "text": "a"},
        "default": {"query-id": "q", "corpus-id": "d", "score": 1},
        "top_ranked": {"query-id": "q", "corpus-ids": ["d"]},
    }
    for name, row in parts.items():
        (copy / f"{name}.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")

    def describe(names) -> None:
        configs = [
            f"- config_name: {name}\n  data_files: [{{split: test, path: {name}.jsonl}}]" for name in names
        ]
        (copy / "README.md").write_text("\n".join(["---", "configs:", *configs, "---", ""]), encoding="utf-8")

    describe(parts)
    with isolated():
        load(task("AskUbuntuDupQuestions"), tmp_path)
    describe([name for name in parts if name != "top_ranked"])
    with pytest.raises(DataError, match="came without top_ranked"), isolated():
        load(task("AskUbuntuDupQuestions"), tmp_path)
