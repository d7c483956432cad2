import gzip

import pytest

from embedrun.files import packed, publish, to_json_line, to_json_lines


def test_a_published_file_stays_unless_it_may_be_replaced(tmp_path):
    path = tmp_path / "new" / "a"
    publish(path, b"1")
    publish(path, b"2")
    assert path.read_bytes() == b"1"
    publish(path, b"3", replace=True)
    assert path.read_bytes() == b"3"
    assert [entry.name for entry in path.parent.iterdir()] == ["a"]


def test_a_write_that_fails_leaves_nothing(tmp_path):
    with pytest.raises(TypeError):
        publish(tmp_path / "a", "text")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_packed_bytes_know_neither_time_nor_name():
    once = packed(b"content" * 100)
    assert gzip.decompress(once) == b"content" * 100
    assert once[4:8] == bytes(4)  # the time
    assert once[3] == 0  # flags: no name
    assert packed(b"content" * 100) == once


def test_json_is_utf8_and_half_a_surrogate_pair_is_a_question_mark():
    assert to_json_line({"b": "é", "a": "\ud800"}) == '{"b": "é", "a": "?"}'.encode()
    assert to_json_lines([1, "x"]) == b'1\n"x"\n'
