import importlib.metadata
import json
import math
import os
import random
import sys
import warnings
from pathlib import Path

import datasets
import numpy as np
import pytest
import torch
from minilm import minilm_folder
from torch import Tensor

from embedrun.dataset.published import Sickr, Stsb
from embedrun.encoder import Encoder
from embedrun.errors import DataError
from embedrun.evaluation.mteb import Mteb
from embedrun.evaluation.mteb_data import isolated
from embedrun.evaluation.mteb_task import by_name
from embedrun.evaluation.scores import Scores
from embedrun.evaluation.sts import sts_spearman
from embedrun.store import Store

STORED = json.loads((Path(__file__).parent / "mteb_eng_v1.json").read_text(encoding="utf-8"))
ANGLES = {"a": 0.0, "b": 0.2, "c": 0.6, "d": 1.2}  # of the vector of each text, in radians
PARTS_OF_RETRIEVAL = "".join(
    f"- config_name: {name}\n  data_files: [{{split: test, path: {name}.jsonl}}]\n"
    for name in ("corpus", "queries", "default")
)
SECOND = 100 / math.log2(3)  # NDCG of a single relevant document at rank 2


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


def encode(texts: list[str]) -> Tensor:
    return torch.tensor([[math.cos(ANGLES[text[-1]]), math.sin(ANGLES[text[-1]])] for text in texts])


