"""Hard negatives of vectors in a plane, whose cosines are worked out by hand."""

import math
import random
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from minilm import minilm_folder

from embedrun.config import AnnotatorConfig, MiningConfig
from embedrun.curation import mining as curation_mining
from embedrun.curation.mining import positive_pairs
from embedrun.encoder import Encoder
from embedrun.rows import Rows


@pytest.fixture(scope="module", autouse=True)
def _sentence_transformers() -> None:
    """Import the package that mines once, apart from the tests."""
    import sentence_transformers  # noqa: F401


ANGLE = {"a": 0, "b": 20, "c": 60, "d": 90, "p": 10, "q": 20, "r": 60, "s": 90}  # degrees
PAIRS = [("a", "p"), ("b", "q"), ("c", "r"), ("d", "s")]


class Plane:
    """An encoder of letters: each has a length of 2 and the direction of its angle."""

    def __init__(self, **named: str) -> None:
        self.prompt = None
        self.backbone = SimpleNamespace(declared=SimpleNamespace(named=named), device=torch.device("cpu"))
        self.read: list[list[str]] = []

    def use(self, prompt: None) -> None:
        self.prompt = prompt

    def encode(self, texts: list[str], *, batch_tokens: int, progress) -> np.ndarray:
        self.read.append(list(texts))
        progress(len(texts), len(texts))
        angles = np.radians([ANGLE[text[-1]] for text in texts])  # (texts,)
        return 2 * np.stack((np.cos(angles), np.sin(angles)), axis=1).astype(np.float32)


def asked(prompt: str | None = None, **mining) -> SimpleNamespace:
    teachers = [AnnotatorConfig(name="x", prompt=prompt)]
    return SimpleNamespace(teachers=teachers, mining=MiningConfig(**mining), batch_tokens=64)


def mine(pairs, encoder, config) -> tuple[list, list]:
    """The mined negatives; vectors are kept only here."""
    with tempfile.TemporaryDirectory() as parts:
        return curation_mining.mine(pairs, encoder, config, Path(parts))


def found(pairs=PAIRS, **mining) -> dict[str, str]:
    """The negatives of each anchor, nearest first."""
    rows = mine(pairs, Plane(), asked(**mining))[0]  # type: ignore[arg-type]
    names = [f"negative_{number}" for number in range(1, mining["num_negatives"] + 1)]
    return {row["anchor"]: "".join(row[name] for name in names) for row in rows}


def cos(degrees: float) -> float:
    return math.cos(math.radians(degrees))


def test_the_negatives_of_an_anchor_are_the_nearest_positives_of_others():
    rows, left_out = mine(PAIRS, Plane(), asked(num_negatives=2))  # type: ignore[arg-type]
    first = rows[0]
    assert list(first) == ["anchor", "positive", "negative_1", "negative_2", "scores"]
    assert [first[name] for name in list(first)[:4]] == ["a", "p", "q", "r"]
    assert first["scores"] == pytest.approx([cos(10), cos(20), cos(60)], abs=1e-6)
    assert found(num_negatives=2) == {"a": "qr", "b": "pr", "c": "sq", "d": "rq"}
    assert left_out == []


@pytest.mark.parametrize(
    ("mining", "negatives"),
    [
        ({"range_min": 1}, "rs"),
        ({"max_score": 0.9}, "rs"),  # cos 20 is 0.94
        ({"absolute_margin": 0.04}, "qr"),  # the positive has cos 10, 0.9848; 0.9397 is 0.0451 below
        ({"absolute_margin": 0.05}, "rs"),
        ({"relative_margin": 0.04}, "qr"),  # 4 % of 0.9848 are 0.0394
        ({"relative_margin": 0.05}, "rs"),  # and 5 % are 0.0492
        ({"range_max": 2}, "qr"),
    ],
)
def test_the_options_choose_among_the_candidates(mining, negatives):
    assert found(num_negatives=2, **mining)["a"] == negatives


def test_pairs_with_too_few_negatives_are_left_out_and_named():
    # Of d, at 90 degrees, r is at 30, and q, at 70, has a cosine of 0.34.
    rows, left_out = mine(PAIRS, Plane(), asked(num_negatives=2, min_score=0.4))  # type: ignore[arg-type]
    assert [row["anchor"] for row in rows] == ["a", "b", "c"]
    assert left_out == [("d", "s")]


