import gzip

import pytest

from embedrun.dataset.pairs import Texts
from embedrun.errors import DataError
from embedrun.rows import Skipped


def test_each_line_of_a_plain_text_file_is_a_row(tmp_path, store):
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress('\ufeffOne.\r\nTwo, "2"\tx\r\n\r\n'.encode()))
    rows = Texts(path=str(tmp_path / "a.txt.gz")).read("train", store)
    assert (rows.name, rows.form, rows.texts) == ("texts", "text", {"text": ["One.", 'Two, "2"\tx']})


def test_a_blank_line_between_texts_is_a_faulty_row(tmp_path, store):
    path = tmp_path / "a.txt"
    path.write_text("One.\n \nTwo.\n")
    with pytest.raises(DataError, match=r"a\.txt, row 2: text: the text is empty"):
        Texts(path=str(path)).read("train", store)
    rows = Texts(path=str(path), on_bad_row="skip").read("train", store)
    assert rows.texts == {"text": ["One.", "Two."]}
    assert rows.skipped == (Skipped(str(path), 2, "text", "the text is empty"),)


def test_dev_and_test_are_scored_pairs_under_the_names_of_the_data_set(tmp_path, store):
    (tmp_path / "a.txt").write_text("One.\n")
    (tmp_path / "dev.csv").write_text("q,a,gold\nx,y,3\n")
    names = {"text1": "q", "text2": "a", "score": "gold"}
    data = Texts(path=str(tmp_path / "a.txt"), dev=str(tmp_path / "dev.csv"), pair_columns=names)
    assert (data.splits, data.graded, data.targets) == (("train", "dev"), ("dev",), ())
    rows = data.read("dev", store)
    assert (rows.name, rows.split, rows.form) == ("texts", "dev", "pair")
    assert rows.targets["score"].tolist() == [3.0]
    assert data.problems("test", store) == ["dataset.test: no file given; pass dataset.test=FILE"]
