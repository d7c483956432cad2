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
