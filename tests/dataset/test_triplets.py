import pytest

from embedrun.dataset.triplets import Triplets


def test_a_skipped_row_is_missing_from_every_view(tmp_path, store):
    (tmp_path / "a.tsv").write_text("anchor\tpositive\tnegative\na\tb\t\nd\te\tf\n")
    rows = Triplets(path=str(tmp_path / "a.tsv"), on_bad_row="skip").read("train", store)
    assert rows.texts == {"left": ["d"], "right": ["e"], "negative": ["f"]}
    assert [(row.line, row.column) for row in rows.skipped] == [(2, "negative")]


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"anchor": "a", "positive": "b"}, "lacks 'negative'; it needs anchor, positive, negative"),
        ({"anchor": "a", "positive": "b", "negatve": "c"}, "no key 'negatve'; did you mean 'negative'"),
        ({"anchor": "a", "positive": "b", "negative": "b"}, "uses one column of the file twice"),
    ],
)
def test_a_column_map_that_cannot_be_meant_is_refused(columns, reason):
    with pytest.raises(ValueError, match=reason):
        Triplets(path="a.tsv", columns=columns)
