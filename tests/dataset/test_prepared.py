"""What is kept of rows, and that it is the same rows."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from embedrun.dataset import prepared
from embedrun.dataset.nli import Nli, NliScored
from embedrun.dataset.pairs import Pairs
from embedrun.dataset.published import Wiki1m
from embedrun.errors import DataError
from embedrun.files import packed
from embedrun.rows import MappedTexts, Rows
from embedrun.store import Store


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def pairs_of(folder: Path, rows: list[tuple[str, str, float]]) -> Rows:
    path = folder / "a.tsv"
    lines = ["text1\ttext2\tscore", *(f"{left}\t{right}\t{score}" for left, right, score in rows)]
    path.write_text("\n".join(lines))
    return Pairs(path=str(path)).read("train", Store(folder))


ROWS = [("a", "b", 1.0), ("b", "c", 0.5), ("a", "a", 0.0), ("d", "c", 2.0)]


def test_each_text_is_kept_once(tmp_path):
    rows = pairs_of(tmp_path, [*ROWS, ("a", "c", 3.0), ("e", "b", 4.0)])
    assert rows.texts == {"left": ["a", "b", "a", "d", "a", "e"], "right": ["b", "c", "a", "c", "c", "b"]}
    assert rows.targets["score"].tolist() == [1, 0.5, 0, 2, 3, 4]
    texts, places = rows.distinct(["left", "right"])
    assert sorted(texts) == ["a", "b", "c", "d", "e"]
    assert [texts[place] for place in places["right"]] == ["b", "c", "a", "c", "c", "b"]
    assert places["left"][0] == places["left"][2] == places["right"][2]
    plain = Rows(
        "pairs", "train", "pair", {view: list(own) for view, own in rows.texts.items()}, rows.targets
    )
    assert rows.kept == replace(rows, kept=None).fingerprint() == plain.fingerprint()


def jsonl(folder: Path, name: str, rows: list[dict]) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(packed("".join(json.dumps(row) + "\n" for row in rows).encode()))


@pytest.mark.parametrize("name", ["wiki1m", "wiki1m masked", "nli", "nli triplets", "nli_scored"])
def test_a_large_data_set_of_the_store_is_mapped_and_has_the_same_rows(tmp_path, monkeypatch, name):
    store = Store(tmp_path)
    sentences = [" ".join(["word"] * count) for count in (3, 30, 26)]
    (tmp_path / "wiki").mkdir()
    (tmp_path / "wiki/wiki1m.txt.gz").write_bytes(packed("\n".join(sentences).encode()))
    for source in ("snli", "mnli"):
        made = [{"premise": f"{source} p", "hypothesis": f"h{row}", "label": row} for row in range(3)]
        jsonl(tmp_path, f"nli/{source}_train.jsonl.gz", made)
    triple = {"sent0": "a", "sent1": "b", "hard_neg": "c", "source": "snli"}
    jsonl(tmp_path, "nli/triples.jsonl.gz", [triple, {**triple, "sent1": "d"}])
    scored = {"text1": "a", "text2": "b", "label": 2, "score": 0.25}
    jsonl(tmp_path, "nli/nli_scored.jsonl.gz", [scored, {**scored, "text1": "b"}])
    data = {
        "wiki1m": Wiki1m(),
        "wiki1m masked": Wiki1m(masking={}),
        "nli": Nli(labels=["neutral", "entailment"]),
        "nli triplets": Nli(form="triplet"),
        "nli_scored": NliScored(),
    }[name]
    plain = data.read("train", store)
    assert not any(isinstance(own, MappedTexts) for own in plain.texts.values())
    monkeypatch.setattr(prepared, "_LARGE", 0)
    monkeypatch.setattr(prepared, "_AT_ONCE", 2)
    for _ in range(2):
        rows = data.read("train", store)
        assert all(isinstance(own, MappedTexts) for own in rows.texts.values())
        assert rows.texts == plain.texts
        assert list(rows.targets) == list(plain.targets)
        assert all(rows.targets[key].tolist() == plain.targets[key].tolist() for key in plain.targets)
        assert rows.fingerprint() == plain.fingerprint()
        monkeypatch.setattr(Store, "typed", lambda *_: pytest.fail("read again"))


def test_other_options_of_one_file_are_other_rows(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text1,text2,z|text1|text2\na,b,c|d|e\n,b,c|d|f\n")
    texts = {"text1": "text1", "text2": "text2"}
    swapped = {"text1": "text2", "text2": "text1"}

    def left(**options) -> list[str]:
        data = Pairs(**{"path": str(path), "columns": texts, "on_bad_row": "skip", **options})
        return list(data.read("train", Store(tmp_path)).texts["left"])

    assert [left(), left(columns=swapped), left(separator=","), left(separator="|")] == [
        ["a"],
        ["b"],
        ["a"],
        ["d", "d"],
    ]
    with pytest.raises(DataError, match="the text is empty"):
        left(on_bad_row="refuse")
    path.write_text('text1,text2\n"a",b\n')
    assert left(separator=",") == ["a"]
    path = path.rename(tmp_path / "a.tsv")  # no quoting
    assert left(separator=",") == ['"a"']
