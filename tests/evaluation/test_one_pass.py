import contextlib

import numpy as np
import pytest
import torch
from torch import Tensor

from embedrun.evaluation.scores import Encode, Scores, Source, score_all
from embedrun.rows import Rows


class Lengths:
    """A task that gives back what it is handed."""

    def sources(self) -> dict[str, Source]:
        return {"all": Source(None, "test")}

    def score(self, rows, encode: Encode, progress=None) -> Scores:
        texts = rows["all"].texts["right"]
        return Scores(
            {"sum": float(encode(texts).sum())}, "sum", {"seen": {"vector": encode(texts).tolist()}}
        )


def rows(left: list[str], right: list[str]) -> Rows:
    return Rows("toy", "test", "pair", {"left": left, "right": right}, {"score": np.zeros(len(left))})


class Recorder:
    """Encodes a text as its length, and remembers the calls."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def __call__(self, texts: list[str]) -> Tensor:
        self.calls.append(texts)
        return torch.tensor([[float(len(text))] for text in texts])


def test_all_tasks_share_one_pass_over_the_distinct_sentences_in_order_of_appearance():
    encode, task = Recorder(), Lengths()
    given = {"one": {"all": rows(["a", "bb"], ["bb", "ccc"])}, "two": {"all": rows(["ccc"], ["dddd"])}}
    found = score_all({"one": task, "two": task}, given, encode)
    assert encode.calls == [["a", "bb", "ccc", "dddd"]]
    assert found["one"].scores == {"sum": 5.0}
    assert found["two"].scores == {"sum": 4.0}


def test_every_task_gets_the_vectors_of_its_own_texts_in_its_own_order():
    found = score_all(
        {"one": Lengths()}, {"one": {"all": rows(["x", "x", "x"], ["ccc", "a", "ccc"])}}, Recorder()
    )
    assert found["one"].predictions["seen"]["vector"] == [[3.0], [1.0], [3.0]]


def test_a_task_with_clean_rows_is_scored_again_on_these_with_the_same_vectors():
    encode = Recorder()
    given = {"one": {"all": rows(["a", "a"], ["bb", "ccc"])}, "two": {"all": rows(["a"], ["dddd"])}}
    clean = {"one": {"all": np.array([False, True])}}
    found = score_all({"one": Lengths(), "two": Lengths()}, given, encode, clean)
    assert len(encode.calls) == 1
    assert found["one"].scores == {"sum": 5.0, "sum_clean": 3.0}
    assert found["one"].predictions["seen"]["vector"] == [[2.0], [3.0]]
    assert found["two"].scores == {"sum": 4.0}


def test_no_task_means_no_pass():
    encode = Recorder()
    assert score_all({}, {}, encode) == {}
    assert encode.calls == []


class Split(Lengths):
    """One part a source, and their sum."""

    def __init__(self, *keys: str) -> None:
        self.keys = keys

    def sources(self) -> dict[str, Source]:
        return {key: Source(None, "test") for key in self.keys}

    def parts(self) -> dict[str, "Split"]:
        return {key: Split(key) for key in self.keys}

    def score(self, rows, encode: Encode, progress=None) -> Scores:
        (key,) = self.keys
        if progress is not None:
            progress(1, 1)
        return Scores({f"{key}/sum": float(encode(rows[key].texts["right"]).sum())}, f"{key}/sum")

    def total(self, found) -> Scores:
        return Scores({"total": sum(one.scores[f"{key}/sum"] for key, one in found.items())}, "total")


PARTS = {"both": {"x": rows(["a"], ["bb"]), "y": rows(["a"], ["ccc"])}}


def test_a_part_is_kept_as_soon_as_it_is_scored_and_the_total_follows():
    kept = []
    found = score_all(
        {"both": Split("x", "y")}, PARTS, Recorder(), keep=lambda *what: kept.append((what[0], what[1]))
    )
    assert kept == [("both", "x"), ("both", "y")]
    assert found["both"].scores == {"x/sum": 2.0, "y/sum": 3.0, "total": 5.0}
    assert found["both"].main == "total"


def test_what_is_done_is_neither_encoded_nor_scored_again():
    encode, kept = Recorder(), []
    done = {"both": {"x": Scores({"x/sum": 40.0}, "x/sum")}}
    found = score_all(
        {"both": Split("x", "y")}, PARTS, encode, done=done, keep=lambda *what: kept.append(what[1])
    )
    assert encode.calls == [["a", "ccc"]]
    assert kept == ["y"]
    assert found["both"].scores == {"x/sum": 40.0, "y/sum": 3.0, "total": 43.0}


def test_clean_rows_have_a_total_of_their_own():
    clean = {"both": {"x": np.array([False]), "y": np.array([True])}}
    found = score_all({"both": Split("x", "y")}, PARTS, Recorder(), clean)["both"].scores
    assert found == {
        "x/sum": 2.0,
        "x/sum_clean": 0.0,
        "y/sum": 3.0,
        "y/sum_clean": 3.0,
        "total": 5.0,
        "total_clean": 3.0,
    }


def test_texts_that_no_row_announced_are_encoded_on_demand():
    class Own(Lengths):
        def sources(self) -> dict[str, Source]:
            return {}

        def score(self, rows, encode: Encode, progress=None) -> Scores:
            return Scores({"sum": float(encode(["dddd", "a"]).sum())}, "sum")

    encode = Recorder()
    given = {"one": {"all": rows(["a"], ["bb"])}, "own": {}}
    found = score_all({"one": Lengths(), "own": Own()}, given, encode)
    assert encode.calls == [["a", "bb"], ["dddd", "a"]]
    assert found["own"].scores == {"sum": 5.0}


def test_progress_is_watched_under_the_name_of_task_and_part():
    told, labels = [], []

    def watch(label: str):
        labels.append(label)
        return contextlib.nullcontext(lambda done, total: told.append((done, total)))

    score_all({"both": Split("x", "y")}, PARTS, Recorder(), watch=watch)
    assert labels == ["both x", "both y"]
    assert told == [(1, 1), (1, 1)]


def test_a_model_scales_its_vectors_but_for_tasks_that_want_them_unscaled():
    class Raw(Lengths):
        unscaled = True

    given = {name: {"all": rows(["a"], ["ccc"])} for name in ("scaled", "raw")}
    found = score_all({"scaled": Lengths(), "raw": Raw()}, given, Recorder(), scale=lambda found: found / 10)
    assert (found["scaled"].scores["sum"], found["raw"].scores["sum"]) == (pytest.approx(0.3), 3.0)
