"""Queries with lists, texts with classes, and columns by the names that the field gives them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from embedrun.config import TrainingConfig
from embedrun.dataset.classes import Classes
from embedrun.dataset.pairs import Pairs, Triplets
from embedrun.dataset.ranked import Ranked
from embedrun.errors import DataError
from embedrun.loss.terms import Pass
from embedrun.rows import Rows
from embedrun.store import Store
from embedrun.training.feed import Feed, order_of
from embedrun.training.order import Draw

pytestmark = pytest.mark.usefixtures("_alone")
STORE = Store(Path("."))
LISTS = [
    {"query": "q0", "pos": ["p00", "p01"], "neg": ["n00", "n01", "n02"]}
    | {"pos_scores": [0.9, 0.8], "neg_scores": [0.3, 0.2, 0.1]},
    {"query": "q1", "pos": ["p10"], "neg": ["n10"], "pos_scores": [0.7], "neg_scores": [0.4]},
]  # fmt: skip


def written(rows: list[dict[str, Any]], name: str = "bge.jsonl") -> str:
    Path(name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return name


def trained(**options: Any) -> Rows:
    data = Ranked(path=written(LISTS), **options)
    return data.trained(data.read("train", STORE))


def feed_of(rows: Rows, *views: str) -> Feed:
    def tokenize(texts, *_):
        from embedrun.batch import TokenTable

        return TokenTable(np.arange(len(texts), dtype=np.int32), np.arange(len(texts) + 1))

    return Feed(rows, tokenize, {view: Pass(view) for view in views}, ["scores"], seed=7)


def drawn(feed: Feed, epoch: int, rows: int) -> tuple[dict[str, list[str]], list[list[float]]]:
    """The texts of each view of an epoch, and their scores."""
    batch = feed.batch(Draw(epoch, epoch, np.arange(rows)))
    texts = {
        view: [feed.texts[token] for token in one.tokens.ids.tolist()] for view, one in batch.views.items()
    }
    return texts, batch.targets["scores"].tolist()


def test_each_epoch_draws_one_positive_and_some_negatives_with_their_scores():
    rows = trained(negatives=2)
    assert (len(rows), list(rows.texts)) == (2, ["left", "right", "negative_1", "negative_2"])
    assert rows.targets["hard_negatives"].tolist() == [2, 1]
    feed, seen = feed_of(rows, *rows.texts), set()
    score_of = {
        text: score
        for row in LISTS
        for kind in ("pos", "neg")
        for text, score in zip(row[kind], row[f"{kind}_scores"], strict=True)
    }
    for epoch in range(20):
        texts, scores = drawn(feed, epoch, 2)
        assert texts["left"] == ["q0", "q1"]
        first = [texts[view][0] for view in ("right", "negative_1", "negative_2")]
        assert len(set(first)) == 3
        assert scores[0] == [score_of[text] for text in first]
        assert scores[1][:2] == [0.7, 0.4]
        assert np.isnan(scores[1][2])
        seen |= set(first)
    assert seen == {"p00", "p01", "n00", "n01", "n02"}
    again = feed_of(rows, *rows.texts)
    assert str(drawn(again, 3, 2)) == str(drawn(feed, 3, 2))


def test_a_row_may_come_several_times_with_different_positives():
    rows = trained(positives=2, negatives=0)
    assert (len(rows), list(rows.texts)) == (4, ["left", "right"])
    for epoch in range(8):
        texts, _ = drawn(feed_of(rows, "left", "right"), epoch, 4)
        assert sorted(texts["right"]) == ["p00", "p01", "p10", "p10"]


def test_no_batch_has_two_rows_that_share_a_text_of_their_lists():
    shared = [{"query": f"q{row}", "pos": [f"p{row}", f"p{row + 1}"]} for row in range(0, 8)]
    data = Ranked(path=written(shared))
    rows = data.trained(data.read("train", STORE))
    training = TrainingConfig(batch_size=4, distinct_texts=True)
    order = order_of(feed_of(rows, "left", "right"), rows, training, 3)
    batches = [draw.rows for step in range(1, 6) for draw in order.batches(step)]
    assert all(np.diff(np.sort(batch)).min() > 1 for batch in batches)  # neighbours share a positive


def test_the_pairs_of_all_lists_are_what_the_model_has_seen_and_are_held_out_together():
    data = Ranked(path=written(LISTS))
    pairs = data.read("train", STORE)
    assert list(zip(*pairs.texts.values(), pairs.targets["score"], strict=True))[:3] == [
        ("q0", "p00", 1),
        ("q0", "p01", 1),
        ("q0", "n00", 0),
    ]
    rows = data.trained(pairs)
    assert len(rows.every_pair()) == 7
    assert len(rows.part(np.array([1])).every_pair()) == 2


ROW = {"query": "q", "pos": ["p"], "neg": ["n"]}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"query": "q", "pos": [], "neg": ["n"]}, "pos: the list of texts is empty"),
        ({"query": "q", "pos": ["p"], "neg": ["n", " "]}, "neg: the text is empty"),
        ({"query": "q", "pos": {"a": 1}, "neg": ["n"]}, "pos: expected a list of texts, got {'a': 1}"),
        (ROW | {"pos_scores": [1, 2], "neg_scores": [1]}, "pos_scores: 2 scores for 1 texts"),
        (ROW | {"pos_scores": [1], "neg_scores": ["x"]}, "neg_scores: expected a number"),
    ],
)  # fmt: skip
def test_a_faulty_list_is_named_by_row_and_column(row: dict[str, Any], reason: str):
    good = {"query": "a", "pos": ["b"], "neg": ["c"], "pos_scores": [1], "neg_scores": [0]}
    path = written([{key: good[key] for key in row}, row])
    with pytest.raises(DataError) as caught:
        Ranked(path=path).read("train", STORE)
    assert any(f"{path}, row 2: {reason}" in problem for problem in caught.value.problems)


def test_a_parquet_file_of_lists_reads_as_json_lines_do():
    pq.write_table(pa.Table.from_pylist(LISTS), "lists.parquet")
    first, second = Ranked(path="lists.parquet"), Ranked(path=written(LISTS))
    assert first.read("train", STORE).fingerprint() == second.read("train", STORE).fingerprint()
    assert (
        first.said
        == "columns of lists.parquet: anchor=query, positive=pos, negative=neg, positive_scores=pos_scores, "
        "negative_scores=neg_scores"
    )


def test_classes_are_numbered_as_they_come():
    Path("c.csv").write_text("sentence,label\na,news\nb,sport\nc,news\n")
    data = Classes(path="c.csv")
    assert data.read("train", STORE).targets["category"].tolist() == [0, 1, 0]
    assert data.said == "columns of c.csv: text=sentence, class=label"


def test_usual_names_are_recognised_and_said_and_none_is_guessed_where_two_fit():
    Path("a.csv").write_text("premise,hypothesis,similarity,id\na,b,1,7\n")
    data = Pairs(path="a.csv")
    assert data.said == "columns of a.csv: text1=premise, text2=hypothesis, score=similarity; not read: id"
    assert data.read("train", STORE).targets["score"].tolist() == [1.0]
    Path("b.csv").write_text("query,positive\na,b\n")
    assert Pairs(path="b.csv").targets == ()
    Path("c.csv").write_text("sentence1,premise,sentence2,score\na,b,c,1\n")
    with pytest.raises(
        ValueError, match=r"columns: sentence1 and premise of c.csv may both be text1; say which"
    ):
        Pairs(path="c.csv")
    Path("d.csv").write_text("sentence1,sentence2,label\na,b,1\n")
    with pytest.raises(
        ValueError, match=r"label of d\.csv may be a score, higher for more similar, or an NLI label"
    ):
        Pairs(path="d.csv")
    assert Triplets(path=written([{"anchor": "a", "pos": "b", "neg": "c"}], "t.jsonl")).said.endswith(
        "negative=neg"
    )
    Path("e.csv").write_text("text1,text2,score\na,b,1\n")
    assert Pairs(path="e.csv").said == ""
