"""What every evaluation task has: options that are held before anything is encoded."""

from typing import Any

import pytest

from embedrun import family
from embedrun.evaluation import mteb

# Options that mean nothing, and what is said of them.
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("geometry", {"saturated_from": 1.0}, "saturated_from must be > 0 and < 1, got 1.0"),
    ("geometry", {"positive_above": 5.0}, "positive_above must be >= 0 and < 5, got 5.0"),
    ("geometry", {"dropout_samples": 1}, r"dropout_samples must be 0 \(no map\) or at least 2, got 1"),
    ("geometry", {"related": ["a", "a"]}, "related needs 2 to 6 different sentences, got 2 with 1 different"),
    ("heldout", {"interval_draws": -2}, "interval_draws must be 0 .* got -2"),
    ("ir", {"queries": "q.jsonl"}, "give path=FOLDER with queries.jsonl"),
    ("ir", {"path": "x", "recall": [0]}, "ndcg, mrr, recall, map and precision are lists of ranks > 0"),
    ("ir", {"path": "x", "main": "ndcg@5"}, "main must be one of ndcg@10, .*; got 'ndcg@5'"),
    ("ir", {"nano": ["SciFacts"]}, "nano is a list of ArguAna, .*SciFacts"),
    ("mteb", {"tasks": ["STS12"], "benchmark": "MTEB"}, ".*either tasks, a list of names, or benchmark"),
    ("mteb", {"tasks": ["STSBenchmrk"]}, "no task 'STSBenchmrk'; did you mean 'STSBenchmark'"),
    ("mteb", {"benchmark": "MTEB(eng,v1)"}, r"no benchmark 'MTEB\(eng,v1\)'; did you mean 'MTEB\(eng, v1\)'"),
    ("mteb", {"benchmark": "MTEB", "splits": ["test"]}, ".*splits and languages of its own"),
    ("mteb", {"tasks": ["STS12"], "splits": ["dev"]}, r"STS12 has no split dev \(it has: test\)"),
    ("mteb", {"tasks": ["STS12"], "languages": ["deu"]}, "STS12 has nothing in the languages deu"),
    ("mteb", {"tasks": ["RenderedSST2"]}, ".*reads text and image"),
    ("mteb", {"tasks": ["STS12"], "prompts": {"STS13": ""}}, ".*'STS13' is neither.*; did you mean 'STS12'"),
    ("retrieval", {"sets": []}, "sets must name at least one of flickr30k, flickr8k, mscoco"),
    (
        "retrieval",
        {"sets": ["flickr30k", "mscoco"], "split": "dev"},
        "mscoco has no dev split, only flickr30k has",
    ),
    ("retrieval", {"recall_at": [5, 0]}, r"recall_at must be whole numbers > 0, got \[5, 0\]"),
    ("senteval", {"tasks": []}, "tasks must name at least one of mr, cr"),
    ("senteval", {"seeds": []}, "seeds must be at least one number from 0"),
    ("senteval", {"protocol": "fast", "seeds": [1, 2]}, ".*same optimum for every seed"),
    *(
        ("sts", {option: []}, "sets, aggregation and metrics need at least one entry")
        for option in ("sets", "aggregation", "metrics")
    ),
]


@pytest.fixture(autouse=True, scope="module")
def _imported():
    mteb.package()  # this and the list of benchmarks take seconds, which are no test's own
    mteb.Mteb(benchmark="MTEB")


def test_every_task_is_here():
    assert {name for name, *_ in REFUSED} == set(family.names("evaluation"))


@pytest.mark.parametrize("task", family.names("evaluation"))
def test_options_that_mean_nothing_are_refused_with_the_task_and_the_reason(task: str):
    for name, options, message in REFUSED:
        if name == task:
            with pytest.raises(ValueError, match=f"^{family.class_name(name)}: {message}"):
                family.find("evaluation", name)(**options)
