import numpy as np
import torch
from torch import Tensor

from embedrun.evaluation.one_pass import score_all
from embedrun.evaluation.source import Encode, Scores, Source
from embedrun.rows import Rows


class Lengths:
    """A task that gives back what it is handed."""

    def sources(self) -> dict[str, Source]:
        return {"all": Source(None, "test")}

    def score(self, rows, encode: Encode) -> Scores:
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