def put(folder: Path, name: str, rows: list[dict]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")


def put_pairs(folder: Path, rights: str, gold: list[float]) -> None:
    """Pairs of the text `a` with each of `rights`; its cosine falls from b over c to d."""
    rows = [{"sentence1": "a", "sentence2": one, "score": own} for one, own in zip(rights, gold, strict=True)]
    put(folder, "test", rows)


def put_retrieval(folder: Path, relevant: str) -> None:
    """One query, `a`, and three documents, which rank b c d."""
    put(folder, "corpus", [{"_id": one, "title": "", "text": one} for one in "dcb"])
    put(folder, "queries", [{"_id": "q", "text": "a"}])
    put(folder, "default", [{"query-id": "q", "corpus-id": relevant, "score": 1}])
    (folder / "README.md").write_text(f"---\nconfigs:\n{PARTS_OF_RETRIEVAL}---\n", encoding="utf-8")


def test_two_tasks_from_local_copies(tmp_path):
    put_pairs(tmp_path / "STSBenchmark", "bdc", [3, 2, 1])
    put_retrieval(tmp_path / "NFCorpus", "c")
    found = Mteb(tasks=["STSBenchmark", "NFCorpus"], folder=str(tmp_path)).score({}, encode)
    assert found.scores == pytest.approx(
        {"mteb/STSBenchmark/cosine_spearman": 50, "mteb/NFCorpus/ndcg_at_10": SECOND}, abs=1e-3
    )
    assert found.main == "mteb/STSBenchmark/cosine_spearman"


def test_a_classification_trains_on_the_vectors(tmp_path):
    rows = [
        {"text": f"{number} {letter}", "label": int(letter == "d")} for number in range(9) for letter in "ad"
    ]
    put(tmp_path / "EmotionClassification", "train", rows)
    # The last is of the other class than its vector.
    put(tmp_path / "EmotionClassification", "test", [*rows[:3], {"text": "d", "label": 0}])
    found = Mteb(tasks=["EmotionClassification"], folder=str(tmp_path)).score({}, encode)
    assert found.scores == pytest.approx({"mteb/EmotionClassification/accuracy": 75})


def test_cqadupstack_is_one_task_and_the_mean_of_its_twelve_forums(tmp_path):
    (choice,) = by_name(["CQADupstackRetrieval"], None, None)
    for number, part in enumerate(choice.parts):
        put_retrieval(
            tmp_path / part.name, "b" if number < 9 else "c"
        )  # rank 1 nine times, rank 2 three times
    asked = []
    task = Mteb(
        tasks=["CQADupstackRetrieval"], folder=str(tmp_path), prompts={"CQADupstackRetrieval-query": "Q "}
    )
    found = task.score({}, lambda texts: asked.append(texts) or encode(texts))
    expected = (9 * 100 + 3 * SECOND) / 12
    assert found.scores == pytest.approx({"mteb/CQADupstackRetrieval/ndcg_at_10": expected}, abs=1e-3)
    assert len(found.notes["tasks"]["CQADupstackRetrieval"]["parts"]) == 12
    assert asked[:2] == [["Q a"], ["d", "c", "b"]]


def test_notes_say_what_decided_the_scores(tmp_path):
    put_retrieval(tmp_path / "NFCorpus", "b")
    found = Mteb(tasks=["NFCorpus"], folder=str(tmp_path), prompts={"query": "Q "}).score({}, encode)
    notes = json.loads(json.dumps(found.notes, allow_nan=False))
    assert (notes["benchmark"], notes["prompts"]) == (None, {"query": "Q "})
    own = notes["tasks"]["NFCorpus"]
    assert own["mteb"] == importlib.metadata.version("mteb")
    assert (own["category"], own["metric"], own["dataset"]) == ("Retrieval", "ndcg_at_10", "mteb/nfcorpus")
    assert own["revision"] is None  # of a copy it cannot be known
    assert len(own["sha256"]) == 64
    assert own["prompts"] == {"query": "Q ", "document": None}
    assert (
        own["metrics"]["test"]["default"]["ndcg_at_10"]
        == own["metrics"]["test"]["default"]["main_score"]
        == 1
    )


def test_a_changed_copy_has_another_sum(tmp_path):
    put_pairs(tmp_path / "STSBenchmark", "bc", [2, 1])
    task = Mteb(tasks=["STSBenchmark"], folder=str(tmp_path))
    sums = [task.score({}, encode).notes["tasks"]["STSBenchmark"]["sha256"]]
    put(tmp_path / "STSBenchmark" / ".cache", "client", [])  # what a hub client leaves there
    sums.append(task.score({}, encode).notes["tasks"]["STSBenchmark"]["sha256"])
    put_pairs(tmp_path / "STSBenchmark", "bc", [2, 0])
    sums.append(task.score({}, encode).notes["tasks"]["STSBenchmark"]["sha256"])
    assert sums[0] == sums[1] != sums[2]


def test_parts_are_scored_alone_and_their_total_holds_no_more_than_the_whole(tmp_path):
    put_pairs(tmp_path / "STSBenchmark", "bdc", [3, 2, 1])
    put_pairs(tmp_path / "SICK-R", "bcd", [3, 2, 1])
    task = Mteb(tasks=["STSBenchmark", "SICK-R"], folder=str(tmp_path))
    parts = task.parts()
    assert list(parts) == ["STSBenchmark", "SICK-R"]
    found = {name: part.score({}, encode) for name, part in parts.items()}
    assert found["SICK-R"].scores == pytest.approx({"mteb/SICK-R/cosine_spearman": 100})
    total = task.total(found)
    assert (total.scores, total.main) == ({}, "mteb/STSBenchmark/cosine_spearman")


def test_the_averages_of_a_benchmark_follow_from_its_stored_scores():
    task = Mteb(benchmark="MTEB(eng, v1)")
    assert {name: part.choice.category for name, part in task.parts().items()} == {
        name: one["category"] for name, one in STORED.items()
    }
    found = {
        name: Scores({key: one["score"]}, key)
        for name, one in STORED.items()
        for key in [f"mteb/{name}/{one['metric']}"]
    }
    total = task.total(found)
    # 12 x 65.5 + 11 x 35 + 3 x 82 + 4 x 50 + 15 x 20 + 10 x 80 + 30 over 56 tasks
    assert total.scores["mteb/avg/score"] == pytest.approx(2747 / 56)
    assert total.scores["mteb/avg.Retrieval/score"] == pytest.approx(20)
    assert total.main == "mteb/avg/score"
    assert total.notes["benchmark"] == "MTEB(eng, v1)"
    del found["STS12"]
    assert task.total(found).scores == {}


def test_a_benchmark_scores_its_own_splits_and_languages(tmp_path):
    parts = Mteb(benchmark="MTEB", folder=str(tmp_path)).parts()
    chosen = {name: part.choice for name, part in parts.items()}
    assert (chosen["MSMARCO"].splits, chosen["STS12"].splits) == (("dev",), ("test",))
    assert (chosen["STS17"].subsets, chosen["STS22"].subsets) == (("en-en",), ("en",))
    rows = [("en-en", "b", 3), ("en-en", "d", 2), ("en-en", "c", 1), ("fr-en", "b", 1), ("fr-en", "c", 2)]
    put(
        tmp_path / "STS17",
        "test",
        [{"lang": own, "sentence1": "a", "sentence2": right, "score": gold} for own, right, gold in rows],
    )
    found = parts["STS17"].score({}, encode)
    assert found.scores == pytest.approx({"mteb/STS17/cosine_spearman": 50})


def test_named_tasks_score_their_test_split_in_the_wanted_languages():
    (choice,) = by_name(["MTOPDomainClassification"], None, ["eng"])  # mteb's own are validation and test
    assert (choice.splits, choice.subsets) == (("test",), ("en",))
    (choice,) = by_name(["MTOPDomainClassification"], ["validation"], ["deu", "fra"])
    assert (choice.splits, choice.subsets) == (("validation",), ("de", "fr"))
    assert by_name(["MSMARCO"], None, None)[0].splits == ("dev",)


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "mteb", None)
    with pytest.raises(ValueError, match=r"pip install '\.\[mteb\]'"):
        Mteb(tasks=["STSBenchmark"])


