from enum import Enum
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from embedrun.evaluation import mteb_task
from embedrun.evaluation.mteb_task import EncodeAdapter, NonFiniteError, filled, prompt_for

TASK = SimpleNamespace(name="NFCorpus", type="Retrieval")


class Kind(Enum):
    QUERY = "query"
    DOCUMENT = "document"


class Encoder:
    """A vector of a text is its length and 1; remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def __call__(self, texts: list[str]) -> Tensor:
        self.asked.append(texts)
        return torch.tensor([[float(len(text)), 1.0] for text in texts])


def loader(texts: list[str], batch_size: int = 2) -> DataLoader:
    return DataLoader([{"text": text} for text in texts], batch_size=batch_size)  # type: ignore[arg-type]


def run(adapter: EncodeAdapter, texts: list[str], kind: Kind | None = None, **options) -> np.ndarray:
    return adapter.encode(
        loader(texts), task_metadata=TASK, hf_split="test", hf_subset="en", prompt_type=kind, **options
    )


def test_vectors_come_in_order_as_float32_and_are_asked_for_at_once():
    encode = Encoder()
    found = run(EncodeAdapter(encode), ["ccc", "a", "bb", "a", ""], batch_size=2, show_progress_bar=False)
    assert found.dtype == np.float32
    assert found.tolist() == [[3, 1], [1, 1], [2, 1], [1, 1], [0, 1]]
    assert encode.asked == [["ccc", "a", "bb", "a", ""]]


def test_a_large_corpus_is_encoded_group_by_group(monkeypatch):
    monkeypatch.setattr(mteb_task, "GROUP", 3)
    encode = Encoder()
    texts = ["x" * length for length in range(8)]
    assert run(EncodeAdapter(encode), texts)[:, 0].tolist() == list(range(8))
    assert [len(group) for group in encode.asked] == [3, 3, 2]


def test_no_text_gives_no_vector_and_asks_for_none():
    encode = Encoder()
    adapter = EncodeAdapter(encode)
    assert run(adapter, []).shape == (0, 0)
    run(adapter, ["a"])
    assert run(adapter, []).shape == (0, 2)
    assert encode.asked == [["a"]]


def test_queries_and_documents_have_prompts_of_their_own():
    encode = Encoder()
    adapter = EncodeAdapter(encode, {"query": "ask: ", "document": "<{text}>"})
    run(adapter, ["a"], Kind.QUERY)
    run(adapter, ["a"], Kind.DOCUMENT)
    run(adapter, ["a"])
    assert encode.asked == [["ask: a"], ["<a>"], ["a"]]
    assert adapter.used == {"query": "ask: ", "document": "<{text}>", "text": None}


def test_the_parts_of_a_task_have_its_prompt():
    encode = Encoder()
    adapter = EncodeAdapter(encode, {"CQADupstackRetrieval": "forum "}, part_of="CQADupstackRetrieval")
    run(adapter, ["a"], Kind.QUERY)
    assert encode.asked == [["forum a"]]


def test_the_most_special_prompt_comes_first():
    steps = ["Part-query", "Part", "Whole-query", "Whole", "STS-query", "STS", "query"]
    for left in range(len(steps)):
        prompts = {step: step for step in reversed(steps[left:])}
        assert prompt_for(prompts, ["Part", "Whole"], "STS", "query") == steps[left]
    assert prompt_for({"document": "d", "STS-document": "s"}, ["Part"], "STS", "query") is None


def test_a_text_without_kind_has_the_prompt_of_its_task_or_category():
    prompts = {"query": "q", "Part-query": "p", "STS": "s"}
    assert prompt_for(prompts, ["Part"], "STS", None) == "s"
    assert prompt_for({"query": "q"}, ["Part"], "STS", None) is None


def test_a_template_takes_braces_of_the_text_as_they_are():
    assert filled("in {text}, {0} {", "a {text} b") == "in a {text} b, {0} {"
    assert filled("before: ", "a") == "before: a"
    assert filled(None, "{text}") == "{text}"


def test_vectors_that_are_not_finite_are_refused():
    with pytest.raises(NonFiniteError, match="NFCorpus"):
        run(EncodeAdapter(lambda texts: torch.full((len(texts), 2), float("nan"))), ["a"])


def test_similarity_is_the_cosine_of_every_two_or_of_each_pair():
    adapter = EncodeAdapter(Encoder())
    left, right = np.array([[1.0, 0.0], [3.0, 4.0]]), torch.tensor([[0.0, 2.0], [6.0, 8.0], [0.0, 0.0]])
    torch.testing.assert_close(
        adapter.similarity(left, right), torch.tensor([[0.0, 0.6, 0.0], [0.8, 1.0, 0.0]])
    )
    torch.testing.assert_close(adapter.similarity_pairwise(left, right[:2]), torch.tensor([0.0, 1.0]))
    torch.testing.assert_close(adapter.similarity(left[0], right[1]), torch.tensor([[0.6]]))
