import pytest

from embedrun.dataset.triplets import Triplets
from embedrun.errors import DataError


def test_a_column_map_reads_the_form_that_simcse_trains_on(tmp_path, store):
    (tmp_path / "nli.csv").write_text('sent0,sent1,hard_neg\n"a, b",c,d\n')
    names = {"anchor": "sent0", "positive": "sent1", "negative": "hard_neg"}
    rows = Triplets(path=str(tmp_path / "nli.csv"), columns=names).read("train", store)
    assert (rows.name, rows.form, rows.targets) == ("triplets", "triplet", {})
    assert rows.texts == {"left": ["a, b"], "right": ["c"], "negative": ["d"]}


def test_every_faulty_text_is_named_by_line_and_column(tmp_path, store):
    (tmp_path / "a.tsv").write_text("anchor\tpositive\tnegative\n\tb\tc\na\tb\t \n")
    with pytest.raises(DataError) as caught:
        Triplets(path=str(tmp_path / "a.tsv")).read("train", store)
    assert [problem.partition("a.tsv, ")[2] for problem in caught.value.problems] == [
        "line 2: anchor: the text is empty",
        "line 3: negative: the text is empty",
    ]


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