def test_every_missing_copy_is_named_before_a_text_is_encoded(tmp_path):
    put_pairs(tmp_path / "STS12", "bc", [2, 1])
    task = Mteb(tasks=["STS12", "STS13", "NFCorpus"], folder=str(tmp_path))
    with pytest.raises(DataError) as caught:
        task.score({}, lambda _: pytest.fail("encoded"))
    assert caught.value.problems == task.problems()
    assert [line.partition(" (")[0] for line in task.problems()] == [
        "mteb task STS13: data set mteb/sts13-sts",
        "mteb task NFCorpus: data set mteb/nfcorpus",
    ]
    assert str(tmp_path / "NFCorpus") in task.problems()[1]


def test_vectors_that_are_not_finite_leave_the_score_undefined(tmp_path):
    put_pairs(tmp_path / "STSBenchmark", "bc", [2, 1])
    found = Mteb(tasks=["STSBenchmark"], folder=str(tmp_path)).score(
        {}, lambda texts: encode(texts) * math.nan
    )
    assert math.isnan(found.scores["mteb/STSBenchmark/cosine_spearman"])
    assert "not finite" in found.notes["tasks"]["STSBenchmark"]["undefined"]


def test_random_states_threads_warnings_and_bars_stay_as_they_were(tmp_path, capsys):
    put_pairs(tmp_path / "STSBenchmark", "bdc", [3, 2, 1])

    def draws() -> tuple:
        return random.random(), np.random.random(), torch.rand(1).item()

    def seeded() -> None:
        random.seed(7), np.random.seed(7), torch.manual_seed(7)

    seeded()
    expected = draws()
    seeded()
    filters, threads = list(warnings.filters), torch.get_num_threads()
    Mteb(tasks=["STSBenchmark"], folder=str(tmp_path)).score({}, encode)
    assert draws() == expected
    assert (warnings.filters, torch.get_num_threads()) == (filters, threads)
    assert not datasets.are_progress_bars_disabled()
    assert capsys.readouterr().out == ""


def test_isolation_ends_with_a_fault_as_well():
    random.seed(7)
    state, numpy = random.getstate(), np.random.get_state()[1].tolist()
    torch_state = torch.get_rng_state()

    def fail() -> None:
        random.seed(0), np.random.seed(0), torch.manual_seed(0)
        raise KeyError

    with pytest.raises(KeyError), isolated():
        fail()
    assert random.getstate() == state
    assert np.random.get_state()[1].tolist() == numpy
    assert torch.equal(torch.get_rng_state(), torch_state)


@pytest.mark.realdata
@pytest.mark.slow
def test_minilm_scores_as_in_our_own_suite(tmp_path):
    encoder, store = Encoder.load(minilm_folder()), Store.find(os.environ["EMBEDRUN_DATA"])
    vectors: dict[str, Tensor] = {}

    def encode(texts: list[str]) -> Tensor:
        new = [text for text in dict.fromkeys(texts) if text not in vectors]
        vectors.update(zip(new, torch.from_numpy(encoder.encode(new)), strict=True))
        return torch.stack([vectors[text] for text in texts])

    ours = {}
    for name, dataset in (("STSBenchmark", Stsb()), ("SICK-R", Sickr())):
        pairs = dataset.read("test", store)
        left, right, gold = pairs.texts["left"], pairs.texts["right"], pairs.targets["score"].tolist()
        rows = [
            {"sentence1": one, "sentence2": two, "score": score}
            for one, two, score in zip(left, right, gold, strict=True)
        ]
        put(tmp_path / name, "test", rows)
        ours[f"mteb/{name}/cosine_spearman"] = sts_spearman(encode, left, right, gold)
    found = Mteb(tasks=["STSBenchmark", "SICK-R"], folder=str(tmp_path)).score({}, encode).scores
    assert found == pytest.approx(ours, abs=0.01)
    assert found["mteb/STSBenchmark/cosine_spearman"] == pytest.approx(82.03, abs=0.01)
