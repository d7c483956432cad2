import numpy as np
import pytest

from embedrun import rows
from embedrun.dataset.pairs import Texts
from embedrun.rows import FORMS, MappedTexts, Rows, texts_at, views_of_form
from embedrun.store import Store


def pairs(left=("a", "b"), right=("c", "d"), score=(1.0, 0.0), **options) -> Rows:
    return Rows(
        "toy",
        "dev",
        "pair",
        {"left": list(left), "right": list(right)},
        {"score": np.array(score)},
        **options,
    )


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match=r"different lengths, \[1, 2\]"):
        pairs(right=("c",))
    with pytest.raises(ValueError, match=r"different lengths, \[2, 3\]"):
        pairs(score=(1.0, 0.0, 0.5))
    with pytest.raises(ValueError, match=r"different lengths, \[1, 2\]"):
        pairs(subset=["one"])


def test_triplets_have_any_number_of_numbered_negatives():
    texts = {"left": ["a"], "right": ["b"], "negative_1": ["c"], "negative_2": ["d"]}
    assert list(Rows("t", "train", "triplet", texts).texts) == list(texts)
    assert list(views_of_form("triplet", ["negative_2", "right", "left", "negative_1"])) == list(texts)
    assert views_of_form("pair", ["negative_1"]) == FORMS["pair"]
    gap = {name.replace("2", "3"): column for name, column in texts.items()}
    with pytest.raises(ValueError, match="without a gap; it has negative_1, negative_3"):
        Rows("t", "train", "triplet", gap)
    with pytest.raises(ValueError, match="number every negative, from 'negative_1'"):
        Rows("t", "train", "triplet", {"left": ["a"], "right": ["b"], "negative": ["c"], "negative_1": ["d"]})


def test_every_difference_changes_the_fingerprint(monkeypatch):
    for other in [
        pairs(left=("a", "x")),
        pairs(left=("b", "a"), right=("d", "c"), score=(0.0, 1.0)),  # another order
        pairs(left=("ab", ""), right=("c", "d")),  # the same characters, cut elsewhere
        pairs(score=(1.0, 0.5)),
        pairs(subset=["one", "two"]),
        Rows("toy", "test", "pair", pairs().texts, pairs().targets),
        Rows("other", "dev", "pair", pairs().texts, pairs().targets),
        Rows("toy", "dev", "pair", pairs().texts, {"label": pairs().targets["score"]}),
    ]:
        monkeypatch.setattr(rows, "_AT_ONCE", 1)
        assert other.fingerprint() != pairs().fingerprint()


def test_a_share_of_the_rows_keeps_their_order_and_all_columns():
    rows = Rows(
        "a",
        "train",
        "pair",
        {"left": [f"l{n}" for n in range(10)], "right": [f"r{n}" for n in range(10)]},
        {"score": np.arange(10.0)},
        [f"s{n}" for n in range(10)],
    )
    drawn = rows.drawn(0.3, 7)
    places = [int(one) for one in drawn.targets["score"]]
    assert len(places) == 3
    assert places == sorted(set(places))
    assert drawn.texts == {"left": [f"l{n}" for n in places], "right": [f"r{n}" for n in places]}
    assert drawn.subset == [f"s{n}" for n in places]
    assert drawn.fingerprint() == rows.drawn(0.3, 7).fingerprint()
    for seed in range(5):
        assert np.all(np.diff(rows.drawn(0.5, seed).targets["score"]) > 0)
    assert any(rows.drawn(0.3, seed).fingerprint() != drawn.fingerprint() for seed in range(5))


@pytest.fixture
def mapped(tmp_path, monkeypatch) -> MappedTexts:
    """l0 to l4 and l0 again, of a table of five."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(rows, "_AT_ONCE", 4)
    (tmp_path / "a.txt").write_text("".join(f"l{row % 5}\n" for row in range(6)))
    column = Texts(path=str(tmp_path / "a.txt")).read("train", Store(tmp_path)).texts["text"]
    assert isinstance(column, MappedTexts)
    return column


def test_mapped_texts_are_read_like_a_list(mapped):
    every = ["l0", "l1", "l2", "l3", "l4", "l0"]
    assert list(mapped) == every == mapped[:]
    assert (len(mapped), mapped[1], mapped[-2], mapped[np.int64(3)]) == (6, "l1", "l4", "l3")
    assert (mapped[1:3], mapped[::-2], mapped[4:99], mapped[3:1]) == (every[1:3], every[::-2], every[4:], [])
    assert mapped.at([5, 0, 2]) == texts_at(every, [5, 0, 2]) == texts_at(mapped, np.array([5, 0, 2]))
    assert "l3" in mapped
    assert mapped == every
    assert mapped != every[:5]
    assert mapped != 6
    with pytest.raises(IndexError):
        mapped[6]


def test_distinct_texts_have_one_place_whether_mapped_or_listed(mapped):
    for column in (mapped, list(mapped)):
        texts, places = Rows("texts", "train", "text", {"text": column}).distinct(["text"])
        assert (list(texts), places["text"].tolist()) == (["l0", "l1", "l2", "l3", "l4"], [0, 1, 2, 3, 4, 0])
