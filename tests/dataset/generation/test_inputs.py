import gzip

import pytest

from embedrun.curation.generation.answers import distinct, file_problems, fingerprint, of_rows, read_file
from embedrun.errors import DataError
from embedrun.rows import Rows


@pytest.mark.parametrize(
    "content", ["A cat.\nIt rains.\n", "A cat.\r\nIt rains.\r\n\r\n", "\ufeffA cat.\nIt rains."]
)
def test_a_text_file_has_a_sentence_a_line(tmp_path, content):
    (tmp_path / "a.txt").write_bytes(content.encode())
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(content.encode()))
    for name in ("a.txt", "a.txt.gz"):
        assert file_problems(tmp_path / name) == []
        assert read_file(tmp_path / name) == ["A cat.", "It rains."]


def test_a_blank_line_inside_is_a_fault_with_its_number(tmp_path):
    (tmp_path / "a.txt").write_text("A cat.\n\nIt rains.\n")
    with pytest.raises(DataError, match=r"a\.txt, line 2: the text is empty"):
        read_file(tmp_path / "a.txt")


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("\n")
    with pytest.raises(DataError, match="the file is empty"):
        read_file(tmp_path / "a.txt")


def test_a_missing_file_gets_the_nearest_name_and_a_table_the_way_on(tmp_path):
    (tmp_path / "sentences.txt").touch()
    (problem,) = file_problems(tmp_path / "sentence.txt")
    assert "did you mean 'sentences.txt'?" in problem
    (problem,) = file_problems(tmp_path / "a.TSV.gz")
    assert "dataset=pairs dataset.path=FILE column=text1" in problem


def test_a_column_of_a_data_set_is_chosen_by_its_name():
    rows = Rows(name="x", split="train", form="pair", texts={"left": ["a"], "right": ["b"]})
    assert of_rows(rows, None) == of_rows(rows, "text1") == ["a"]
    assert of_rows(rows, "text2") == ["b"]
    with pytest.raises(DataError, match=r"no 'text3'; did you mean 'text\d'\? \(columns: text1, text2\)"):
        of_rows(rows, "text3")


def test_each_sentence_is_taken_once_in_its_first_place():
    assert distinct(["b", "a", "b", "c"], None) == ["b", "a", "c"]
    assert distinct(["b", "a", "b", "c"], 2) == ["b", "a"]


def test_the_fingerprint_is_that_of_the_list_and_not_of_the_joined_text():
    assert fingerprint(["ab", "c"]) != fingerprint(["a", "bc"])
    assert fingerprint(["ab", "c"]) == fingerprint(["ab", "c"])
