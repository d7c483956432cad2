import gzip

from embedrun.dataset.pairs import Texts


def test_each_line_of_a_plain_text_file_is_a_row(tmp_path, store):
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress('\ufeffOne.\r\nTwo, "2"\tx\r\n\r\n'.encode()))
    rows = Texts(path=str(tmp_path / "a.txt.gz")).read("train", store)
    assert (rows.name, rows.form, rows.texts) == ("texts", "text", {"text": ["One.", 'Two, "2"\tx']})


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
