import pytest

from embedrun.dataset import views_of
from embedrun.dataset.pairs import Triplets


def test_each_negative_of_a_row_is_a_view_in_the_order_of_the_numbers(tmp_path, store):
    names = {f"negative_{number}": f"n{number}" for number in (10, *range(1, 10))}
    header = ["q", "p", *(f"n{number}" for number in range(1, 11))]
    row = [f"{name} of 1" for name in header]
    (tmp_path / "a.csv").write_text(f"{','.join(header)}\n{','.join(row)}\n")
    data = Triplets(path=str(tmp_path / "a.csv"), columns={**names, "positive": "p", "anchor": "q"})
    views = ("left", "right", *(f"negative_{number}" for number in range(1, 11)))
    assert views_of(data) == views
    rows = data.read("train", store)
    assert (rows.form, list(rows.texts)) == ("triplet", list(views))
    assert rows.texts["left"] == ["q of 1"]
    assert rows.texts["negative_2"] == ["n2 of 1"]
    assert rows.texts["negative_10"] == ["n10 of 1"]


def test_a_row_that_lacks_one_of_its_negatives_is_faulty(tmp_path, store):
    (tmp_path / "a.tsv").write_text("q\tp\tn1\tn2\na\tb\tc\t\nd\te\tf\tg\n")
    columns = {"anchor": "q", "positive": "p", "negative_1": "n1", "negative_2": "n2"}
    rows = Triplets(path=str(tmp_path / "a.tsv"), columns=columns, on_bad_row="skip").read("train", store)
    assert rows.texts == {"left": ["d"], "right": ["e"], "negative_1": ["f"], "negative_2": ["g"]}
    assert [(row.row, row.column) for row in rows.skipped] == [(2, "n2")]


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"anchor": "a", "positive": "b"}, "one column for each of anchor, positive, negative"),
        ({"anchor": "a", "positive": "b", "negative": "b"}, "none twice"),
        ({"anchor": "a", "positive": "b", "negative_2": "c"}, "lacks 'negative_1' and has negative_2"),
        ({"anchor": "a", "positive": "b", "negative": "c", "negative_1": "d"}, "number every negative"),
        ({"anchor": "a", "positive": "b", "negative_01": "c"}, "did you mean 'neg"),
    ],
)
def test_a_column_map_that_cannot_be_meant_is_refused(columns, reason):
    with pytest.raises(ValueError, match=reason):
        Triplets(path="a.tsv", columns=columns)
