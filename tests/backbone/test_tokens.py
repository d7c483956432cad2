import numpy as np
import pytest

from embedrun.backbone import Backbone, load, tokens
from embedrun.config import BackboneConfig, ScratchConfig
from embedrun.prompts import Prompt
from embedrun.store import cache

TEXTS = [f"text {place % 700} of many" for place in range(1000)]


@pytest.fixture
def backbone() -> Backbone:
    shape = ScratchConfig(vocabulary=200, layers=1, width=8, heads=2, positions=12)
    return load(BackboneConfig(name=None, scratch=shape), TEXTS, seed=0)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def files() -> list[str]:
    return [entry.path.name for entry in cache.entries()]


@pytest.fixture
def calls(backbone, monkeypatch) -> list[int]:
    seen: list[int] = []
    original = backbone.tokenize

    def count(texts, max_length=None, prompt=None):
        seen.append(len(texts))
        return original(texts, max_length, prompt)

    monkeypatch.setattr(backbone, "tokenize", count)
    return seen


def test_the_second_time_nothing_is_tokenised_and_all_is_the_same(backbone, calls):
    first = tokens.tokenize(backbone, TEXTS)
    again = tokens.tokenize(backbone, TEXTS)
    assert calls == [1000]
    assert np.array_equal(first.ids, again.ids)
    assert np.array_equal(first.starts, again.starts)
    assert (again.ids.dtype, again.starts.dtype) == (np.int32, np.int64)
    assert len(files()) == 1


def test_texts_order_length_and_case_make_other_files(backbone, calls):
    tokens.tokenize(backbone, TEXTS)
    tokens.tokenize(backbone, TEXTS[::-1])
    tokens.tokenize(backbone, [*TEXTS[:-2], TEXTS[-2] + TEXTS[-1], ""])
    assert tokens.tokenize(backbone, TEXTS, 5).lengths.max() == 5
    object.__setattr__(backbone.declared, "lowercase", True)
    tokens.tokenize(backbone, TEXTS)
    assert len(calls) == len(files()) == 5


def test_another_prompt_makes_another_file(backbone, calls):
    for prompt in (None, Prompt("a {text}"), Prompt("{text} a"), Prompt("a {text}", "angle_llm"), None):
        whole = backbone.tokenize(TEXTS, prompt=prompt)
        assert np.array_equal(tokens.tokenize(backbone, TEXTS, None, prompt).ids, whole.ids)
    assert len(files()) == 4


def test_many_texts_are_tokenised_in_parts_and_give_one_table(backbone, calls):
    many = [f"text {place} of {'many ' * (place % 5)}" for place in range(2 * 8192 + 1)]
    found = tokens.tokenize(backbone, many)
    assert calls == [8192, 8192, 1]
    whole = backbone.tokenize(many)
    assert np.array_equal(found.ids, whole.ids)
    assert np.array_equal(found.starts, whole.starts)
