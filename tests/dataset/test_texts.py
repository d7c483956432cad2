import gzip

from embedrun.dataset.pairs import Texts


def test_each_line_of_a_plain_text_file_is_a_row(tmp_path, store):
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress('\ufeffOne.\r\nTwo, "2"\tx\r\n\r\n'.encode()))
    rows = Texts(path=str(tmp_path / "a.txt.gz")).read("train", store)
    assert (rows.name, rows.form, rows.texts) == ("texts", "text", {"text": ["One.", 'Two, "2"\tx']})
