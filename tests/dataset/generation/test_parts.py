import pytest

from embedrun.curation.generation.answers import Sifted
from embedrun.curation.generation.output import Parts, blocks
from embedrun.errors import DataError

PAIR = {"text1": "a", "text2": "b", "score": 1, "llm": "x"}


def test_blocks_are_cut_from_the_first_sentence_on():
    assert blocks(list("abcde"), 2) == [["a", "b"], ["c", "d"], ["e"]]


def test_a_part_comes_back_and_is_written_once(tmp_path):
    parts = Parts(tmp_path / "parts", {"size": 2})
    parts.check()
    parts.write(3, [Sifted([PAIR], []), Sifted([], [{"reason": "r"}])])
    once = parts.path(3).read_bytes()
    parts.write(3, [])
    assert parts.path(3).read_bytes() == once
    assert parts.read(3) == ([PAIR], [{"reason": "r"}])
    assert [parts.has(block) for block in (2, 3)] == [False, True]
    parts.check()


def test_a_part_of_other_settings_is_refused_and_the_message_says_which(tmp_path):
    Parts(tmp_path, {"size": 2, "block": 200, "llms": ["a"]}).write(0, [])
    with pytest.raises(DataError, match=r"made with another size, llms; .*another output=DIR"):
        Parts(tmp_path, {"size": 3, "block": 200, "llms": ["b"]}).check()


@pytest.mark.parametrize("change", [lambda raw: b"", lambda raw: raw[:-9], lambda raw: b"x" + raw])
def test_a_damaged_part_is_refused(tmp_path, change):
    parts = Parts(tmp_path, {"size": 2})
    parts.write(0, [Sifted([PAIR], [])])
    parts.path(0).write_bytes(change(parts.path(0).read_bytes()))
    with pytest.raises(DataError, match=r"not a readable part .* delete it"):
        parts.check()


def test_a_part_under_the_name_of_another_is_refused(tmp_path):
    parts = Parts(tmp_path, {})
    parts.write(0, [])
    parts.path(0).rename(parts.path(1))
    with pytest.raises(DataError, match="it is the part of block 0"):
        parts.check()
