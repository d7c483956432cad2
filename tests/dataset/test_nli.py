import os

import numpy as np
import pytest

from embedrun.dataset.nli import Nli
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
        ({"neutral": "column"}, "neutral is for form=triplet, pairs have labels; use dataset=nli_three_way"),
        ({"labels": []}, "sources and labels must name at least one"),
        ({"scores": {"entailment": 1}}, "a number for each of"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options, reason):
    with pytest.raises(ValueError, match=reason):
        Nli(**options)


@pytest.fixture
def triples(samples, write) -> None:
    rows = [
        ("A man walks.", "e1", "c1", "snli"),
        ("Alone.", "e2", "c2", "mnli"),
        ("A man walks.", "e3", "c3", "mnli"),
    ]
    fields = ("sent0", "sent1", "hard_neg", "source")
    write("nli/triples.jsonl.gz", [dict(zip(fields, row, strict=True)) for row in rows])


def test_a_neutral_hypothesis_is_a_second_hard_negative_of_the_same_rows(store, triples):
    plain, data = Nli(form="triplet").read("train", store), Nli(form="triplet", neutral="column")
    rows = data.read("train", store)
    assert rows.texts == {
        "left": plain.texts["left"],
        "right": plain.texts["right"],
        "negative_1": plain.texts["negative"],
        "negative_2": ["s1", "", "s1"],
    }
    assert tuple(rows.texts) == data.views
    assert rows.targets["hard_negatives"].tolist() == [2, 1, 2]
    assert data.targets == ("hard_negatives",)
    assert data.files("train", store) == ["nli/triples.jsonl.gz", *Nli().files("train", store)]


def test_a_drawn_neutral_hypothesis_stands_in_place_of_the_contradiction(store, write, samples):
    row = {"sent0": "A man walks.", "sent1": "e", "hard_neg": "c", "source": "snli"}
    write("nli/triples.jsonl.gz", [row] * 400 + [{**row, "sent0": "Alone."}])
    data = Nli(form="triplet", neutral="drawn")
    negative = data.read("train", store).texts["negative"]
    assert 150 < negative.count("s1") < 250
    assert negative.count("s1") + negative.count("c") == 401
    assert negative[-1] == "c"
    assert data.read("train", store).texts["negative"] == negative
    assert data.targets == ()


@pytest.mark.realdata
def test_the_real_samples_have_their_label_counts():
    store = Store.find(os.environ["EMBEDRUN_DATA"])
    if store.has("nli/mnli_train.jsonl.gz"):
        pytest.skip("this store has the whole training split")
    data = Nli(labels=["entailment", "neutral", "contradiction"], sources=["mnli"])
    assert np.bincount(data.read("train", store).targets["label"]).tolist() == [10158, 12020, 10219]


@pytest.mark.realdata
@pytest.mark.parametrize(("source", "count"), [("snli", 13385), ("mnli", 2082)])
def test_the_real_triplets_have_their_counts(source, count):
    rows = Nli(form="triplet", sources=[source]).read("train", Store.find(os.environ["EMBEDRUN_DATA"]))
    assert len(rows) == count