def test_no_positive_of_an_anchor_is_its_negative_nor_the_anchor_itself():
    assert found([("a", "p"), ("a", "q"), ("c", "r")], num_negatives=1) == {"a": "r", "c": "q"}
    # b is the positive of a, and would be the nearest of all to itself.
    assert found([("a", "b"), ("b", "p"), ("c", "r")], num_negatives=1)["b"] == "r"


@pytest.mark.parametrize(
    ("encoder", "config", "anchor", "candidate"),
    [
        (Plane(), {}, "a", "p"),
        (Plane(), {"query_prompt": "q: ", "corpus_prompt": "d: {text}"}, "q: a", "d: p"),
        (Plane(), {"prompt": "t: ", "query_prompt": "q: "}, "q: a", "t: p"),
        (Plane(query="query: ", passage="passage: "), {}, "query: a", "passage: p"),
    ],
)
def test_anchors_and_candidates_have_prompts_of_their_own(encoder, config, anchor, candidate):
    mine(PAIRS, encoder, asked(num_negatives=1, **config))  # type: ignore[arg-type]
    assert [texts[0] for texts in encoder.read] == [candidate, anchor]


def test_vectors_that_are_kept_are_not_computed_again(tmp_path, monkeypatch):
    monkeypatch.setattr(curation_mining, "BLOCK", 3)
    first, again = Plane(), Plane()
    config = asked(num_negatives=2)
    whole = curation_mining.mine(PAIRS, first, config, tmp_path)  # type: ignore[arg-type]
    assert [len(texts) for texts in first.read] == [3, 1, 3, 1]
    next(tmp_path.iterdir()).unlink()  # as after a kill
    assert curation_mining.mine(PAIRS, again, config, tmp_path) == whole  # type: ignore[arg-type]
    assert len(again.read) == 1


def test_positive_pairs_are_those_of_a_score_entailments_or_all_each_once():
    texts = {"left": ["a", "b", "a", "c"], "right": ["p", "q", "p", "r"]}
    targets = {"score": np.array([5.0, 4.0, 5.0, 3.9]), "label": np.array([0, 2, 0, 0])}
    rows = Rows("x", "train", "pair", texts, targets)
    assert positive_pairs(rows, 4) == [("a", "p"), ("b", "q")]
    assert positive_pairs(rows, None) == [("a", "p"), ("c", "r")]
    bare = Rows("x", "train", "triplet", texts | {"negative": list("wxyz")})
    assert positive_pairs(bare, None) == [("a", "p"), ("b", "q"), ("c", "r")]


SENTENCES = [
    ("A man plays a guitar.", "Someone is playing the guitar."),
    ("A dog runs in the park.", "A dog is running outside."),
    ("It is raining heavily.", "There is a heavy rain."),
    ("She is cooking dinner.", "A woman prepares the evening meal."),
    ("The stock market fell today.", "Shares dropped on the exchange."),
    ("A child is sleeping.", "A kid is asleep in bed."),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "mining",
    [
        {"num_negatives": 2, "range_min": 1, "range_max": 4, "relative_margin": 0.5, "max_score": 0.3},
        {"num_negatives": 1, "sampling_strategy": "random", "absolute_margin": 0.2, "min_score": -0.1},
    ],
)
def test_a_model_of_sentence_transformers_gives_the_same_rows(mining):
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.util import mine_hard_negatives

    folder = minilm_folder()
    random.seed(7)
    anchors, positives = zip(*SENTENCES, strict=True)
    table = Dataset.from_dict({"anchor": anchors, "positive": positives})
    theirs = mine_hard_negatives(
        table, SentenceTransformer(str(folder), device="cpu"), output_format="n-tuple", output_scores=True,
        verbose=False, **mining,
    ).to_list()  # fmt: skip
    ours = mine(SENTENCES, Encoder.load(folder), asked(seed=7, **mining))[0]  # type: ignore[arg-type]
    assert [{**row, "scores": None} for row in ours] == [{**row, "scores": None} for row in theirs]
    for one, other in zip(ours, theirs, strict=True):
        assert one["scores"] == pytest.approx(other["scores"], abs=2e-6)
