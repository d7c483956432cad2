import os

import numpy as np
import pytest

from embedrun.dataset.nli import Nli
from embedrun.errors import DataError
from embedrun.store import Store


def pair(label, hypothesis: str = "Someone walks.") -> dict:
    return {"premise": "A man walks.", "hypothesis": hypothesis, "label": label}


@pytest.fixture
def samples(write) -> None:
    write("nli/snli_train_sample.jsonl.gz", [pair(0, "s0"), pair(1, "s1"), pair(2, "s2")])
    write("nli/mnli_train_sample.jsonl.gz", [pair(2, "m2"), pair(0, "m0")])


def test_neutral_can_be_kept_with_a_score_of_its_own(store, samples):
    data = Nli(
        labels=["entailment", "neutral", "contradiction"],
        scores={"entailment": 5, "neutral": 2.5, "contradiction": 1},
        sources=["snli"],
    )
    assert data.read("train", store).targets["score"].tolist() == [5, 2.5, 1]


def test_the_whole_training_split_goes_before_the_sample(store, samples, write):
    write("nli/snli_train.jsonl.gz", [pair(0, "whole")])
    assert Nli().files("train", store) == ["nli/snli_train.jsonl.gz", "nli/mnli_train_sample.jsonl.gz"]
    assert Nli(sources=["snli"]).read("train", store).texts["right"] == ["whole"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"form": "triplet", "labels": ["neutral"]}, "form=pair"),
        ({"form": "triplet", "scores": {"neutral": 1}}, "form=pair"),
        ({"labels": []}, "labels must name at least one of entailment, neutral, contradiction"),
        ({"sources": ["wiki"]}, r"sources must name at least one of snli, mnli; got \['wiki'\]"),
        ({"scores": {"entailment": 1}}, "no number for contradiction"),
        ({"scores": {"entails": 1}}, "no label entails"),
        ({"scores": {"entailment": float("nan"), "contradiction": 0}}, "finite"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options, reason):
    with pytest.raises(ValueError, match=reason):
        Nli(**options)


def test_a_choice_that_leaves_no_row_is_refused(store, samples):
    with pytest.raises(DataError, match="no row is of neutral"):
        Nli(sources=["mnli"], labels=["neutral"]).read("train", store)


@pytest.mark.realdata
def test_the_real_samples_have_their_label_counts():
    store = Store.find(os.environ["EMBEDRUN_DATA"])
    if store.has("nli/snli_train.jsonl.gz") or store.has("nli/mnli_train.jsonl.gz"):
        pytest.skip("this store has whole training splits")
    data = Nli(labels=["entailment", "neutral", "contradiction"])
    labels = data.read("train", store).targets["label"]
    assert np.bincount(labels).tolist() == [24591 + 10158, 26492 + 12020, 18790 + 10219]


@pytest.mark.realdata
@pytest.mark.parametrize(("source", "count"), [("snli", 13385), ("mnli", 2082)])
def test_the_real_triplets_have_their_counts(source, count):
    rows = Nli(form="triplet", sources=[source]).read("train", Store.find(os.environ["EMBEDRUN_DATA"]))
    assert len(rows) == count
