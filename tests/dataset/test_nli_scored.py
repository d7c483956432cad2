import numpy as np
import pytest

from embedrun.dataset.nli import NliScored

GOOD = {"text1": "a", "text2": "b", "label": 0, "score": 0.5, "score_1": 0.5}
ROWS = [GOOD, {"text1": "c", "text2": "d", "label": 2, "score": -0.25}]


@pytest.mark.parametrize("where", ["store", "folder", "file"])
def test_rows_come_from_the_store_a_folder_or_a_file(store, write, where):
    path = write("nli/nli_scored.jsonl.gz", ROWS)
    given = {"store": None, "folder": str(path.parent), "file": str(path)}[where]
    data = NliScored(path=given)
    assert data.problems("train", store) == []
    assert data.files("train", store) == (["nli/nli_scored.jsonl.gz"] if where == "store" else [])
    rows = data.read("train", store)
    assert rows.texts == {"left": ["a", "c"], "right": ["b", "d"]}
    np.testing.assert_array_equal(rows.targets["score"], np.array([0.5, -0.25]))
    np.testing.assert_array_equal(rows.targets["label"], np.array([0, 2]))
    assert set(rows.targets) == set(data.targets)


def test_what_is_missing_is_said_before_anything_is_read(store, write):
    write("nli/nli_scored.jsonl.gz", ROWS)
    (unfinished,) = NliScored(path=str(store.root)).problems("train", store)
    assert unfinished.startswith(f"dataset.path: no file '{store.root / 'nli_scored.jsonl.gz'}'; ")
    assert "`embedrun annotate output=DIR` writes it" in unfinished
